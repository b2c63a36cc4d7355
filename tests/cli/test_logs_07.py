"""Logs of Kafka 0.7 against what its real tool, its message sets and its loader made of them (fixtures/cases)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kdump.dump.run import DumpRun
from kdump.dump.targets import followed
from kdump.format.record import PIECE_RECORDS
from kdump.inputs import resolve
from kdump.kafka07.message import write_message
from kdump.log.names import MAX_OFFSET
from kdump.reading.reporter import Reporter
from kdump.stats.partfold import PartFold
from kdump.stats.records import EntryRecords
from kdump.wire.compression import GZIP, compress
from tests.harness.archives import case_files, unpack_cases
from tests.harness.cli_runs import kdump as run_in_process
from tests.harness.cli_runs import kdump_bound_by_modes
from tests.harness.dumpoptions import text_dump
from tests.harness.examples import sparse
from tests.harness.targets import target_by_path

NAME = "kafka07"
FILES = case_files(NAME)
GOLDENS = sorted(
    path.removeprefix(f"{NAME}/")
    for path in FILES
    if "/golden/" in path and path.endswith(".out") and f"{NAME}/cli/" not in path
)
COMMAND_LINES = sorted(Path(path).stem for path in FILES if path.endswith(".args"))
ITERATIONS = sorted(path.removeprefix(f"{NAME}/") for path in FILES if "/iteration/" in path)
RECOVERIES = sorted(path.split("/")[1] for path in FILES if path.endswith("/recovery.json"))
STARTUPS = sorted(path.split("/")[2] for path in FILES if path.endswith("/before.ls"))
CLEAN = ["none-0", "snappy-0", "default-0", "multi-0", "magic0-0", "attrs-0", "utf8-0", "text-0", "events-1"]
PRINTS = {"default": ["--print-data-log"], "noprint": []}


class Outcome(NamedTuple):
    out: bytes
    err: str
    status: int

    @property
    def rows(self) -> list[dict[str, Any]]:
        """JSON lines."""
        return [json.loads(line) for line in self.out.decode().split("\n") if line]


Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases(NAME, tmp_path_factory.mktemp(NAME))


@pytest.fixture
def kdump(root: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process, in the directory of the cases or one below."""
    monkeypatch.chdir(root)

    def run(*args: str) -> Outcome:
        result = run_in_process(*args, cwd=Path.cwd())
        return Outcome(result.stdout, result.stderr.decode(), result.returncode)

    return run


def golden(path: str) -> tuple[bytes, int, str]:
    """Standard output, exit status and standard error of the real tool."""
    stem = f"{NAME}/{path.removesuffix('.out')}"
    return FILES[f"{stem}.out"], int(FILES[f"{stem}.rc"]), FILES[f"{stem}.err"].decode()


