"""Options of ``kdump dump``: the spellings of the Java tool, bad values, decoders."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, USAGE, dump, dumped, write
from tests.harness.fast_reference import Row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, _0=BATCH, _5=BATCH)
    return tmp_path


def contents(folder: Path, rows: list[Row], *words: str) -> list[str]:
    """The record lines of a log with these records, without metadata."""
    write(folder, _7=v2_batch(rows))
    status, out, errors = dump("--skip-record-metadata", *words, "7.log", cwd=folder)
    assert (status, errors) == (CLEAN, [])
    return out[3:]


@pytest.mark.parametrize(
    "words",
    [
        ["--files", "0.log", "--deep-iteration"],
        ["--files=0.log", "--deep-iteration"],
        ["-files", "0.log", "-deep-iteration"],
        ["-files=0.log", "--deep-iteration=true"],
        ["--deep-iteration=false", "--files", "0.log"],
        ["--deep-iteration", "--deep-iteration", "0.log"],
        ["--deep-iteration", "--", "0.log"],
    ],
)
def test_spellings(folder: Path, words: list[str]) -> None:
    status, out, errors = dump(*words, cwd=folder)
    assert (status, errors) == (CLEAN, [])
    assert len([line for line in out if line.startswith("| offset")]) == 3


def test_double_dash_ends_the_options(folder: Path) -> None:
    write(folder, **{"--files": BATCH})
    status, out, _ = dump("--", "--files.log", cwd=folder)
    assert (status, dumped(out)) == (DAMAGE, ["--files.log"])


def test_files_is_a_list(folder: Path) -> None:
    assert dumped(dump("--files", "0.log,5.log,0.log", cwd=folder)[1]) == ["0.log", "5.log", "0.log"]
    status, out, errors = dump("--files", "0.log,,5.log,", cwd=folder)
    assert (status, dumped(out), errors) == (CLEAN, ["0.log", "", "5.log"], ["Ignoring unknown file "])
    assert dump("--files", ",", cwd=folder) == (CLEAN, [], [])
    assert dump("--files", "", cwd=folder) == (CLEAN, ["Dumping "], ["Ignoring unknown file "])
    assert dump("--files", ".//0.log", cwd=folder)[1][0] == "Dumping ./0.log"


def test_files_door_knows_no_inner_suffixes(folder: Path) -> None:
    write(folder, **{"1.log.deleted": BATCH})
    (folder / "1.log.deleted.log").rename(folder / "1.log.deleted")
    assert dump("--files", "1.log.deleted", cwd=folder)[2] == ["Ignoring unknown file 1.log.deleted"]
    assert dumped(dump("1.log.deleted", cwd=folder)[1]) == ["1.log.deleted"]


def test_words_beside_files_are_ignored_and_named(folder: Path) -> None:
    status, out, errors = dump("--files", "0.log", "5.log", cwd=folder)
    assert (status, dumped(out), len(errors)) == (CLEAN, ["0.log"], 1)
    assert errors[0].startswith("kdump: 5.log: ignored")


@pytest.mark.parametrize(
    "words",
    [
        ["--files", "0.log", "--files", "5.log"],
        ["--files=0.log", "-files=0.log"],
        ["--max-bytes", "1", "--max-bytes", "1", "0.log"],
        ["--max-message-size", "1", "--max-message-size", "2", "0.log"],
        ["--key-decoder-class=LongDecoder", "--key-decoder-class=LongDecoder", "0.log"],
        ["--files"],
        ["0.log", "--max-bytes"],
    ],
)
def test_once_and_with_a_value(folder: Path, words: list[str]) -> None:
    status, out, errors = dump(*words, cwd=folder)
    assert (status, out) == (USAGE, [])
    assert errors[-1].startswith("Error: ")


@pytest.mark.parametrize("option", ["max-bytes", "max-message-size", "max-decompressed-size"])
@pytest.mark.parametrize("value", ["abc", "", "-1", "1.5", "1k"])
def test_bad_numbers(folder: Path, option: str, value: str) -> None:
    status, out, errors = dump(f"--{option}={value}", "0.log", cwd=folder)
    assert (status, out) == (USAGE, [])
    assert f"--{option}" in errors[-1]


def test_numbers_are_32_bits_wide(folder: Path) -> None:
    for option in ("max-bytes", "max-message-size"):
        assert dump(f"--{option}={2**31 - 1}", "0.log", cwd=folder)[0] == CLEAN
        assert dump(f"--{option}={2**31}", "0.log", cwd=folder)[0] == USAGE


def test_max_bytes(folder: Path) -> None:
    write(folder, _0=BATCH * 2 + b"12345")
    for limit, batches in ((0, 0), (17, 0), (len(BATCH) - 1, 0), (len(BATCH), 1), (2 * len(BATCH) + 3, 2)):
        status, out, errors = dump("--max-bytes", str(limit), "0.log", cwd=folder)
        assert (status, len(out) - 2, errors) == (CLEAN, batches, [])
    status, out, _ = dump("--max-bytes=2147483647", "0.log", cwd=folder)
    assert (status, out[-1]) == (DAMAGE, "Found 5 invalid bytes at the end of 0.log")


def test_max_decompressed_size(folder: Path) -> None:
    write(folder, _0=v2_batch(plain_rows(3, 1000), codec=1))
    assert dump("--deep-iteration", "--max-decompressed-size=4000", "0.log", cwd=folder)[0] == CLEAN
    status, out, errors = dump("--deep-iteration", "--max-decompressed-size=2000", "0.log", cwd=folder)
    assert (status, len(out)) == (DAMAGE, 3)
    assert "2,000 bytes (--max-decompressed-size)" in errors[0]


def test_max_message_size(folder: Path) -> None:
    (folder / "0.index").write_bytes(struct.pack(">ii", 2, 0))
    assert dump("0.index", cwd=folder) == (CLEAN, ["Dumping 0.index", "offset: 2 position: 0"], [])
    assert dump(f"--max-message-size={len(BATCH)}", "0.index", cwd=folder)[0] == CLEAN
    assert dump(f"--max-message-size={len(BATCH) - 1}", "0.index", cwd=folder)[0] == DAMAGE


def test_index_checks(folder: Path) -> None:
    (folder / "0.index").write_bytes(struct.pack(">ii", 1, 0))
    status, out, errors = dump("--verify-index-only", "0.index", cwd=folder)
    assert (status, out) == (CLEAN, ["Dumping 0.index"])
    assert errors == [f"Mismatches in :{folder}/0.index", "  Index offset: 1, log offset: 2"]
    for words in (["--index-sanity-check"], ["--index-sanity-check", "--verify-index-only"]):
        assert dump(*words, "0.index", cwd=folder) == (
            CLEAN,
            ["Dumping 0.index", "0.index passed sanity check."],
            [],
        )


@pytest.mark.parametrize("package", ["", "org.apache.kafka.tools.api."])
def test_decoders(folder: Path, package: str) -> None:
    def values(decoder: str, value: bytes) -> list[str]:
        return contents(folder, [Row(0, 0, None, value)], f"--value-decoder-class={package}{decoder}")

    assert values("StringDecoder", "é\ufffd".encode()) == ["| payload: é\ufffd"]
    assert values("StringDecoder", b"\xff\xed\xa0\x80") == ["| payload: \ufffd\ufffd"]
    assert values("IntegerDecoder", struct.pack(">i", -5)) == ["| payload: -5"]
    assert values("LongDecoder", struct.pack(">q", -(2**63))) == [f"| payload: {-(2**63)}"]
    assert values("DefaultDecoder", b"abc") == [f"| payload: [B@{crc32c(b'abc'):x}"]


def test_decoders_are_for_keys_and_values_apart(folder: Path) -> None:
    rows = [Row(0, 0, struct.pack(">i", 7), b"value"), Row(0, 1, None, None), Row(0, 2, b"", b"")]
    assert contents(folder, rows[:2], "--key-decoder-class=IntegerDecoder") == ["| key: 7 payload: value", ""]
    assert contents(folder, rows[1:], "--value-decoder-class=StringDecoder") == ["", "| key:  payload: "]


def test_decoder_class_may_be_left_out(folder: Path) -> None:
    for words in (["0.log", "--key-decoder-class"], ["--value-decoder-class", "--deep-iteration", "0.log"]):
        status, out, _ = dump(*words, cwd=folder)
        assert status == CLEAN
        assert out[3].endswith(" key: key-0 payload: AAAAAAAAAA")


def test_unknown_decoder_class(folder: Path) -> None:
    for name in ("NoSuchDecoder", "com.example.StringDecoder", "org.apache.kafka.tools.api."):
        status, out, errors = dump(f"--key-decoder-class={name}", "0.log", cwd=folder)
        assert (status, out) == (USAGE, []), name
        assert "unknown decoder class" in errors[-1]


def test_value_too_short_for_its_decoder(folder: Path) -> None:
    write(folder, _0=v2_batch([Row(0, 0, b"key", bytes(8)), Row(0, 1, b"key", bytes(7))]))
    status, out, errors = dump("--value-decoder-class=LongDecoder", "0.log", "5.log", cwd=folder)
    assert status == DAMAGE
    assert "takes 8 bytes got 7" in errors[0]
    assert out[3].endswith(" key: key payload: 0")
    assert dumped(out) == ["0.log", "5.log"]


def test_verbose(folder: Path) -> None:
    for words in (["-v"], ["--verbose"]):
        status, out, errors = dump(*words, "--deep-iteration", "0.log", cwd=folder)
        assert (status, out) == (CLEAN, dump("--deep-iteration", "0.log", cwd=folder)[1])
        assert len(errors) == 1
        assert errors[0].startswith(f"kdump: 0.log: {len(BATCH)} bytes, ")


def test_traceback(folder: Path) -> None:
    write(folder, _0=bytes(50))
    plain = dump("0.log", "7.log", cwd=folder)
    status, out, errors = dump("--traceback", "0.log", "7.log", cwd=folder)
    assert (status, out) == plain[:2]
    assert [line for line in errors if line.startswith("kdump: ")] == plain[2]
    assert errors.count("Traceback (most recent call last):") >= 2
    assert not [line for line in plain[2] if "Traceback" in line]
