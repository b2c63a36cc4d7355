"""Conversions against the real code: RecordsUtil.downConvert of 3.9.1, and what Kafka 4.3.1 reads of the results."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kdump import testing
from kdump.codes import Codes
from kdump.convert.conversion import Conversion
from kdump.convert.export import ExportJob, export_segment
from kdump.convert.run import plan_conversion, plan_import
from kdump.convert.segment import SegmentJob, convert_segment
from kdump.format import legacy
from kdump.format.batch import CODEC_NAMES
from kdump.inputs import resolve
from kdump.reading.selection import Range
from kdump.system.files import publish
from kdump.wire import compression
from tests.harness.captures import Captures
from tests.oracle.toolchain import DUMP_RELEASE, WRITER_RELEASE, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

SIZE_LIMIT = 5_000_000
_ZSTD_REFUSED = "org.apache.kafka.common.errors.UnsupportedCompressionTypeException"
CODECS = range(len(CODEC_NAMES))


class Line(NamedTuple):
    """A record as Kafka reads it."""

    offset: str
    timestamp: str
    timestamp_type: str
    flags: str
    contents: str

    def in_magic(self, magic: int) -> Line:
        """As an older format holds it: without headers and flags, and without time where it has none."""
        key, value, *_ = self.contents.split(" ")
        time = (self.timestamp, self.timestamp_type) if magic else ("-1", "-1")
        return Line(self.offset, *time, "--", f"{key} {value}")

    @property
    def is_control(self) -> bool:
        return self.flags[1] == "C"


@pytest.fixture(scope="module")
def sources(captures: Captures, generated: list[Path]) -> list[Path]:
    return [path for path in (*generated, *captures.files(".log", SIZE_LIMIT)) if path.stat().st_size]


def ask(release: str, program: str, lines: Iterable[str]) -> list[str]:
    try:
        command = java_command(release, program, options=("-Xmx2g",))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.splitlines()


def down_converted(sources: list[Path], magic: int, folder: Path) -> list[bytes | None]:
    """What the real code makes of each; None where it refuses zstd."""
    outputs = [folder / f"{number}.log" for number in range(len(sources))]
    lines = (f"{source}\t{magic}\t{output}" for source, output in zip(sources, outputs, strict=True))
    answers = ask(WRITER_RELEASE, "org.apache.kafka.common.record.DownConversion", lines)
    assert set(answers) <= {"-", _ZSTD_REFUSED}
    return [output.read_bytes() if answer == "-" else None for answer, output in zip(answers, outputs, strict=True)]


def read_back(paths: list[Path]) -> list[list[Line]]:
    """The records of each log; AssertionError for what Kafka finds wrong."""
    logs: list[list[Line]] = []
    lines: list[Line] = []
    for text in ask(DUMP_RELEASE, "ReadBack", map(str, paths)):
        if text.startswith("="):
            assert text == "=", f"{paths[len(logs)]}: {text}"
            logs.append(lines)
            lines = []
        else:
            lines.append(Line(*text.split(" ", 4)))
    assert len(logs) == len(paths)
    return logs


def convert(source: Path, target: Path, **settings: object) -> bool:
    """Convert; False where zstd is refused."""
    result = convert_segment(SegmentJob(str(source), str(target), None, Conversion(**settings)))  # type: ignore[arg-type]
    if result.error is not None:
        assert "zstd" in result.error.message, result.error
        return False
    publish(result.staged)
    return True


def unpacked(log: bytes) -> Iterator[tuple[object, ...]]:
    """Messages; of compressed ones what does not depend on the library that compressed them."""
    position = 0
    while position < len(log):
        end = position + 12 + struct.unpack_from(">i", log, position + 8)[0]
        entry = legacy.parse_message(memoryview(log)[position:end])
        position = end
        value = entry.value()
        if entry.codec in (compression.SNAPPY, compression.LZ4) and value is not None:
            content = bytes(compression.decompress(entry.codec, value, magic=entry.magic))
            yield *entry[:2][:1], *entry[3:6], entry.key(), value[:7], content
        else:
            yield (bytes(entry.data),)


@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion(sources: list[Path], magic: int, tmp_path: Path) -> None:
    compared = exact = 0
    for source, expected in zip(sources, down_converted(sources, magic, tmp_path), strict=True):
        target = tmp_path / "kdump.log"
        assert convert(source, target, to_magic=magic) == (expected is not None), source
        if expected is None:
            continue
        got = target.read_bytes()
        compared += 1
        exact += got == expected
        assert list(unpacked(got)) == list(unpacked(expected)), source
    print(f"{compared} conversions to magic {magic}, {exact} of them byte for byte")
    assert compared > len(sources) // 2


@pytest.mark.parametrize("codec", [None, *CODECS])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_kafka_reads_it(sources: list[Path], magic: int, codec: int | None, tmp_path: Path) -> None:
    pairs = [(source, tmp_path / f"{number}.log") for number, source in enumerate(sources)]
    pairs = [pair for pair in pairs if convert(*pair, to_magic=magic, codec=codec)]
    before, after = (read_back(list(paths)) for paths in zip(*pairs, strict=True)) if pairs else ((), ())
    for (source, _), old, new in zip(pairs, before, after, strict=True):
        if magic < 2:
            assert new == [line.in_magic(min(magic, _magic(line))) for line in old if not line.is_control], source
        else:
            # Magic 0 had no type of its timestamps.
            assert new == [line._replace(timestamp_type=line.timestamp_type.replace("-1", "0")) for line in old], source
    if not (magic < 2 and codec == compression.ZSTD):
        assert len(pairs) > len(sources) // 2


def _magic(line: Line) -> int:
    return 0 if line.timestamp_type == "-1" else 1


def test_slices(sources: list[Path], tmp_path: Path) -> None:
    """The records of the range, and after them only markers that end a transaction in it."""
    targets, wanted = [], []
    for number, (source, lines) in enumerate(zip(sources, read_back(sources), strict=True)):
        if len(lines) < 4:
            continue
        first, end = int(lines[len(lines) // 4].offset), int(lines[len(lines) * 3 // 4].offset)
        target = tmp_path / f"{number}.log"
        assert convert(source, target, offsets=Range(first, end), keep_open=True)
        targets.append(target)
        wanted.append((first, end, lines))
    for (first, end, lines), got in zip(wanted, read_back(targets), strict=True):
        following = [line for line in got if int(line.offset) >= end]
        assert [line[:3] + line[4:] for line in got if int(line.offset) < end] == [
            line[:3] + line[4:] for line in lines if first <= int(line.offset) < end
        ]
        # They may come from the next segment.
        assert [line for line in following if not line.is_control] == []


def test_numbers(sources: list[Path], tmp_path: Path) -> None:
    targets, expected = [], []
    for number, (source, lines) in enumerate(zip(sources, read_back(sources), strict=True)):
        target = tmp_path / f"{number}.log"
        assert convert(source, target, renumber=7)
        targets.append(target)
        data = [line for line in lines if not line.is_control]
        expected.append([(str(7 + row), *line[1:3], *line[4:]) for row, line in enumerate(data)])
    assert [[line[:3] + line[4:] for line in lines] for lines in read_back(targets)] == expected


def test_json_lines_out_and_in(sources: list[Path], tmp_path: Path) -> None:
    targets = []
    for number, source in enumerate(sources):
        lines, target = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.log"
        exported = export_segment(ExportJob(str(source), str(lines), "jsonl", Conversion()))
        assert exported.error is None
        publish(exported.staged)
        (job,) = plan_import(resolve(str(lines)), str(target), Conversion())
        result = convert_segment(job)
        assert result.error is None, result.error
        publish(result.staged)
        targets.append(target)
    for source, old, new in zip(sources, read_back(sources), read_back(targets), strict=True):
        assert old == new, source


@pytest.mark.parametrize("codec", [None, *CODEC_NAMES[1:]])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_kafka_reads_segments_for_tests(magic: int, codec: str | None, tmp_path: Path) -> None:
    if magic < 2 and codec == "zstd":
        pytest.skip("Kafka has no zstd there")
    pairs = [(f"k{number}".encode(), b"v" * number if number % 5 else None) for number in range(300)]
    path = testing.write_segment(tmp_path / "t-0", pairs, magic=magic, codec=codec, records_per_batch=7)
    (lines,) = read_back([path])
    assert [int(line.offset) for line in lines] == list(range(300))
    assert [line.contents for line in lines] == [f"{key.hex()} {'-' if v is None else v.hex()}" for key, v in pairs]


@pytest.mark.parametrize("codec", [None, *CODEC_NAMES[1:]])
@pytest.mark.parametrize("transactional", ["commit", "abort", True])
def test_kafka_reads_transactions_for_tests(transactional: Any, codec: str | None, tmp_path: Path) -> None:
    pairs = [(b"k", b"v")] * 30
    path = testing.write_segment(
        tmp_path / "t-0", pairs, codec=codec, producer=(7, 2), transactional=transactional, records_per_batch=4
    )
    (lines,) = read_back([path])
    assert [line.is_control for line in lines] == [False] * 30 + [True] * (transactional is not True)
    ((stable, offsets),) = committed([path.parent], tmp_path / "work")
    assert stable == (0 if transactional is True else 31)
    assert offsets == (list(range(30)) if transactional == "commit" else [])


def committed(directories: list[Path], work: Path) -> list[tuple[int, list[int]]]:
    """The last stable offset of each partition and the offsets that a consumer with read_committed gets of it."""
    try:
        program = "org.apache.kafka.clients.consumer.internals.CommittedReader"
        # Its classes inside the consumer have other names in 4.4; what a consumer leaves out has not changed.
        command = java_command("k43", program, options=("-Xmx1g",))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    text = "".join(f"{directory}\n" for directory in directories)
    run = subprocess.run([*command, str(work)], input=text, capture_output=True, text=True, check=True)
    answers = [line.split("\t") for line in run.stdout.splitlines()]
    return [(int(stable), [int(offset) for offset in offsets.split()]) for stable, offsets in answers]


def test_parts_show_readers_of_committed_records_what_the_source_does(captures: Captures, tmp_path: Path) -> None:
    """Of captures with transactions: a slice has the records that the source's reader gets, cut to the slice."""
    sources = [captures.root / name for name in captures.partitions() if "txn" in name]
    views = committed(sources, tmp_path / "sources")
    parts: list[tuple[Path, Conversion, list[int]]] = []
    refused = 0
    for source, (stable, visible) in zip(sources, views, strict=True):
        times = {int(line.offset): int(line.timestamp) for log in read_back(segments(source)) for line in log}
        if not times:
            continue
        offsets = sorted(times)
        cuts = [offsets[len(offsets) * part // 7] for part in range(7)]
        wanted = [Conversion(offsets=Range(first, end)) for first in cuts for end in (*cuts, None) if first != end]
        moments = sorted(times.values())
        wanted += [
            Conversion(times=Range(moments[len(moments) * part // 7], moments[len(moments) * (part + 2) // 7]))
            for part in range(5)
        ]
        for conversion in wanted:
            if conversion.offsets.is_empty:
                continue
            target = tmp_path / f"part-{len(parts) + refused}" / "t-0"
            target.mkdir(parents=True)
            results = [convert_segment(job) for job in plan_conversion(resolve(str(source)), f"{target}/", conversion)]
            errors = {result.error.code for result in results if result.error is not None}
            assert errors <= {Codes.SLICE_OPEN}
            if errors:
                # Something of it is above what the source's reader gets.
                end = conversion.offsets.end
                assert end is None or end > stable
                refused += 1
                continue
            for result in results:
                publish(result.staged)
            expected = [
                offset for offset in visible if offset in conversion.offsets and times[offset] in conversion.times
            ]
            parts.append((target, conversion, expected))
    got = committed([target for target, _, _ in parts], tmp_path / "parts")
    for (target, conversion, expected), (_, offsets) in zip(parts, got, strict=True):
        assert offsets == expected, (target, conversion)
    print(f"{len(parts)} parts of {len(sources)} partitions, {refused} refused")
    assert len(parts) > 30


def segments(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))
