"""``kdump verify`` as a process, and ``kdump.findings`` as a library."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

import kdump as library
from kdump.kafka.producers import ProducerStates
from tests.harness.batches import CONTROL, GZIP, NOW, TRANSACTIONAL, plain_rows, v2_batch
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import (
    BATCH,
    CLEAN,
    DAMAGE,
    DAMAGED_BATCH,
    KDUMP,
    NAME,
    UNREADABLE,
    USAGE,
    kdump,
    on_a_terminal,
    shell,
)
from tests.harness.fast_reference import Row

SEGMENTS = FIXTURES / "segments"
UNDECODABLE = v2_batch(body=b"rubbish", record_count=1, attributes=GZIP)
CONTINUES = v2_batch(plain_rows(3), base_offset=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``good-0``, ``bad-0`` (a wrong CRC), ``odd-0`` (no index: a warning)."""
    for name, data in {"good-0": BATCH, "bad-0": DAMAGED_BATCH + CONTINUES, "odd-0": BATCH}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(data)
    for name in ("good-0", "bad-0"):
        for suffix in (".index", ".timeindex"):
            (tmp_path / name / NAME).with_suffix(suffix).write_bytes(b"")
    return tmp_path


def verify(*words: str, cwd: Path, stdin: bytes = b"") -> tuple[int, list[str], list[str]]:
    """Exit status, lines of stdout, lines of stderr."""
    run = kdump("verify", *words, cwd=cwd, stdin=stdin)
    return run.returncode, run.stdout.decode().splitlines(), run.stderr.decode().splitlines()


def codes(lines: list[str]) -> list[str]:
    return [match[1] for line in lines if (match := re.search(r": (?:error|warning|info) (KD\d{3}) ", line))]


# --- Exit status, depth ---


def test_reports_for_code_scanning(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / NAME).write_bytes(BATCH)
    (tmp_path / NAME).write_bytes(DAMAGED_BATCH)
    words = ("verify", "-j", "1", "--output", "sarif")
    for paths, status, levels in (
        (("clean",), CLEAN, {"warning"}),
        ((NAME, "clean"), DAMAGE, {"error", "warning"}),
        ((NAME, "gone"), UNREADABLE, {"error", "warning"}),
    ):
        run = kdump(*words, *paths, cwd=tmp_path)
        assert run.returncode == status
        (report,) = json.loads(run.stdout)["runs"]
        assert {result["level"] for result in report["results"]} == levels
        assert report["invocations"][0]["executionSuccessful"] == ("gone" not in paths)
        assert run.stdout == kdump("verify", "-j", "2", "--output", "sarif", *paths, cwd=tmp_path).stdout


def test_annotations_of_github(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DAMAGED_BATCH)
    run = kdump("verify", "--output", "github", NAME, "gone", cwd=tmp_path)
    assert run.returncode == UNREADABLE
    first, *others = run.stdout.decode().splitlines()
    assert first.startswith(f"::error file={NAME},title=KD108 batch-crc::at 0 (")
    assert others[-1] == "::error file=gone,title=KD001 missing::no such file or directory"
    assert all(line.startswith("::warning ") for line in others[:-1])
    (tmp_path / NAME).write_bytes(BATCH)
    named = kdump("verify", "--output", "github", "gone\n::stop-commands::x", cwd=tmp_path)
    assert (named.returncode, named.stdout.count(b"\n")) == (UNREADABLE, 1)
    assert named.stderr.decode() == "kdump: gone\\x0a::stop-commands::x: no such file or directory\n"
    quiet = kdump("verify", "--output", "github", "--quick", NAME, cwd=tmp_path)
    assert b"::error" not in quiet.stdout
    for output in ("sarif", "github"):
        assert kdump("verify", "--startup", "--output", output, ".", cwd=tmp_path).returncode == USAGE