@pytest.mark.parametrize("path", sparse(GOLDENS, fast=4))
def test_the_text_is_that_of_its_tool(path: str, kdump: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, status, error = golden(path)
    if "OutOfMemoryError" in error:
        pytest.skip("depends on the heap of the tool's run")
    case, _, name = path.rpartition("/golden/")
    file, _, flag = name.removesuffix(".out").rpartition(".0.7.0.")
    monkeypatch.chdir(case)
    files = sorted(file for file in os.listdir() if file.endswith(".kafka")) if file == "ALL" else [file]
    got = kdump("dump", *PRINTS[flag], "--log-format", "0.7", "--", *files)
    if status and len(files) > 1:
        # kdump goes on with the next file.
        assert got.out.startswith(expected)
    else:
        assert got.out == expected
    assert got.status or not status


@pytest.mark.parametrize("call", COMMAND_LINES)
def test_names_are_taken_as_its_tool_takes_them(call: str, kdump: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, status, _ = golden(f"cli/golden/{call}.out")
    args = FILES[f"{NAME}/cli/golden/{call}.args"].decode().removesuffix("\n").split("\n")
    files = [arg for arg in args if arg.lower() != "-noprint"]
    if not any(files) or any("," in file or file.startswith("/") for file in files):
        pytest.skip("no file, or a name that --files cannot have")
    monkeypatch.chdir("cli")
    prints = ["--print-data-log"] if files == args else []
    got = kdump("dump", *prints, "--log-format", "0.7", "--files", ",".join(files))
    # An exception ends the tool; kdump goes on with the next file.
    assert got.out.startswith(expected) if status else got.out == expected
    assert bool(got.status) == bool(status)


def digest(value: object) -> str:
    data = base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
    return hashlib.sha256(data).hexdigest()[:16]


@pytest.mark.parametrize("path", sparse(ITERATIONS, fast=4))
def test_records_are_those_of_a_consumer(path: str, kdump: Run) -> None:
    case, _, name = path.removesuffix(".json").rpartition("/iteration/")
    listed = json.loads(FILES[f"{NAME}/{path}"])
    stem = name.partition(".")[0]
    base = int(stem) if stem.isdecimal() else 0
    expected = [
        (base + one["offset"], one["magic"], one["valid"], one["payloadSize"], one["payloadSha256"])
        for one in listed["deep"]["messages"]
    ]
    got = kdump("dump", "--log-format", "0.7", "--output", "jsonl", "--records", f"{case}/{name}")
    rows = [
        (row["nextOffset"], row["magic"], row["isValid"], row["valueSize"], digest(row["value"]))
        for row in got.rows
        if row["type"] == "record"
    ]
    if "exception" in listed["deep"]:
        # A consumer ends at the first damage, kdump shows what has a wrong CRC and goes on.
        assert rows[: len(expected)] == expected
        assert got.status == 1
    else:
        assert rows == expected
    assert all(row["offset"] <= row["nextOffset"] for row in got.rows if row["type"] == "record")


@pytest.mark.parametrize("path", sparse(ITERATIONS, fast=4))
def test_batches_are_the_entries(path: str, kdump: Run) -> None:
    case, _, name = path.removesuffix(".json").rpartition("/iteration/")
    listed = json.loads(FILES[f"{NAME}/{path}"])["shallow"]
    stem = name.partition(".")[0]
    base = int(stem) if stem.isdecimal() else 0
    expected = [(base + one["offset"], one["magic"], one["valid"], one["payloadSize"]) for one in listed["messages"]]
    got = kdump("dump", "--log-format", "0.7", "--output", "jsonl", f"{case}/{name}")
    rows = [
        (row["nextOffset"], row["magic"], row["isValid"], row["size"] - 9 - row["magic"])
        for row in got.rows
        if row["type"] == "batch"
    ]
    assert rows[: len(expected)] == expected
    assert len(rows) == len(expected) or "exception" in listed


@pytest.mark.parametrize("stop", ["recovery", "cleanShutdown"])
@pytest.mark.parametrize("case", sparse(RECOVERIES, fast=4))
def test_a_start_leaves_what_the_loader_leaves(case: str, stop: str, kdump: Run) -> None:
    truth = json.loads(FILES[f"{NAME}/{case}/recovery.json"])[stop]
    flag = "--unclean" if stop == "recovery" else "--clean"
    got = kdump("verify", "--startup", "--log-format", "0.7", "--output", "jsonl", flag, case)
    row = got.rows[0]
    files = [(file["name"], file["size"], file["sha256"]) for file in row["files"] if file["name"].endswith(".kafka")]
    assert sorted(files) == sorted((file["name"], file["size"], file["sha256"]) for file in truth["after"])
    exception = truth.get("exception", "")
    assert (row["exception"] or "") == exception.partition(":")[0]
    assert row["outcome"] == ("broker_stops" if exception else "starts")
    if not exception:
        assert row["logEndOffset"] == truth["loaded"]["nextAppendOffset"]
        assert len(row["segments"]) == truth["loaded"]["segments"]


@pytest.mark.parametrize("case", sparse(RECOVERIES, fast=4))
def test_a_repair_writes_what_the_loader_leaves(case: str, kdump: Run, tmp_path: Path) -> None:
    truth = json.loads(FILES[f"{NAME}/{case}/recovery.json"])["recovery"]
    got = kdump("repair", "--like-broker", "--log-format", "0.7", "-o", str(tmp_path), case)
    written = (
        {path.name: path.read_bytes() for path in (tmp_path / case).glob("*")} if (tmp_path / case).exists() else {}
    )
    if "exception" in truth:
        assert (got.status, written) == (1, {})
        return
    assert got.status == 0
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in written.items()}
    assert digests == {file["name"]: file["sha256"] for file in truth["after"]}
    # Each log alone, as a file: the last one is cut, the others are not.
    for name, data in written.items() if truth["before"] else ():
        alone = tmp_path / "alone" / name
        assert kdump("repair", "-o", str(alone), f"{case}/{name}").status == 0
        assert {path.name for path in alone.iterdir()} == {name, f"kdump-{name}.json"}
        assert (alone / name).read_bytes() == data


@pytest.mark.parametrize("case", sparse(RECOVERIES, fast=4))
def test_a_repair_in_place_leaves_what_the_loader_leaves(case: str, kdump: Run, tmp_path: Path) -> None:
    truth = json.loads(FILES[f"{NAME}/{case}/recovery.json"])["recovery"]
    copy = tmp_path / case
    shutil.copytree(case, copy, ignore=shutil.ignore_patterns("golden", "iteration", "*.json", "*.txt"))
    before = contents(copy)
    got = kdump("repair", "--in-place", "--like-broker", "--log-format", "0.7", "--output", "jsonl", str(copy))
    (row,) = got.rows
    if "exception" in truth or not row["isDamaged"]:
        assert (got.status, contents(copy)) == (int("exception" in truth), before)
        return
    assert got.status == 0
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents(copy).items()}
    assert digests == {file["name"]: file["sha256"] for file in truth["after"]}
    assert kdump("repair", "--in-place", "--like-broker", "--log-format", "0.7", str(copy)).status == 0
    assert kdump("repair", "--undo", row["manifest"]).status == 0
    assert contents(copy) == before


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_a_repair_in_place_asks_before_it_cuts_off_good_messages(kdump: Run, tmp_path: Path) -> None:
    copy = tmp_path / f"{0:020}.kafka"
    data = FILES[f"{NAME}/none-0/{copy.name}"]
    copy.write_bytes(data[:10] + bytes([data[10] ^ 1]) + data[11:])
    refused = kdump("repair", "--in-place", str(copy))
    assert (refused.status, copy.read_bytes()[10]) == (1, data[10] ^ 1)
    assert "--like-broker cuts them off" in refused.err
    other = tmp_path / "other"
    os.link(copy, other)
    linked = kdump("repair", "--in-place", "--like-broker", str(copy))
    assert (linked.status, "hard link" in linked.err) == (1, True)
    other.unlink()
    copy.chmod(0o400)
    read_only = kdump_bound_by_modes("repair", "--in-place", "--like-broker", str(copy), cwd=tmp_path)
    assert (read_only.returncode, b"may not be written" in read_only.stderr) == (1, True)
    copy.chmod(0o600)
    assert kdump("repair", "--in-place", "--like-broker", str(copy)).status == 0
    assert copy.read_bytes() == b""
    assert kdump("repair", "--in-place", "--salvage", str(copy)).status == 1


