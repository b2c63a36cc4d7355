"""``kdump stats``: the lines it promises, exit statuses, pipes, the page on terminals."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kdump.rows.filetables import STATS
from tests.harness.batches import CONTROL, NOW, TRANSACTIONAL, message, plain_rows, v2_batch
from tests.harness.captures import FIXTURES, Captures
from tests.harness.cli_runs import (
    BATCH,
    CLEAN,
    DAMAGE,
    DAMAGED_BATCH,
    NAME,
    UNREADABLE,
    USAGE,
    kdump,
    on_a_terminal,
    shell,
    write,
)
from tests.harness.fast_reference import Row

SEGMENTS = FIXTURES / "segments"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def lines(*words: str, cwd: Path, stdin: bytes = b"") -> tuple[int, list[dict[str, Any]]]:
    run = kdump("stats", "--output", "jsonl", *words, cwd=cwd, stdin=stdin)
    return run.returncode, [json.loads(line) for line in run.stdout.splitlines()]


def partition(folder: Path, name: str, *batches: bytes) -> Path:
    log = folder / name / NAME
    log.parent.mkdir()
    log.write_bytes(b"".join(batches))
    return log


def test_a_line_has_all_keys_in_their_order(tmp_path: Path) -> None:
    log = partition(tmp_path, "orders-0", BATCH)
    status, (row,) = lines(str(log), cwd=tmp_path)
    assert status == CLEAN
    assert tuple(row) == STATS.names
    begin = {"type": "stats", "by": "segment", "group": str(log), "files": 1, "bytes": len(BATCH), "batches": 1}
    assert row | begin == row
    counts = {"controlBatches": 0, "records": 3, "controlRecords": 0, "nullKeys": 0, "tombstones": 0}
    assert row | counts | {"minOffset": 0, "maxOffset": 2} == row


def test_groups(tmp_path: Path) -> None:
    partition(tmp_path, "b-1", BATCH)
    partition(tmp_path, "b-0", BATCH, v2_batch(plain_rows(2), base_offset=3, codec=1, producer_id=7, producer_epoch=0))
    partition(tmp_path, "a-10", message(0, 0, None, b"x"))
    partition(tmp_path, "a-9")
    for by, groups in {
        "partition": ["a-9", "a-10", "b-0", "b-1"],
        "topic": ["a", "b"],
        "producer": ["-1", "7"],
        "codec": ["none", "gzip"],
        "magic": ["0", "2"],
        "hour": ["none", "2023-11-14T22:00Z"],
    }.items():
        status, rows = lines("--by", by, ".", cwd=tmp_path)
        assert (status, [row["group"] for row in rows]) == (CLEAN, groups)
        assert {row["by"] for row in rows} == {by}
        assert sum(row["records"] for row in rows) == 9
    assert lines("--by", "partition", ".", cwd=tmp_path)[1][0]["files"] == 1


def test_outside_of_partition_directories(tmp_path: Path) -> None:
    partition(tmp_path, "copies", BATCH)
    for by in ("partition", "topic"):
        assert [row["group"] for row in lines("--by", by, "copies", cwd=tmp_path)[1]] == ["copies"]


def test_damage_is_counted_and_gone_past(tmp_path: Path) -> None:
    after = v2_batch(plain_rows(2), base_offset=6)
    damaged = v2_batch(plain_rows(3), base_offset=3, crc=1)
    log = partition(tmp_path, "orders-0", BATCH, damaged, b"junk" * 9, after)
    partition(tmp_path, "orders-1", BATCH)
    status, rows = lines("--by", "partition", ".", cwd=tmp_path)
    assert status == DAMAGE
    figures = [(row["records"], row["damagedBatches"], row["damagedBytes"], row["errors"]) for row in rows]
    assert figures == [(8, 1, len(damaged), 2), (3, 0, 0, 0)]
    status, (row,) = lines("--by", "codec", str(log), cwd=tmp_path)
    assert (status, row["errors"], row["damagedBatches"]) == (DAMAGE, None, 1)
    assert row["missingOffsets"] == 0


def test_headers_only_reads_no_record(tmp_path: Path) -> None:
    """A payload that cannot be decompressed is nobody's business then."""
    log = partition(tmp_path, "orders-0", v2_batch(body=b"nonsense", codec=0, attributes=2, record_count=4))
    assert lines("--quick", str(log), cwd=tmp_path)[0] == CLEAN
    status, (row,) = lines(str(log), cwd=tmp_path)
    assert (status, row["batches"], row["records"], row["errors"]) == (DAMAGE, 1, 0, 1)