def test_gaps(tmp_path: Path) -> None:
    data = b"".join(v2_batch(plain_rows(2), base_offset=base) for base in (0, 4, 8, 12))
    (tmp_path / NAME).write_bytes(data)
    brief, listed = (kdump("verify", "--output", "jsonl", *words, NAME, cwd=tmp_path) for words in ((), ("--gaps",)))
    assert brief.returncode == listed.returncode == CLEAN
    assert brief.stdout.count(b"KD505") == 1
    rows = [json.loads(line) for line in listed.stdout.splitlines() if b"KD505" in line]
    assert [(row["firstOffset"], row["lastOffset"]) for row in rows] == [(2, 3), (6, 7), (10, 11)]
    assert kdump("verify", "--gaps", "--quick", "-j", "2", NAME, cwd=tmp_path).stdout.count(b"are missing, ") == 3
    assert kdump("verify", "--gaps", "--startup", ".", cwd=tmp_path).returncode == USAGE


def test_clean(folder: Path) -> None:
    status, out, errors = verify("good-0", cwd=folder)
    assert (status, errors) == (CLEAN, [])
    assert out == [f"good-0/{NAME}: 1 batches, {len(BATCH)} bytes, offsets 0..2: clean"]


def test_damage(folder: Path) -> None:
    status, out, errors = verify("bad-0", cwd=folder)
    assert (status, errors) == (DAMAGE, [])
    finding, summary = out
    assert finding.startswith(f"bad-0/{NAME}: error KD108 batch-crc at 0 ({len(DAMAGED_BATCH)} bytes): ")
    assert finding.endswith("; offsets 0..2 lost (at most); next readable offset 3")
    size = len(DAMAGED_BATCH + CONTINUES)
    cut = f"{size} bytes are cut, the log ends at 0 before offset 0"
    assert summary == f"bad-0/{NAME}: 2 batches, {size} bytes, offsets 0..5: 1 error; if recovered: {cut}"


def test_strict(folder: Path) -> None:
    status, out, _ = verify("odd-0", cwd=folder)
    assert (status, codes(out)) == (CLEAN, ["KD306", "KD306"])
    assert verify("--strict", "odd-0", cwd=folder) == (DAMAGE, out, [])
    assert verify("--strict", "good-0", cwd=folder)[0] == CLEAN


def test_depth(folder: Path) -> None:
    (folder / "good-0" / NAME).write_bytes(UNDECODABLE)
    assert verify("--quick", "good-0", cwd=folder)[0] == CLEAN
    status, out, _ = verify("--deep", "good-0", cwd=folder)
    assert (status, codes(out)) == (DAMAGE, ["KD202"])
    assert verify("good-0", cwd=folder)[:2] == (status, out)


def test_limit(folder: Path) -> None:
    (folder / "good-0" / NAME).write_bytes(v2_batch(plain_rows(3, 1000), codec=GZIP))
    assert verify("good-0", cwd=folder)[0] == CLEAN
    status, out, _ = verify("--max-decompressed-size", "2000", "good-0", cwd=folder)
    assert (status, codes(out)) == (DAMAGE, ["KD203"])


@pytest.mark.parametrize("words", [[], ["--rate", "0", "x"], ["--output", "csv", "x"], ["--deep=1", "x"], ["--fix"]])
def test_usage(folder: Path, words: list[str]) -> None:
    status, out, errors = verify(*words, cwd=folder)
    assert (status, out) == (USAGE, [])
    assert errors


# --- PATHs ---


def test_several_paths_and_a_missing_one(folder: Path) -> None:
    status, out, errors = verify("odd-0", "gone", "empty.txt", "bad-0", cwd=folder)
    assert status == UNREADABLE
    assert codes(out) == ["KD306", "KD306", "KD108"]
    assert errors == ["kdump: gone: no such file or directory", "kdump: empty.txt: no such file or directory"]


def test_log_directory(folder: Path) -> None:
    status, out, _ = verify(".", cwd=folder)
    assert status == DAMAGE
    summaries = [line for line in out if " batches, " in line]
    assert [line.partition(":")[0] for line in summaries] == [
        f"./{name}/{NAME}" for name in ("bad-0", "good-0", "odd-0")
    ]