def test_a_log_is_followed_to_the_next_one(tmp_path: Path) -> None:
    """The file grows, and the next one comes, while kdump waits."""
    data = FILES[f"{NAME}/none-0/{0:020}.kafka"]
    half = len(data) // 2
    first, second = tmp_path / f"{0:020}.kafka", tmp_path / f"{len(data):020}.kafka"
    first.write_bytes(data[:half])
    third = tmp_path / f"{2 * len(data):020}.kafka"
    steps = iter([(first, data), (second, data), (third, b"")])

    def on_wait(_: str) -> None:
        path, contents = next(steps)
        path.write_bytes(contents)

    out: list[bytes] = []
    run = DumpRun(text_dump(print_data_log=True), lambda text: out.append(bytes(text)), Reporter(print, print))
    for target in followed(resolve(str(tmp_path)), on_wait):
        run.dump(target)
        if target.path == str(second):
            break
    whole: list[bytes] = []
    run = DumpRun(text_dump(print_data_log=True), lambda text: whole.append(bytes(text)), Reporter(print, print))
    for path in (first, second):
        target = target_by_path(str(path))
        assert target is not None
        run.dump(target)
    assert b"".join(out) == b"".join(whole)


@pytest.mark.parametrize("case", sparse(RECOVERIES, fast=4))
def test_what_is_said_to_be_recovered_is_what_the_loader_cuts(case: str, kdump: Run) -> None:
    truth = json.loads(FILES[f"{NAME}/{case}/recovery.json"])["recovery"]
    if "exception" in truth or not truth["before"]:
        return
    got = kdump("verify", case)
    cut = sum(file["size"] for file in truth["before"]) - sum(file["size"] for file in truth["after"])
    words = "1 byte is cut" if cut == 1 else f"{cut:,} bytes are cut"
    assert (words in got.out.decode()) is bool(cut)
    if cut:
        assert got.status == 1


