"""``--dialect``: what a version did not have or know. The texts are compared in tests/golden/test_dialects.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.dump.dialects.versions import DIALECTS
from kdump.payloads.scala import map_order_212, map_order_213, set_order_212, set_order_213
from kdump.releases import DIALECTS as VERSIONS
from kdump.releases import NEWEST
from tests.harness.batches import message, plain_rows, v2_batch, wrapper
from tests.harness.cli_runs import CLEAN, DAMAGE, USAGE, kdump

LOG = f"{0:020}.log"


def dumped(folder: Path, *words: str) -> tuple[str, str, int]:
    result = kdump("dump", *words, cwd=folder)
    return result.stdout.decode(), result.stderr.decode(), result.returncode


@pytest.fixture
def legacy(tmp_path: Path) -> Path:
    """A directory with a log of magic 0."""
    data = message(0, 0, b"k", b"v") + message(0, 1, None, b"w") + message(0, 5, b"k", None)
    (tmp_path / LOG).write_bytes(data)
    return tmp_path


def test_the_oldest(legacy: Path) -> None:
    out, errors, status = dumped(legacy, "--dialect", "0.8.2", "--print-data-log", LOG)
    lines = [line.split(" crc: ") for line in out.splitlines()[2:]]
    assert out.splitlines()[:2] == [f"Dumping {LOG}", "Starting offset: 0"]
    assert [before for before, _ in lines] == [
        "offset: 0 position: 0 isvalid: true payloadsize: 1 magic: 0 compresscodec: NoCompressionCodec",
        "offset: 1 position: 28 isvalid: true payloadsize: 1 magic: 0 compresscodec: NoCompressionCodec",
        "offset: 5 position: 55 isvalid: true payloadsize: -1 magic: 0 compresscodec: NoCompressionCodec",
    ]
    assert [after.partition(" ")[2] for _, after in lines] == [
        "keysize: 1 key: k payload: v",
        "payload: w",
        "keysize: 1 key: k payload: null",
    ]
    assert errors == f"Non-secutive offsets in :{legacy / LOG}\n  1 is followed by 5\n"
    assert status == CLEAN


def test_a_wrapper_inside_a_wrapper(tmp_path: Path) -> None:
    inner = wrapper(0, 2, [message(0, 1, None, b"b"), message(0, 2, None, b"c")])
    (tmp_path / LOG).write_bytes(wrapper(0, 3, [message(0, 0, None, b"a"), inner, message(0, 3, None, b"d")]))
    words = ("--deep-iteration", "--print-data-log", LOG)
    out, errors, status = dumped(tmp_path, "--dialect", "0.8.2", *words)
    assert [line.rpartition(" ")[2] for line in out.splitlines()[2:]] == ["a", "b", "c", "d"]
    assert (errors, status) == ("", CLEAN)
    out, errors, status = dumped(tmp_path, "--dialect", "0.10.2", *words)
    assert "a message inside a wrapper is compressed itself" in errors
    assert status == DAMAGE


def test_wrappers_inside_wrappers_are_bounded_together(tmp_path: Path) -> None:
    inner = wrapper(0, 0, [message(0, 0, None, bytes(600 << 10))])
    (tmp_path / LOG).write_bytes(wrapper(0, 1, [inner, inner]))
    words = ("--dialect", "0.8.2", "--deep-iteration", "--max-decompressed-size", str(1 << 20), LOG)
    out, errors, status = dumped(tmp_path, *words)
    assert (len(out.splitlines()), status) == (3, DAMAGE)
    assert "--max-decompressed-size" in errors


def test_print_data_log_shows_records_from_1_1_on(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(v2_batch(plain_rows(3)))
    (old, _, _), (new, _, _) = (dumped(tmp_path, "--dialect", one, "--print-data-log", LOG) for one in ("1.0", "1.1"))
    assert (len(old.splitlines()), old.splitlines()[2].partition(" ")[0]) == (3, "baseOffset:")
    assert (len(new.splitlines()), new.splitlines()[2].partition(" ")[0]) == (5, "offset:")
    deep = ("--deep-iteration", "--print-data-log", LOG)
    assert dumped(tmp_path, "--dialect", "1.0", *deep) == dumped(tmp_path, "--dialect", "1.1", *deep)


def test_the_newest_is_the_default(legacy: Path) -> None:
    words = ("--print-data-log", LOG)
    assert dumped(legacy, "--dialect", "4.3", *words) == dumped(legacy, *words)
    assert (*DIALECTS, NEWEST.name) == VERSIONS


@pytest.mark.parametrize("dialect", ["0.8.2", "0.10.2"])
def test_a_magic_that_is_too_new(dialect: str, tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(message(0, 0, None, b"v") + v2_batch(plain_rows(1), base_offset=1))
    out, errors, status = dumped(tmp_path, "--dialect", dialect, LOG)
    assert (len(out.splitlines()), status) == (3, USAGE)
    assert errors.endswith(f"Error: {LOG}: magic 2 at position 27, which Kafka {dialect} did not know\n")
    (tmp_path / LOG.replace(".log", ".index")).write_bytes(bytes((0, 0, 0, 1, 0, 0, 0, 27)))
    assert dumped(tmp_path, "--dialect", dialect, LOG.replace(".log", ".index"))[2] == USAGE


@pytest.mark.parametrize("dialect", ["1.0", "1.1"])
def test_a_codec_that_is_too_new(dialect: str, tmp_path: Path) -> None:
    index = LOG.replace(".log", ".index")
    (tmp_path / LOG).write_bytes(v2_batch(plain_rows(1), codec=4))
    (tmp_path / index).write_bytes(bytes((0, 0, 0, 1, 0, 0, 0, 0)))
    assert dumped(tmp_path, "--dialect", "2.8", LOG)[2] == CLEAN
    for name in (LOG, index):
        _, errors, status = dumped(tmp_path, "--dialect", dialect, name)
        assert (status, errors.splitlines()[-1]) == (
            USAGE,
            f"Error: {name}: the codec zstd at position 0, which Kafka {dialect} did not know",
        )


@pytest.mark.parametrize("dialect", VERSIONS[:-1])
def test_options_that_a_version_did_not_have(dialect: str, legacy: Path) -> None:
    for option in DIALECTS[dialect].lacks:
        value = ["9"] if option == "--max-bytes" else []
        _, errors, status = dumped(legacy, "--dialect", dialect, option, *value, LOG)
        assert (status, errors.splitlines()[-1]) == (
            USAGE,
            f"Error: DumpLogSegments of Kafka {dialect} has no {option}",
        )


@pytest.mark.parametrize(
    ("dialect", "words", "status"),
    [
        ("2.8", ["--key-decoder-class", "kafka.serializer.LongDecoder"], DAMAGE),
        ("2.8", ["--key-decoder-class", "org.apache.kafka.tools.api.StringDecoder"], USAGE),
        ("3.9", ["--key-decoder-class", "kafka.serializer.StringDecoder"], CLEAN),
        ("4.1", ["--key-decoder-class", "kafka.serializer.StringDecoder"], USAGE),
        ("0.10.2", ["--key-decoder-class", "LongDecoder"], USAGE),
        ("2.8", ["--output", "jsonl"], USAGE),
        ("2.8", ["--explain", "0"], USAGE),
        ("2.8", ["--frame", "fetch"], USAGE),
        ("2.8", ["--log-format", "0.7"], USAGE),
        ("2.7", [], USAGE),
    ],
)
def test_what_goes_with_it(dialect: str, words: list[str], status: int, legacy: Path) -> None:
    assert dumped(legacy, "--dialect", dialect, *words, LOG)[2] == status


def test_files_that_a_version_did_not_know(legacy: Path) -> None:
    name = f"{0:020}.snapshot"
    (legacy / name).write_bytes(b"")
    assert dumped(legacy, "--dialect", "0.10.2", name) == ("", "", CLEAN)
    checkpoint = f"{0:020}-{1:010}.checkpoint"
    (legacy / checkpoint).write_bytes(b"")
    out, errors, status = dumped(legacy, "--dialect", "2.8", "--files", checkpoint)
    assert (out, errors, status) == (f"Dumping {checkpoint}\n", f"Ignoring unknown file {checkpoint}\n", CLEAN)


def test_selected_records_in_the_lines_of_a_version(legacy: Path) -> None:
    out, _, status = dumped(legacy, "--dialect", "2.8", "--print-data-log", "--offset", "1", LOG)
    assert (len(out.splitlines()), status) == (4, CLEAN)
    assert "payload: w" in out


def test_the_order_of_hash_tables() -> None:
    """As the tools printed them; tests/oracle/test_dialects.py compares many more."""
    names = [f"/t/{number}.log" for number in range(20)]
    assert sorted(map_order_212(names)) == sorted(map_order_213(names)) == sorted(names)
    assert len({tuple(order) for order in (names, map_order_212(names), map_order_213(names))}) == 3
    added = [[("t", number) for number in range(9)], [("u", 1), ("u", 1)]]
    assert sorted(set_order_212(added)) == sorted(set_order_213(added)) == sorted({*added[0], ("u", 1)})