def test_what_is_not_there(tmp_path: Path) -> None:
    partition(tmp_path, "orders-0", BATCH)
    (tmp_path / "empty").mkdir()
    for words in (["missing-0", "orders-0"], ["orders-0", "empty"]):
        run = kdump("stats", "--output", "jsonl", *words, cwd=tmp_path)
        assert run.returncode == UNREADABLE
        assert len(run.stdout.splitlines()) == 1
        assert run.stderr.startswith(b"kdump: ")
    assert kdump("stats", "missing", cwd=tmp_path).stdout == b""


def test_a_file_beside_no_log(tmp_path: Path) -> None:
    """Of a segment any file stands for its log; alone there is nothing in it to count."""
    log = partition(tmp_path, "orders-0", BATCH)
    index = log.with_suffix(".index")
    index.write_bytes(b"")
    assert lines(str(index), cwd=tmp_path)[1] == lines(str(log), cwd=tmp_path)[1]
    log.unlink()
    run = kdump("stats", str(index), cwd=tmp_path)
    assert (run.returncode, run.stdout) == (UNREADABLE, b"")
    assert run.stderr.startswith(f"kdump: {index}: ".encode())


def test_verbose(tmp_path: Path) -> None:
    log = partition(tmp_path, "orders-0", BATCH)
    for words, depth in (((), b"every record"), (("--quick",), b"headers")):
        run = kdump("stats", "-v", *words, str(log), cwd=tmp_path)
        engine = b"kdump: engine: local, 1 process (less than 64 MiB of logs)\n"
        assert run.stderr == engine + b"kdump: %s: 1 batch, %s\n" % (str(log).encode(), depth)


@pytest.mark.parametrize("words", [[], ["--by", "colour", "x"], ["--output", "csv", "x"], ["--unknown", "x"]])
def test_usage(tmp_path: Path, words: list[str]) -> None:
    run = kdump("stats", *words, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (USAGE, b"")


@pytest.mark.slow
def test_pipes(tmp_path: Path) -> None:
    status, (row,) = lines("-", cwd=tmp_path, stdin=BATCH * 2)
    assert (row["group"], row["records"], row["bytes"]) == ("-", 6, 2 * len(BATCH))
    # The same offsets twice.
    assert status == DAMAGE
    assert shell("$KDUMP stats --output jsonl . | head -1", SEGMENTS).stdout.count(b"\n") == 1


@pytest.mark.slow
def test_two_pipes_are_not_one_partition(tmp_path: Path) -> None:
    """A marker, and a hole of offsets, that are another's."""
    marker = Row(0, 0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))
    of_one = {"producer_id": 5, "producer_epoch": 0}
    write(
        tmp_path,
        a=v2_batch(plain_rows(3), base_offset=0, base_sequence=0, attributes=TRANSACTIONAL, **of_one),
        b=v2_batch([marker], base_offset=90, base_timestamp=NOW - 9, attributes=TRANSACTIONAL | CONTROL, **of_one),
    )
    # Each is first once: what order the pipes get their names in is the shell's business.
    for one, other in ("ab", "ba"):
        run = shell(f"$KDUMP stats --output jsonl <(cat {one}.log) <(cat {other}.log)", tmp_path)
        rows = {row["records"]: row for row in map(json.loads, run.stdout.splitlines())}
        for row in rows.values():
            assert (row["missingOffsets"], row["timestampsBack"]) == (0, 0)
        assert rows[3]["transactions"]["open"] | {"transactions": 1, "records": 3} == rows[3]["transactions"]["open"]
        assert rows[1]["transactions"]["committed"] == {"transactions": 1, "records": 0, "bytes": 0}
    groups = [row["group"] for row in lines("--by", "topic", "-", cwd=tmp_path, stdin=BATCH)[1]]
    assert groups == ["-"]