@pytest.mark.parametrize("name", STARTUPS)
def test_a_broker_starts_or_stops(name: str, kdump: Run, tmp_path: Path) -> None:
    whole = FILES[f"{NAME}/two-ok-0/00000000000000000000.kafka"]
    short = FILES[f"{NAME}/size5-magic1-last-0/00000000000000000000.kafka"]
    directory = tmp_path / "logs"
    directory.mkdir()
    for line in FILES[f"{NAME}/startup/{name}/before.ls"].decode().splitlines():
        path, kind, size = line.rsplit(" ", 2)
        if kind == "d":
            (directory / path).mkdir(parents=True, exist_ok=True)
        else:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            data = next((one for one in (whole, short) if len(one) == int(size)), b"\0" * int(size))
            is_odd = name.startswith("unknown-magic") and path.startswith("a-0/")
            (directory / path).write_bytes(data[:4] + b"\x02" + data[5:] if is_odd else data)
    started = FILES[f"{NAME}/startup/{name}/started"].decode().strip() == "1"
    got = kdump("verify", "--startup", "--log-format", "0.7", str(directory))
    assert got.status == int(not started)
    exception = next(
        (line for line in FILES[f"{NAME}/startup/{name}/log.txt"].decode().splitlines() if "Exception" in line), ""
    )
    if not started:
        assert exception.partition(":")[0] in got.out.decode()
        assert "its next start recovers nothing" in got.out.decode()


@pytest.mark.parametrize("case", CLEAN)
def test_clean_logs_are_clean(case: str, kdump: Run) -> None:
    got = kdump("verify", case)
    assert got.status == 0
    assert b"error" not in got.out


@pytest.mark.parametrize(
    ("case", "code", "position", "length"),
    [
        ("crc-last-0", "KD108", 831, 45),
        ("len-over-next-0", "KD107", 44, 44),
        ("len-to-end-0", "KD107", 44, 44),
        ("bom-0", "KD101", 0, 3),
        ("zeros-9-0", "KD109", 876, 9),
        ("nonsense-valid-after-gap-0", "KD106", 876, 4),
        ("tail-3-0", "KD104", 831, 3),
        ("tail-10-0", "KD105", 831, 10),
        ("codec-3-0", "KD201", 44, 44),
        ("gzip-broken-crcok-0", "KD202", 133, 102),
        ("magic-127-0", "KD102", 44, 44),
        ("size5-magic1-0", "KD208", 235, 9),
        ("name-text-0", "KD316", 0, None),
        ("three-middle-missing-0", "KD406", 0, None),
        ("two-overlap-0", "KD408", 0, None),
    ],
)
def test_findings(case: str, code: str, position: int, length: int | None, kdump: Run) -> None:
    got = kdump("verify", "--output", "jsonl", case)
    assert got.status == 1
    assert [(row["code"], row["position"], row["length"]) for row in got.rows] == [(code, position, length)]


def test_resync_shows_what_comes_after_damage(kdump: Run) -> None:
    whole = kdump("dump", "--output", "jsonl", "len-0-0").rows
    rows = kdump("dump", "--output", "jsonl", "--resync", "len-0-0").rows
    assert len(whole) == 1
    assert [row["type"] for row in rows] == ["batch", "finding", *["batch"] * 6]
    assert rows[1]["continueAt"] == rows[2]["baseOffset"] == 88


@pytest.mark.parametrize("magic", ["0", "1", "2"])
@pytest.mark.parametrize("case", sparse(CLEAN, fast=4))
def test_converted_logs_have_the_same_values(case: str, magic: str, kdump: Run, tmp_path: Path) -> None:
    assert kdump("convert", case, "-o", str(tmp_path / case), "--to-magic", magic, "--offset-map").status == 0
    values = kdump("dump", "--output", "jsonl", "--records", case).rows
    converted = kdump("dump", "--output", "jsonl", "--records", str(tmp_path / case)).rows
    assert [row["value"] for row in converted] == [row["value"] for row in values]
    assert [row["offset"] for row in converted] == list(range(len(values)))
    assert {row["magic"] for row in converted} <= {int(magic)}
    assert {row["compression"] for row in converted} == {row["compression"] for row in values}
    assert kdump("verify", "--strict", str(tmp_path / case)).status == 0
    # A consumer that kept a position goes on at the offset that the map gives for it.
    mapped: dict[int, int] = {}
    for file in sorted((tmp_path / case).glob("*.offsets.csv")):
        title, *lines = file.read_text().splitlines()
        assert title == "byteOffset,offset"
        mapped |= {int(before): int(after) for before, after in (line.split(",") for line in lines)}
    for number, row in enumerate(values):
        assert mapped[row["offset"]] <= number
        if row["nextOffset"] != row["offset"]:
            assert mapped[row["nextOffset"]] == number + 1


