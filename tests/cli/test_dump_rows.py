"""Structured output on the command line: views, fields, exit statuses, pipes."""

from __future__ import annotations

import json
import os
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.rows.tables import BATCH as BATCH_TABLE
from kdump.rows.tables import RECORD, RECORD_METADATA
from tests.harness import ROOT
from tests.harness.batches import Row, message, plain_rows, v2_batch
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, DAMAGED_BATCH, KDUMP, NAME, UNREADABLE, USAGE, dump, kdump

OUTPUTS = [
    ["--output", "jsonl"],
    ["--output", "csv", "--records"],
    ["--output", "table", "--records"],
    ["--output", "jsonl", "--deep-iteration"],
    ["--format", r"%o\n"],
]
IDS = [" ".join(words) for words in OUTPUTS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(BATCH)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ([], BATCH_TABLE.names),
        (["--batches"], BATCH_TABLE.names),
        (["--batches", "--print-data-log"], BATCH_TABLE.names),
        (["--deep-iteration"], RECORD_METADATA.names),
        (["--records"], RECORD.names),
        (["--print-data-log"], RECORD.names),
        (["--deep-iteration", "--print-data-log"], RECORD.names),
        (["--deep-iteration", "--records"], RECORD.names),
        (["--key", "."], RECORD.names),
        (["--header", "k"], RECORD.names),
        (["--offset", "0:"], BATCH_TABLE.names),
        (["--fields", "crc, lastOffset"], ("crc", "lastOffset")),
        (["--records", "--fields", "value,file"], ("value", "file")),
        (["--deep-iteration", "--fields", "headerKeys"], ("headerKeys",)),
    ],
)
def test_views(folder: Path, words: list[str], columns: tuple[str, ...]) -> None:
    status, out, errors = dump("--output", "csv", *words, NAME, cwd=folder)
    assert (status, errors) == (CLEAN, [])
    assert tuple(out[0].split(",")) == columns
    status, out, _ = dump("--output", "jsonl", *words, NAME, cwd=folder)
    assert status == CLEAN
    assert all(tuple(json.loads(line)) == columns for line in out)


def test_fields_help(folder: Path) -> None:
    status, out, errors = dump("--fields", "help", cwd=folder)
    assert (status, errors) == (CLEAN, [])
    listed = {line.split()[0].rstrip(":") for line in out}
    assert {*BATCH_TABLE.names, *RECORD.names, "headerKeys"} <= listed


@pytest.mark.parametrize(
    "words",
    [
        ["--fields", "offset"],
        ["--fields", ""],
        ["--records", "--fields", "offset,nosuch"],
        ["--records", "--fields", "baseOffset"],
        ["--skip-record-metadata"],
        ["--verify-index-only"],
        ["--value-decoder-class=LongDecoder"],
        ["--output", "xml"],
        ["-n", "1", "--tail", "1"],
        ["-n", "x"],
        ["--time", "noon.."],
        ["--isolation", "serializable"],
    ],
    ids=" ".join,
)
def test_usage(folder: Path, words: list[str]) -> None:
    status, out, errors = dump("--output", "jsonl", *words, NAME, cwd=folder)
    assert (status, out) == (USAGE, [])
    assert errors[-1].startswith("Error: ")


@pytest.mark.parametrize("option", ["--key", "--value", "--header"])
def test_batches_cannot_be_chosen_by_contents(folder: Path, option: str) -> None:
    assert dump("--output", "jsonl", "--batches", option, "nowhere", NAME, cwd=folder)[0] == USAGE


@pytest.mark.parametrize("words", [["--fields", "offset"], ["--batches", "--print-data-log"]], ids=" ".join)
def test_options_of_structured_output_beside_text(folder: Path, words: list[str]) -> None:
    assert dump(*words, NAME, cwd=folder)[0] == USAGE


@pytest.mark.parametrize("words", OUTPUTS, ids=IDS)
def test_exit_status(folder: Path, words: list[str]) -> None:
    def status(name: str, data: bytes | None) -> int:
        if data is not None:
            (folder / name).write_bytes(data)
        code, _, errors = dump(*words, name, NAME, cwd=folder)
        assert not [line for line in errors if not line.startswith("kdump: ")]
        return code

    assert status("5.log", b"") == CLEAN
    assert status("5.log", DAMAGED_BATCH) == DAMAGE
    assert status("5.log", BATCH + b"tail") == DAMAGE
    assert status("7.log", None) == UNREADABLE


@pytest.mark.parametrize("words", OUTPUTS, ids=IDS)
def test_the_other_files_are_still_dumped(folder: Path, words: list[str]) -> None:
    (folder / "5.log").write_bytes(bytes(50))
    alone = dump(*words, NAME, cwd=folder)[1]
    both = dump(*words, "missing.log", "5.log", NAME, cwd=folder)
    assert both[0] == UNREADABLE
    assert both[1][-len(alone) :] == alone