def test_pipe(folder: Path) -> None:
    status, out, errors = verify("-", cwd=folder, stdin=BATCH + CONTINUES)
    assert (status, out, errors) == (CLEAN, ["-: 2 batches, offsets 0..5: clean"], [])
    status, out, errors = verify("-", cwd=folder, stdin=BATCH + CONTINUES[:-1])
    assert (status, codes(out), errors) == (DAMAGE, ["KD105"], [])
    assert verify("-", cwd=folder)[0] == CLEAN


def test_empty_file(folder: Path) -> None:
    (folder / "good-0" / NAME).write_bytes(b"")
    assert verify("good-0", cwd=folder) == (CLEAN, [f"good-0/{NAME}: 0 batches, 0 bytes: clean"], [])


def test_names_are_escaped(folder: Path) -> None:
    name = os.fsdecode(b"\x1b[2J\xff-0")
    (folder / "good-0").rename(folder / name)
    run = kdump("verify", name, cwd=folder)
    assert run.stdout.startswith(b"\\x1b[2J\\xff-0/")


def test_nothing_is_written(folder: Path) -> None:
    shutil.copytree(SEGMENTS, folder / "copy")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}
    verify("copy", "bad-0", "odd-0", cwd=folder)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")} == before


@pytest.mark.slow
def test_a_reader_that_leaves(folder: Path) -> None:
    shutil.copytree(SEGMENTS, folder / "copy")
    for command in ("$KDUMP verify copy | head -n 1", "$KDUMP verify --output junit copy | true"):
        run = shell(f"{command}; exit ${{PIPESTATUS[0]}}", folder)
        assert (run.returncode in (CLEAN, DAMAGE), run.stderr) == (True, b"")


# --- Outputs ---


def test_jsonl(folder: Path) -> None:
    status, out, _ = verify("--output", "jsonl", "bad-0", "good-0", "odd-0", cwd=folder)
    rows = list(map(json.loads, out))
    assert status == DAMAGE
    assert [(row["type"], row["code"], row["severity"]) for row in rows] == [
        ("finding", "KD108", "error"), ("finding", "KD306", "warning"), ("finding", "KD306", "warning"),
    ]  # fmt: skip
    assert {row["topic"]: row["partition"] for row in rows} == {"bad": 0, "odd": 0}
    assert (rows[0]["firstOffset"], rows[0]["lastOffset"], rows[0]["continueAt"]) == (0, 2, 3)


def test_junit(folder: Path) -> None:
    status, out, errors = verify("--output", "junit", "bad-0", "gone", "good-0", cwd=folder)
    assert (status, errors) == (UNREADABLE, ["kdump: gone: no such file or directory"])
    root = Xml.fromstring("\n".join(out))
    cases = [(*case.attrib.values(), *(child.tag for child in case)) for case in root.iter("testcase")]
    assert cases == [("bad-0", NAME, "failure"), ("good-0", NAME), ("paths", "gone", "error")]


@pytest.mark.slow
def test_terminal(folder: Path) -> None:
    shown = on_a_terminal("verify", "bad-0", "good-0", cwd=folder).decode()
    assert "\x1b[31merror\x1b[0m KD108" in shown
    assert "if recovered" in shown
    assert f"kdump dump --explain 0 bad-0/{NAME}" in shown
    plain = on_a_terminal("verify", "--color", "never", "bad-0", "good-0", cwd=folder).decode()
    assert "\x1b" not in plain
    assert "error KD108" in plain


@pytest.mark.slow
def test_a_terminal_names_no_command_that_reads_what_verify_refused(folder: Path) -> None:
    (folder / "bad-0" / f"{900:020}.log").symlink_to("/etc/hostname")
    os.mkfifo(folder / "bad-0" / f"{901:020}.log")
    shown = on_a_terminal("verify", "bad-0", cwd=folder).decode()
    assert shown.count("KD008") == shown.count("KD009") == 1
    assert shown.count("kdump dump --explain") == 1