@pytest.mark.parametrize(("room", "said"), [(3, "do not fit below"), (0, "would begin at offset")])
def test_numbers_end_at_the_largest_offset(room: int, said: str, kdump: Run, tmp_path: Path) -> None:
    """As for logs of today; nothing that does not fit is left out as damaged."""
    case = "none-0" if room else "multi-0"
    count = len(kdump("dump", "--output", "jsonl", "--records", case).rows)
    target = str(tmp_path / "out")
    words = (case, "-o", target, "--to-magic", "2", "--skip-damaged", "--renumber")
    got = kdump("convert", *words, str(MAX_OFFSET - room))
    assert (got.status, said in got.err) == (1, True)
    assert not os.path.exists(target)
    assert kdump("convert", *words, str(MAX_OFFSET + 1 - count)).status == 1
    assert kdump("convert", *words, str(MAX_OFFSET - count)).status == 0


def test_damage_is_not_converted(kdump: Run, tmp_path: Path) -> None:
    target = str(tmp_path / "out")
    assert kdump("convert", "crc-magic0-0", "-o", target, "--to-magic", "1").status == 1
    assert not os.path.exists(target)
    got = kdump("convert", "crc-magic0-0", "-o", target, "--to-magic", "1", "--skip-damaged")
    assert got.status == 1
    assert "left out: KD108" in got.err
    assert len(kdump("dump", "--output", "jsonl", "--records", target).rows) == 16


@pytest.mark.parametrize("case", [*CLEAN, "crc-last-0"])
def test_figures(case: str, kdump: Run) -> None:
    (figures,) = kdump("stats", "--by", "partition", "--output", "jsonl", case).rows
    records = kdump("dump", "--output", "jsonl", "--records", case).rows
    batches = kdump("dump", "--output", "jsonl", case).rows
    assert figures["records"] == figures["nullKeys"] == len(records)
    assert figures["valueBytes"] == sum(row["valueSize"] for row in records)
    assert figures["batches"] == len(batches)
    assert figures["bytes"] == sum(row["size"] for row in batches)
    assert (figures["missingOffsets"], figures["minTimestamp"]) == (0, None)
    assert figures["damagedBatches"] == sum(not row["isValid"] for row in batches)