def test_a_log_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    partition(tmp_path, "orders-0", BATCH)
    _, rows = lines("--by", "magic", "orders-0", f"orders-0/{NAME}", str(tmp_path), cwd=tmp_path)
    assert [(row["files"], row["records"]) for row in rows] == [(1, 3)]


def test_what_is_wrong_with_a_log_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    log = partition(tmp_path, "orders-0", BATCH, DAMAGED_BATCH)
    later = log.with_name(f"{6:020}.log")
    later.write_bytes(v2_batch(plain_rows(3), base_offset=6, crc=1))
    once = lines("orders-0", cwd=tmp_path)[1]
    assert sum(row["errors"] for row in once) > 1
    again = (str(log), "./orders-0", "orders-0")
    assert lines("orders-0", *again, cwd=tmp_path)[1] == once
    # Of one segment alone less is said; what the others bring to light is still counted.
    errors = [row["errors"] for row in lines(str(later), "orders-0", str(later), cwd=tmp_path)[1]]
    assert sorted(errors) == sorted(row["errors"] for row in once)


@pytest.mark.parametrize("question", ["compaction", "retention=1s", "magic"])
def test_questions_take_segments_in_any_order(tmp_path: Path, question: str) -> None:
    """The active one is that with the largest offset, whatever was named last, or between them."""
    logs = [partition(tmp_path, "a-0", BATCH), partition(tmp_path, "b-0", BATCH)]
    for number in (1, 2):
        logs.append(logs[0].with_name(f"{10 * number:020}.log"))
        later = {"base_offset": 10 * number, "base_timestamp": NOW + 5000 * number}
        logs[-1].write_bytes(v2_batch(plain_rows(3), **later))
    words = ("stats", "--what-if", question, "--now", str(NOW + 7000), "--output", "jsonl")
    expected = kdump(*words, str(tmp_path), cwd=tmp_path)
    assert (expected.returncode, expected.stderr) == (CLEAN, b"")
    for given in (logs, logs[::-1]):
        run = kdump(*words, *map(str, given), cwd=tmp_path)
        assert sorted(run.stdout.splitlines()) == sorted(expected.stdout.splitlines())


def test_an_empty_log(tmp_path: Path) -> None:
    partition(tmp_path, "orders-0")
    status, (row,) = lines("orders-0", cwd=tmp_path)
    assert (status, row["files"], row["bytes"], row["records"], row["minOffset"]) == (CLEAN, 1, 0, 0, None)
    assert kdump("stats", "orders-0", cwd=tmp_path).returncode == CLEAN


def test_what_ends_a_transaction_may_lie_after(tmp_path: Path) -> None:
    """Of one segment of a partition: its own open transaction is ended in the next one."""
    logs = sorted((SEGMENTS / "v2-txn-0").glob("*.log"))
    alone = lines(str(logs[0]), cwd=tmp_path)[1][0]["transactions"]
    assert alone == lines(str(SEGMENTS / "v2-txn-0"), cwd=tmp_path)[1][0]["transactions"]
    copy = tmp_path / logs[0].name
    copy.write_bytes(logs[0].read_bytes())
    cut_off = lines(str(copy), cwd=tmp_path)[1][0]["transactions"]
    assert cut_off["open"]["records"] >= alone["open"]["records"]


@pytest.mark.parametrize("columns", [1, 17, 20])
@pytest.mark.slow
def test_a_terminal_without_room(tmp_path: Path, columns: int) -> None:
    text = on_a_terminal("stats", str(SEGMENTS), cwd=tmp_path, columns=columns, NO_COLOR="1").decode()
    assert "internal error" not in text
    assert max(map(len, text.splitlines())) <= columns