@pytest.mark.parametrize("batches", [1, 2_000])
@pytest.mark.parametrize("words", OUTPUTS, ids=IDS)
@pytest.mark.slow
def test_head(folder: Path, words: list[str], batches: int) -> None:
    (folder / NAME).write_bytes(BATCH * batches)
    reader = subprocess.Popen(["head", "-n", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run = subprocess.run(
        [*KDUMP, "dump", *words, NAME], cwd=folder, stdout=reader.stdin, stderr=subprocess.PIPE, timeout=60, check=False
    )
    out, _ = reader.communicate(timeout=60)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    assert out.count(b"\n") == 1


def test_topic_and_partition(tmp_path: Path) -> None:
    folder = tmp_path / "my-topic-12"
    folder.mkdir()
    (folder / NAME).write_bytes(BATCH)
    for cwd, path in ((tmp_path, "my-topic-12"), (folder, NAME), (folder, f"./{NAME}"), (tmp_path, str(folder))):
        row = json.loads(kdump("dump", "--output", "jsonl", path, cwd=cwd).stdout)
        assert (row["topic"], row["partition"]) == ("my-topic", 12)
    row = json.loads(kdump("dump", "--output", "jsonl", "-", cwd=folder, stdin=BATCH).stdout)
    assert (row["file"], row["topic"], row["partition"]) == ("-", None, None)


def test_file_names_are_utf8_whatever_they_are(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    (tmp_path / os.fsdecode(b"\xff/0.log")).write_bytes(BATCH)
    run = kdump("dump", "--output", "jsonl", os.fsdecode(b"\xff/0.log"), cwd=tmp_path)
    assert json.loads(run.stdout)["file"] == "\ufffd/0.log"


def test_all_files_of_a_partition(tmp_path: Path) -> None:
    source = ROOT / "fixtures" / "segments" / "v2-txn-0"
    run = kdump("dump", "--output", "jsonl", "--all-files", str(source), cwd=tmp_path)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert {row["type"] for row in rows} == {"batch", "index", "timeindex", "txnindex", "producer"}
    logs = [int(Path(row["file"]).stem) for row in rows if row["type"] == "batch"]
    assert logs == sorted(logs)
    text = kdump("dump", "--all-files", str(source), cwd=tmp_path).stdout.decode().splitlines()
    headings = ("Dumping ", "Log starting offset: ")
    assert len(rows) == len([line for line in text if not line.startswith(headings)])


def test_csv_names_columns_where_they_change(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(BATCH)
    (tmp_path / "0.index").write_bytes(bytes(4) + b"\0\0\0\1")
    run = kdump("dump", "--output", "csv", "0.log", "0.log", "0.index", "0.log", cwd=tmp_path)
    kinds = [line.split(",")[0] for line in run.stdout.decode().splitlines()]
    assert kinds == ["type", "batch", "batch", "type", "index", "type", "batch"]


@pytest.mark.parametrize("output", ["jsonl", "csv"])
def test_resync_findings_are_rows(tmp_path: Path, output: str) -> None:
    hole = b"\xff" * 300
    (tmp_path / "0.log").write_bytes(BATCH + hole + v2_batch(plain_rows(2), base_offset=9))
    words = ("--output", output, "--records", "0.log")
    status, out, errors = dump(*words, cwd=tmp_path)
    assert status == DAMAGE
    assert [line for line in errors if "--resync" in line]
    assert not [line for line in out if "finding" in line]
    status, out, errors = dump("--resync", *words, cwd=tmp_path)
    assert status == DAMAGE
    assert len(errors) == 1
    if output == "jsonl":
        rows = [json.loads(line) for line in out]
        assert [row["type"] for row in rows] == ["record"] * 3 + ["finding"] + ["record"] * 2
        finding = rows[3]
        assert (finding["position"], finding["length"], finding["continueAt"]) == (len(BATCH), len(hole), 9)
        assert (finding["firstOffset"], finding["lastOffset"]) == (3, 8)


def test_tail(folder: Path) -> None:
    (folder / "3.log").write_bytes(v2_batch(plain_rows(4), base_offset=3))
    for words in (["--output", "jsonl"], ["--output", "jsonl", "--records"], ["--format", r"%o\n"]):
        whole = dump(*words, NAME, "3.log", cwd=folder)[1]
        for count in (0, 5, 100):
            assert dump(*words, "--tail", str(count), NAME, "3.log", cwd=folder)[1] == whole[-count or len(whole) :]
    _, text, errors = dump("--deep-iteration", "--tail", "2", NAME, "3.log", cwd=folder)
    assert [line.split()[2] for line in text if line.startswith("|")] == ["5", "6"]
    _, text, errors = dump("--deep-iteration", "--tail", "1", NAME, cwd=folder)
    assert [line.split()[2] for line in text if line.startswith("|")] == ["2"]
    # What is left out is no gap in the offsets.
    assert errors == []
    assert dump("--tail", "1", "-", cwd=folder)[0] == USAGE


def test_time_of_day(tmp_path: Path) -> None:
    day = 20_000 * 86_400_000
    noon = day + 43_200_000
    batches = [
        v2_batch(
            plain_rows(1),
            base_offset=number,
            base_timestamp=noon + number * 60_000,
            max_timestamp=noon + number * 60_000,
        )
        for number in range(3)
    ]
    (tmp_path / NAME).write_bytes(b"".join(batches))
    words = ("--format", r"%o\n", "--time")
    status, out, errors = dump(*words, "12:01..12:02", NAME, cwd=tmp_path)
    assert (status, out) == (CLEAN, ["1"])
    assert errors == ["kdump: --time 2024-10-04T12:01:00..2024-10-04T12:02:00 (UTC), by the day of the log"]
    assert dump(*words, "2024-10-04T12:01..12:02", NAME, cwd=tmp_path) == (CLEAN, ["1"], [])
    assert dump(*words, "12:01..", NAME, cwd=tmp_path)[1] == ["1", "2"]
    (tmp_path / "3.log").write_bytes(v2_batch(plain_rows(1), base_offset=3, base_timestamp=noon + 86_400_000))
    status, _, errors = dump(*words, "12:01..12:02", NAME, "3.log", cwd=tmp_path)
    assert status == USAGE
    message = "--time has no day, and the logs go from 2024-10-04 to 2024-10-05 (UTC); on the last day it is --time "
    assert errors[-1].removeprefix("Error: ") == message + "2024-10-05T12:01:00..2024-10-05T12:02:00"
    assert dump(*words, "12:01..", "-", cwd=tmp_path)[0] == USAGE


def test_tombstones(tmp_path: Path) -> None:
    contents = [(b"k", b"v"), (b"k", None), (None, None), (None, b"v"), (b"", None), (b"k", b"")]
    old = b"".join(message(1, 6 + number, key, value) for number, (key, value) in enumerate(contents))
    rows = [Row(0, number, key, value) for number, (key, value) in enumerate(contents)]
    (tmp_path / NAME).write_bytes(v2_batch(rows) + old)
    for words in (["--format", r"%o\n"], ["--output", "csv", "--records", "--fields", "offset"]):
        _, out, errors = dump("--tombstones", *words, NAME, cwd=tmp_path)
        assert ([line for line in out if line != "offset"], errors) == (["1", "4", "7", "10"], [])
    text = dump("--tombstones", NAME, cwd=tmp_path)[1]
    assert [line.split()[2] for line in text if line.startswith("|")] == ["1", "4", "7", "10"]
    status, _, errors = dump("--tombstones", "--output", "jsonl", "--batches", NAME, cwd=tmp_path)
    assert status == USAGE
    assert "choose records" in errors[-1]


def test_tail_tells_of_damage_after_the_last_row(folder: Path) -> None:
    (folder / NAME).write_bytes(BATCH + b"\7" * 100)
    for words in (["--output", "jsonl", "--records"], ["--deep-iteration"], []):
        status, whole, errors = dump(*words, NAME, cwd=folder)
        assert status == DAMAGE
        for count in ("1", "9"):
            of_tail = dump(*words, "--tail", count, NAME, cwd=folder)
            assert (of_tail[0], of_tail[1][-1], of_tail[2]) == (status, whole[-1], errors)


def test_records_that_cannot_be_shown_do_not_count(tmp_path: Path) -> None:
    entries = [message(0, offset, b"k", b"value") for offset in range(8)]
    misfit = bytearray(entries[4])
    misfit[-6] += 1
    misfit[12:16] = zlib.crc32(misfit[16:]).to_bytes(4, "big")
    (tmp_path / NAME).write_bytes(b"".join(entries[:4]) + misfit + b"".join(entries[5:]))
    marker = v2_batch([Row(0, 0, b"\0\0\0\1", None)], base_offset=1, producer_id=1, attributes=TRANSACTIONAL | CONTROL)
    others = [v2_batch(plain_rows(1), base_offset=offset) for offset in (0, 2, 3)]
    (tmp_path / "9.log").write_bytes(others[0] + marker + others[1] + others[2])
    for name, words, all_rows, rows_before in (
        (NAME, ["--output", "jsonl", "--records"], 7, 4),
        (NAME, ["--format", r"%i %o\n"], 7, 4),
        (NAME, ["--print-data-log"], 7, 4),
        ("9.log", ["--print-data-log"], 3, 1),
    ):
        for resync, expected in ([], rows_before), (["--resync"], all_rows):

            def rows(*more: str, given: Sequence[str] = (*words, *resync, name)) -> list[str]:
                lines = dump(*given, *more, cwd=tmp_path)[1]
                return [line for line in lines if line[:8] == "| offset" or '"record"' in line or line[0].isdigit()]

            whole = rows()
            assert len(whole) == expected
            for count in (1, expected, expected + 1):
                assert rows("-n", str(count)) == whole[:count]
                last = whole[-count:]
                if words[0] == "--format":
                    # %i numbers what is shown.
                    last = [f"{number} {line.split()[1]}" for number, line in enumerate(last, 1)]
                assert rows("--tail", str(count)) == last