def test_figures_do_not_depend_on_the_pieces_that_are_held(kdump: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("stats", "--by", "codec", "--output", "jsonl", *CLEAN)
    whole = kdump(*words).rows
    monkeypatch.setattr("kdump.kafka07.count._PIECE", 1)
    assert kdump(*words).rows == whole


def many_messages(directory: Path, count: int) -> Path:
    """A log of one wrapper with so many empty messages."""
    path = directory / f"{0:020}.kafka"
    path.write_bytes(write_message(compress(GZIP, write_message(b"") * count, magic=0), attributes=GZIP))
    return path


@pytest.mark.slow
def test_many_messages_in_one_wrapper_are_counted_piece_by_piece(
    kdump: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = many_messages(tmp_path, 3 * PIECE_RECORDS)
    sizes = []
    see = PartFold.see_records

    def seen(part: PartFold, entries: EntryRecords) -> None:
        sizes.append(entries.groups.table.rows)
        see(part, entries)

    monkeypatch.setattr(PartFold, "see_records", seen)
    (figures,) = kdump("stats", "--by", "codec", "--output", "jsonl", str(path)).rows
    assert max(sizes) <= 2 * PIECE_RECORDS
    assert (figures["records"], figures["batches"], figures["bytes"]) == (3 * PIECE_RECORDS, 1, path.stat().st_size)
    assert figures["codecs"]["gzip"]["storedBytes"] == path.stat().st_size


@pytest.mark.parametrize("magic", ["0", "1", "2"])
@pytest.mark.slow
def test_a_wrapper_that_would_become_larger_than_the_limit_becomes_several(
    magic: str, kdump: Run, tmp_path: Path
) -> None:
    path = many_messages(tmp_path, 3 * PIECE_RECORDS)
    limit = str(40 * PIECE_RECORDS)
    target = str(tmp_path / f"{0:020}.log")
    assert kdump("convert", str(path), "-o", target, "--to-magic", magic, "--max-decompressed-size", limit).status == 0
    (figures,) = kdump("stats", "--by", "codec", "--output", "jsonl", target).rows
    assert (figures["records"], figures["maxOffset"]) == (3 * PIECE_RECORDS, 3 * PIECE_RECORDS - 1)


@pytest.mark.parametrize("magic", ["0", "1", "2"])
@pytest.mark.parametrize(("size", "limit"), [(0, 10_000), (990, 1000), (300, 1000)])
def test_a_wrapper_that_fits_a_small_limit_is_converted(
    size: int, limit: int, magic: str, kdump: Run, tmp_path: Path
) -> None:
    """Its messages grow, and the log that kdump made of it was over the limit then."""
    values = [b"x" * size] * (limit // (10 + size))
    path = tmp_path / f"{0:020}.kafka"
    inner = b"".join(map(write_message, values))
    path.write_bytes(write_message(compress(GZIP, inner, magic=0), attributes=GZIP) + write_message(b"last"))
    target = str(tmp_path / f"{0:020}.log")
    limited = ("--max-decompressed-size", str(limit))
    assert kdump("convert", str(path), "-o", target, "--to-magic", magic, *limited).status == 0
    assert kdump("dump", "--output", "jsonl", "--records", target).rows[-1]["offset"] == len(values)


def test_redacted_values_keep_their_sizes(kdump: Run) -> None:
    plain = kdump("dump", "--output", "jsonl", "--records", "magic0-0").rows
    hidden = kdump("dump", "--output", "jsonl", "--records", "--redact", "magic0-0").rows
    sizes = ("valueSize", "nextOffset", "isValid")
    assert [[row[name] for name in sizes] for row in hidden] == [[row[name] for name in sizes] for row in plain]
    assert not {row["value"] for row in hidden if row["valueSize"] > 3} & {str(row["value"]) for row in plain}


def test_other_names_are_other_files(kdump: Run, tmp_path: Path) -> None:
    shutil.copy("two-ok-0/00000000000000000000.kafka", tmp_path / "00000000000000000000.bin")
    path = str(tmp_path / "00000000000000000000.bin")
    assert kdump("dump", path).status == 3
    assert kdump("dump", "--log-format", "0.7", path).status == 0
    assert "Ignoring unknown file" in kdump("dump", "--files", "two-ok-0/00000000000000000000.kafka").err


@pytest.mark.parametrize("case", ["none-0", "crc-last-0", "zeros-9-0"])
def test_a_stream_is_read_as_the_file_is(case: str, root: Path) -> None:
    data = FILES[f"{NAME}/{case}/00000000000000000000.kafka"]
    for command in (["dump"], ["dump", "--output", "jsonl", "--records", "--fields", "nextOffset,value"], ["verify"]):
        file = run_in_process(*command, "00000000000000000000.kafka", cwd=root / case)
        stream = run_in_process(*command, "--log-format", "0.7", "-", cwd=root / case, stdin=data)
        assert stream.returncode == file.returncode
        assert [line.split(b" ")[1:3] for line in stream.stdout.splitlines()][2:-1] == [
            line.split(b" ")[1:3] for line in file.stdout.splitlines()
        ][2:-1]


def test_filters(kdump: Run) -> None:
    def offsets(*options: str) -> list[int]:
        return [row["offset"] for row in kdump("dump", "--output", "jsonl", "--records", *options, "two-ok-0").rows]

    whole = offsets()
    assert offsets("--offset", "44:200") == [offset for offset in whole if 44 <= offset < 200]
    assert offsets("-n", "3") == whole[:3]
    assert offsets("--tail", "2") == whole[-2:]
    # No message has a timestamp, a key or a header.
    assert offsets("--time", "0..") == offsets("--key", ".") == offsets("--header", "a") == []
    assert 0 < len(offsets("--value", "alice")) < len(whole)