@pytest.mark.parametrize("columns", [40, 80, 160])
@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.slow
def test_the_page_fits_the_terminal(tmp_path: Path, columns: int, colour: bool) -> None:
    environment = {} if colour else {"NO_COLOR": "1"}
    text = on_a_terminal("stats", str(SEGMENTS), cwd=tmp_path, columns=columns, **environment).decode()
    assert ("\x1b[" in text) is colour
    shown = ANSI.sub("", text).splitlines()
    assert max(map(len, shown)) <= columns
    assert "what is there" in shown[0]
    assert any("damage" in line for line in shown)


@pytest.mark.slow
def test_the_page_says_what_the_lines_say(tmp_path: Path) -> None:
    rows = lines(str(SEGMENTS), cwd=tmp_path)[1]
    page = on_a_terminal("stats", str(SEGMENTS), cwd=tmp_path, columns=160, NO_COLOR="1").decode()
    assert f"{sum(row['bytes'] for row in rows):,}" in page
    for row in rows:
        (line,) = [line for line in page.splitlines() if row["group"].removeprefix(f"{SEGMENTS}/") in line]
        assert f" {row['records']:,} " in line
        assert f"{row['minOffset']}..{row['maxOffset']}" in line
    quick = kdump("stats", "--quick", str(SEGMENTS), cwd=tmp_path).stdout.decode()
    assert "different keys" in page
    assert "different keys" not in quick


@pytest.mark.slow
def test_control_characters_and_markup_of_keys_and_names(tmp_path: Path) -> None:
    rows = [Row(0, 0, b"\x1b[31mred[bold]", b"v" * 50), Row(0, 1, b"\xff\xfe", b"w" * 40)]
    log = partition(tmp_path, "a[red]-0", v2_batch(rows))
    partition(tmp_path, "b\x1b[2J-0", BATCH)
    for words in (("--by", "partition", "."), (str(log),)):
        text = on_a_terminal("stats", *words, cwd=tmp_path, columns=120, NO_COLOR="1").decode()
        assert "\x1b" not in text
        assert r"\x1b[31mred[bold]" in text
        assert "a[red]-0" in text


@pytest.mark.slow
def test_damaged_batches_do_not_hide(tmp_path: Path) -> None:
    partition(tmp_path, "a-0", DAMAGED_BATCH)
    partition(tmp_path, "b-0", BATCH)
    text = on_a_terminal("stats", "--by", "partition", ".", cwd=tmp_path, columns=60, NO_COLOR="1").decode()
    assert re.search(r"a-0 .* 1 error", text)


@pytest.mark.slow
def test_headers_alone_need_no_record_decoders(tmp_path: Path) -> None:
    """A short run is mostly imports: ``--quick`` costs little more than that of ``verify``."""
    (tmp_path / NAME).write_bytes(BATCH)
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kdump", "stats", "--quick", "--output", "jsonl", NAME],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "kdump.stats.fold" in imported
    assert not imported & {"kdump.stats.records", "kdump.fast.records", "numpy.ma", "hashlib", "rich"}


def test_missing_offsets_are_normal_where_the_cleaner_took_them(captures: Captures, tmp_path: Path) -> None:
    compacted = str(captures.root / "1.1.1" / "v2-compact-0")
    page = kdump("stats", "--quick", "--html", "page.html", compacted, cwd=tmp_path).stdout.decode()
    assert re.search(r"[\d,]+ missing \(\d+ %\), as compaction leaves them: normal", page)
    assert "offsets missing, as compaction leaves them: normal" in (tmp_path / "page.html").read_text("utf-8")
    partition(tmp_path, "orders-0", BATCH, v2_batch(plain_rows(2), base_offset=6))
    page = kdump("stats", "--html", "page.html", "orders-0", cwd=tmp_path).stdout.decode()
    assert re.search(r"3 missing \(3\d %\)", page)
    assert "as compaction leaves them" not in page
    assert "as compaction leaves them" not in (tmp_path / "page.html").read_text("utf-8")