# --- As a library ---


def test_library(folder: Path) -> None:
    findings = list(library.findings(str(folder / "bad-0")))
    assert all(isinstance(finding, library.Finding) for finding in findings)
    assert [(one.code, one.severity, one.continue_at) for one in findings] == [("KD108", "error", 3)]
    assert list(library.findings(str(folder / "good-0"))) == []


def test_library_raises_its_own_errors(folder: Path) -> None:
    with pytest.raises(library.KdumpError) as caught:
        list(library.findings(str(folder / "gone")))
    assert str(caught.value) == f"{folder / 'gone'}: no such file or directory"


# --- What lies before, or where no batch is ---


def test_a_log_that_lost_its_start_to_retention(tmp_path: Path) -> None:
    """The .txnindex knows where a transaction began that the first segment only ends; no snapshot is there."""
    marker = Row(0, 0, struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 0))
    log = v2_batch([marker], base_offset=60, attributes=CONTROL | TRANSACTIONAL, producer_id=1, producer_epoch=0)
    name = f"{60:020}"
    (tmp_path / "t-0").mkdir()
    for suffix, data in ((".log", log), (".index", b""), (".timeindex", struct.pack(">qi", NOW, 0))):
        (tmp_path / "t-0" / f"{name}{suffix}").write_bytes(data)
    for last, status in ((60, CLEAN), (59, DAMAGE)):
        (tmp_path / "t-0" / f"{name}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 1, 41, last, last + 1))
        assert verify("--strict", "t-0", cwd=tmp_path)[0] == status


def test_an_empty_last_segment_reaches_up_to_its_name(folder: Path) -> None:
    """What the cleaner took in front of it is not missing: the broker rolled there."""
    snapshot = ProducerStates(9).snapshot()
    (folder / "good-0" / f"{9:020}.snapshot").write_bytes(snapshot)
    (folder / "good-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert codes(verify("good-0", cwd=folder)[1]) == ["KD416", "KD322"]
    for suffix in (".log", ".index", ".timeindex"):
        (folder / "good-0" / f"{9:020}{suffix}").write_bytes(b"")
    assert not {"KD322", "KD416"} & set(codes(verify("good-0", cwd=folder)[1]))


def test_the_first_damage_is_named_at_once(folder: Path) -> None:
    """Before all is read: here the second PATH is a pipe that stays open."""
    words = [*KDUMP, "verify", f"bad-0/{NAME}", "-"]
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert " KD108 " in run.stdout.readline().decode()
        run.communicate(BATCH)
        assert run.returncode == DAMAGE


LAST_SEGMENT, LAST_SNAPSHOT = "00000000000000000397", "00000000000000000448.snapshot"
"""Of fixtures/segments/v2-txn-0. Its last 1,500 bytes are batches 436 to 447, and begin in the first of them."""
BEFORE_LAST, LAST_BATCH = 6502, 7102
"""Positions of the batches with offsets 442 to 445 and 446 to 447 in this log."""


def _with_damaged_tail(folder: Path, *, left: int, zeros: int, without: tuple[str, ...], epochs: str) -> Path:
    """A copy of v2-txn-0; ``left``: bytes of its last log, ``zeros`` after them, without files of these suffixes."""
    partition = folder / "v2-txn-0"
    shutil.copytree(SEGMENTS / "v2-txn-0", partition)
    log = partition / f"{LAST_SEGMENT}.log"
    log.write_bytes(log.read_bytes()[:left] + bytes(zeros))
    (partition / "leader-epoch-checkpoint").write_text(epochs)
    for suffix in without:
        for path in partition.glob(f"{LAST_SEGMENT}{suffix}"):
            path.unlink()
        if suffix == ".snapshot":
            (partition / LAST_SNAPSHOT).unlink()
    return partition


def _findings(partition: Path) -> list[dict[str, Any]]:
    run = kdump("verify", "--output", "jsonl", str(partition), cwd=partition)
    return [json.loads(line) for line in run.stdout.splitlines()]


def _losses(partition: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The findings of the last log and of what was lost, and what a start tells."""
    found = [row for row in _findings(partition) if row["code"].startswith("KD10") or row["code"] == "KD416"]
    (line,) = kdump("verify", "--startup", "--output", "jsonl", str(partition), cwd=partition).stdout.splitlines()
    return found, json.loads(line)


def _ranges(start: dict[str, Any], key: str) -> list[tuple[int, int]]:
    return [(one["firstOffset"], one["lastOffset"]) for one in start.get(key, ())]


INDEXES = (".index", ".timeindex", ".txnindex")
_NO_EPOCHS, _EPOCH = "0\n1\n0 0\n", "0\n2\n0 0\n1 448\n"


@pytest.mark.parametrize(
    ("without", "epochs"),
    [((), _NO_EPOCHS), ((".snapshot",), _NO_EPOCHS), (INDEXES, _NO_EPOCHS), ((*INDEXES, ".snapshot"), _EPOCH)],
)
@pytest.mark.parametrize("zeros", [0, 1400])
def test_the_loss_at_a_damaged_tail_is_one_range(
    zeros: int, without: tuple[str, ...], epochs: str, tmp_path: Path
) -> None:
    """Whatever tells where the log ended: a snapshot, the indexes, a leader epoch."""
    partition = _with_damaged_tail(tmp_path, left=5942, zeros=zeros, without=without, epochs=epochs)
    (tail, *zeroed, gone), start = _losses(partition)
    assert (tail["code"], gone["code"]) == ("KD108" if zeros else "KD105", "KD416")
    assert [(one["firstOffset"], one["lastOffset"], one["continueAt"]) for one in (tail, gone)] == [
        (436, 447, None)
    ] * 2
    assert [(one["code"], one["firstOffset"]) for one in zeroed] == ([("KD109", None)] if zeros else [])
    assert _ranges(start, "alreadyLost") == [(436, 447)]
    assert not start["lost"]
    text = kdump("verify", str(partition), cwd=tmp_path).stdout.decode()
    assert "; the log ends here; offsets 436..447 lost (at most)\n" in text
    assert "next readable offset" not in text


def test_the_header_of_a_cut_entry_tells_where_it_ends(tmp_path: Path) -> None:
    """Nothing else does: a start loses no more than this entry."""
    partition = _with_damaged_tail(tmp_path, left=5942, zeros=0, without=(*INDEXES, ".snapshot"), epochs=_NO_EPOCHS)
    (tail,), start = _losses(partition)
    assert (tail["code"], tail["firstOffset"], tail["lastOffset"], tail["continueAt"]) == ("KD105", 436, 437, None)
    assert [(one["firstOffset"], one["lastOffset"]) for one in start["lost"]] == [(436, 437)]
    assert "alreadyLost" not in start


@pytest.mark.parametrize(("left", "is_named"), [(57, True), (61, False)])
def test_zeros_in_the_last_batch(left: int, is_named: bool, tmp_path: Path) -> None:
    """With its header a start loses it. Where its count is zero, too, the snapshot tells that it was there."""
    end = LAST_BATCH + left
    partition = _with_damaged_tail(tmp_path, left=end, zeros=9000 - end, without=INDEXES, epochs=_NO_EPOCHS)
    found, start = _losses(partition)
    lost = [("KD108", 446, 447, None), ("KD109", None, None, None)]
    gone = [("KD416", 446, 447, None)] * is_named
    assert [(one["code"], one["firstOffset"], one["lastOffset"], one["continueAt"]) for one in found] == lost + gone
    assert _ranges(start, "alreadyLost") == [(446, 447)] * is_named
    assert _ranges(start, "lost") == [(446, 447)] * (not is_named)
    assert kdump("verify", "--startup", str(partition), cwd=tmp_path).returncode == DAMAGE


def test_damaged_batches_one_after_the_other_are_one_loss(tmp_path: Path) -> None:
    partition = _with_damaged_tail(tmp_path, left=7442, zeros=0, without=(), epochs=_NO_EPOCHS)
    log = partition / f"{LAST_SEGMENT}.log"
    data = bytearray(log.read_bytes())
    for position in (BEFORE_LAST, LAST_BATCH):
        data[position + 70] ^= 1
    log.write_bytes(data)
    found, start = _losses(partition)
    assert [(one["code"], one["firstOffset"], one["lastOffset"], one["continueAt"]) for one in found] == [
        ("KD108", 442, 447, None),
        ("KD108", None, None, None),
    ]
    assert _ranges(start, "lost") == [(442, 447)]
    assert "alreadyLost" not in start


@pytest.mark.parametrize(
    ("field", "value", "code"), [(12, struct.pack(">i", -5), "KD217"), (0, struct.pack(">q", -1), "KD504")]
)
def test_the_log_does_not_end_before_a_batch_with_a_right_crc(
    field: int, value: bytes, code: str, tmp_path: Path
) -> None:
    """Whatever else is wrong with it: no recovery cuts it for its CRC."""
    partition = _with_damaged_tail(tmp_path, left=7442, zeros=0, without=INDEXES, epochs=_NO_EPOCHS)
    log = partition / f"{LAST_SEGMENT}.log"
    data = bytearray(log.read_bytes())
    data[LAST_BATCH + field : LAST_BATCH + field + len(value)] = value
    log.write_bytes(data)
    rows = _findings(partition)
    (found,) = (one for one in rows if one["code"] == code)
    assert (found["position"], found["firstOffset"]) == (LAST_BATCH, None)
    assert "the log ends here" not in found["message"]
    # A batch before it keeps its offsets: what is lost begins after them.
    gone = [one for one in rows if one["code"] == "KD416"]
    assert [(one["firstOffset"], one["lastOffset"]) for one in gone] == [(446, 447)] * (code == "KD504")


def test_a_log_that_is_cut_and_goes_on(tmp_path: Path) -> None:
    """The next segment follows: consumers go on with it."""
    partition = _with_damaged_tail(tmp_path, left=7442, zeros=0, without=(), epochs=_NO_EPOCHS)
    log = partition / "00000000000000000297.log"
    log.write_bytes(log.read_bytes()[:-100])
    (found,), _ = _losses(partition)
    assert (found["code"], found["continueAt"]) == ("KD105", 397)
    text = kdump("verify", str(partition), cwd=tmp_path).stdout.decode()
    assert "396 lost (at most); next readable offset 397\n" in text
    assert "the log ends here" not in text


def test_a_reader_goes_on_at_a_position(folder: Path) -> None:
    """``verify`` tells where a consumer goes on, ``dump --resync`` where it reads on itself."""
    log = folder / "odd-0" / NAME
    log.write_bytes(BATCH + b"\xff" * 50 + CONTINUES)
    run = kdump("dump", "--resync", str(log), cwd=folder)
    assert f"skipped at {len(BATCH)} (50 bytes)".encode() in run.stderr
    assert run.stderr.rstrip().endswith(f"; reading goes on at position {len(BATCH) + 50}".encode())


@pytest.mark.parametrize(("left", "is_told"), [(5942, True), (5630, False)])
def test_preallocated_indexes_tell_where_a_damaged_log_ended(left: int, is_told: bool, tmp_path: Path) -> None:
    """A follower that truncates between batches leaves such entries, too: then nothing need be lost."""
    partition = _with_damaged_tail(tmp_path, left=left, zeros=0, without=(".txnindex", ".snapshot"), epochs=_NO_EPOCHS)
    for suffix in (".index", ".timeindex"):
        path = partition / f"{LAST_SEGMENT}{suffix}"
        path.write_bytes(path.read_bytes() + bytes(24 * 100))
    found, start = _losses(partition)
    assert [(one["code"], one["lastOffset"]) for one in found] == ([("KD105", 447), ("KD416", 447)] if is_told else [])
    assert [one["lastOffset"] for one in start.get("alreadyLost", [])] == [447] * is_told
