"""``kdump stats --what-if`` as a process."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT
from tests.harness.archives import unpack_cases
from tests.harness.batches import NOW, v2_batch
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
)
from tests.harness.decoder_logs import commit, write_log
from tests.harness.fast_reference import Row

CONTINUES = v2_batch([Row(0, 0, b"k", b"v")], base_offset=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``t-0``: two segments; ``bad-0``: damage between two batches; ``__consumer_offsets-4``: a commit."""
    for name, data in {"t-0": BATCH, "bad-0": BATCH + DAMAGED_BATCH + CONTINUES}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(data)
    (tmp_path / "t-0" / f"{3:020}.log").write_bytes(CONTINUES)
    write_log(tmp_path, "__consumer_offsets-4", [commit("group", offset=7)])
    return tmp_path


def stats(*words: str, cwd: Path, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    run = kdump("stats", *words, cwd=cwd, stdin=stdin)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def rows(*words: str, cwd: Path, stdin: bytes = b"") -> list[dict[str, Any]]:
    status, out, errors = stats(*words, "--output", "jsonl", cwd=cwd, stdin=stdin)
    assert (status, errors) == (CLEAN, "")
    return [json.loads(line) for line in out.splitlines()]


def test_magic(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(v2_batch([Row(0, n, None, b"value%d" % n) for n in range(10)]))
    lines = stats("--what-if", "magic", "--output", "jsonl", NAME, cwd=tmp_path)[1].splitlines()
    assert [line[: line.index(',"records"')] for line in lines] == [
        '{"type":"whatIf","question":"magic","magic":0,"bytes":320',
        '{"type":"whatIf","question":"magic","magic":1,"bytes":400',
        '{"type":"whatIf","question":"magic","magic":2,"bytes":191',
    ]


def test_a_stream(folder: Path) -> None:
    found = rows("--what-if", "magic", "-", cwd=folder, stdin=BATCH)
    assert [row["bytesNow"] for row in found] == [len(BATCH)] * 3


@pytest.mark.parametrize("question", ["compaction", "retention=1d"])
def test_a_stream_has_no_segments(folder: Path, question: str) -> None:
    status, out, errors = stats("--what-if", question, "-", cwd=folder, stdin=BATCH)
    assert status == UNREADABLE
    assert "stream" in errors
    assert out.strip() == ""


@pytest.mark.slow
def test_answers_come_in_the_order_of_the_questions(folder: Path) -> None:
    questions = ["retention=1d", "magic", "compaction", "codec", "magic"]
    found = rows(*(word for each in questions for word in ("--what-if", each)), "t-0", cwd=folder)
    assert list(dict.fromkeys(row["question"] for row in found)) == [
        "retention",
        "magic",
        "compaction",
        "codec",
    ]
    assert all(list(row)[:2] == ["type", "question"] for row in found)


def test_retention_by_time_and_size(folder: Path) -> None:
    def gone(question: str, *words: str) -> list[Any]:
        return [row["reason"] for row in rows("--what-if", question, *words, "t-0", cwd=folder)]

    now = ("--now", str(NOW + 86_400_003))
    assert gone("retention=1d", *now) == ["retention.ms", "retention.ms"]
    assert gone("retention=25h", *now) == [None, None]
    assert gone(f"retention={len(CONTINUES)}B", *now) == ["retention.bytes", None]
    assert gone("retention=1TiB,86400000ms", *now) == ["retention.ms", "retention.ms"]
    assert gone("retention=1d") == ["retention.ms", "retention.ms"], "without --now it is that of this machine"


def test_retention_goes_by_the_time_index(folder: Path) -> None:
    index = folder / "t-0" / NAME
    index.with_suffix(".timeindex").write_bytes((NOW + 10**9).to_bytes(8, "big") + bytes(4))
    first, _ = rows("--what-if", "retention=1d", "--now", str(NOW + 10**9), "t-0", cwd=folder)
    assert (first["largestTimestamp"], first["goes"]) == (NOW + 10**9, False)


def test_retention_names_the_directory(folder: Path) -> None:
    for cwd, path, name in ((folder, "t-0", "t-0"), (folder / "t-0", NAME, ".")):
        status, out, _ = stats("--what-if", "retention=1000d", "--now", str(NOW), path, cwd=cwd)
        assert status == CLEAN
        assert out.startswith(f"{name}: 0 of ")


def test_compaction_of_partitions(folder: Path) -> None:
    found = rows("--what-if", "compaction", "t-0", "__consumer_offsets-4", cwd=folder)
    assert [(row["topic"], row["partition"], row["cleanedSegments"], row["segments"]) for row in found] == [
        ("t", 0, 1, 2),
        ("__consumer_offsets", 4, 1, 1),
    ]


def test_damage_is_left_out_and_told(folder: Path) -> None:
    for question in ("magic", "compaction"):
        status, out, errors = stats("--what-if", question, "--output", "jsonl", "bad-0", cwd=folder)
        assert status == DAMAGE
        assert errors.count("the CRC is wrong") == 1, "once, however often the log is read"
        row = json.loads(out.splitlines()[-1])
        assert row["bytesNow"] == len(BATCH + CONTINUES)


def test_missing_paths_do_not_stop_the_others(folder: Path) -> None:
    status, out, errors = stats("--what-if", "magic", "--output", "jsonl", "nowhere", "t-0", cwd=folder)
    assert (status, len(out.splitlines())) == (UNREADABLE, 3)
    assert errors == "kdump: nowhere: no such file or directory\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--what-if", "size"],
        ["--what-if", "magic=2"],
        ["--what-if", "retention"],
        ["--what-if", "retention=5"],
        ["--what-if", "retention=5d,6h"],
        ["--what-if", "retention=x"],
        ["--what-if", "magic", "--quick"],
        ["--what-if", "magic", "--html", "x.html"],
        ["--what-if", "magic", "--by", "topic"],
        ["--what-if", "magic", "--engine", "spark"],
        ["--now", "yesterday"],
        ["--now", ""],
    ],
)
def test_usage(folder: Path, words: list[str]) -> None:
    status, out, errors = stats(*words, "t-0", cwd=folder)
    assert (status, out) == (USAGE, "")
    assert "Error: " in errors
    assert not (folder / "x.html").exists()


@pytest.mark.slow
def test_tables_fit_a_terminal(folder: Path) -> None:
    for question in ("codec", "magic", "compaction", "retention=1d"):
        shown = on_a_terminal("stats", "--what-if", question, "t-0", cwd=folder, columns=60, NO_COLOR="1").decode()
        # Only a word that has no place to be broken may be longer.
        long = [line for line in shown.splitlines() if len(line) > 60 and not re.search(r"\S{50}", line)]
        assert not long


@pytest.mark.slow
def test_keys_are_in_the_manual(folder: Path) -> None:
    manual = (ROOT / "man" / "kdump-stats.1").read_text()
    text = manual.partition(".SS Answers")[2].partition(".SH")[0]
    documented = set(re.findall(r"\w+", text))
    questions = [word for each in ("codec", "magic", "compaction", "retention=1d") for word in ("--what-if", each)]
    found = rows(*questions, "t-0", cwd=folder)
    assert {str(row["type"]) for row in found} == {"whatIf"}
    for row in found:
        assert row.keys() <= documented
        assert row["type"] in documented


def test_retention_with_the_settings_of_each_topic(tmp_path: Path) -> None:
    """elr-41 has the default of Kafka, t-41-3 30000001 ms; payments is compacted only. A record is from the future."""
    root = unpack_cases("metadata", tmp_path)
    logs = root / "cluster" / "n1"
    for topic in ("elr-41-0", "t-41-3-0", "payments-0"):
        (logs / topic).mkdir()
        for base, ahead in ((0, 10**9), (1, 0)):
            data = v2_batch([Row(0, 0, b"k", b"v")], base_offset=base, base_timestamp=NOW + ahead)
            (logs / topic / f"{base:020}.log").write_bytes(data)
    now = ("--now", str(NOW + 8 * 86_400_000))
    found = rows("--what-if", "retention", *now, "cluster/n1", cwd=root)
    of_topics = [row for row in found if row["topic"] != "__cluster_metadata"]
    assert [(row["topic"], row["retentionMs"], row["goes"], row["blockedBy"]) for row in of_topics] == [
        ("elr-41", 604_800_000, False, 0),
        ("elr-41", 604_800_000, False, None),
        ("payments", None, False, None),
        ("payments", None, False, None),
        ("t-41-3", 30_000_001, False, 0),
        ("t-41-3", 30_000_001, False, None),
    ]
    _, out, _ = stats("--what-if", "retention", *now, "cluster/n1/elr-41-0", cwd=root)
    assert "the record at offset 0" in out


def test_each_release_keeps_other_empty_batches(tmp_path: Path) -> None:
    """The last batch of what is cleaned loses its record, which has no key."""
    log = tmp_path / "t-0"
    log.mkdir()
    first = v2_batch([Row(0, 0, b"k", b"v")]) + v2_batch([Row(0, 0, None, b"v")], base_offset=1)
    (log / NAME).write_bytes(first)
    (log / f"{2:020}.log").write_bytes(v2_batch([Row(0, 0, b"k", b"v")], base_offset=2))
    for words, release, empty in ((), "4.4", 0), (("--broker-version", "4.3"), "4.3", 1):
        (row,) = rows("--what-if", "compaction", *words, "t-0", cwd=tmp_path)
        assert (row["brokerVersion"], row["emptyBatches"]) == (release, empty)
    assert f"the log cleaner of Kafka {release}." in stats("--what-if", "compaction", *words, "t-0", cwd=tmp_path)[1]


def test_a_padded_time_index_ends_with_a_zero(tmp_path: Path) -> None:
    """A broker takes the last entry of a closed segment's index, also where that is padding: the segment is old."""
    log = tmp_path / "t-0"
    log.mkdir()
    for offset in (0, 1):
        (log / f"{offset:020}.log").write_bytes(v2_batch([Row(0, 0, b"k", b"v")], base_offset=offset))
    entry = NOW.to_bytes(8, "big") + bytes(4)
    for padding, goes in ((0, False), (24, True)):
        (log / f"{0:020}.timeindex").write_bytes(entry + bytes(padding))
        found = rows("--what-if", "retention=1d", "--now", str(NOW), "t-0", cwd=tmp_path)
        assert found[0]["goes"] is goes


# What the retention of a broker of Kafka 0.7 met and left (log.retention.hours=2 at 12:46, log.retention.size=9000):
# name, size, last change.
MET_07 = """\
retall-0/00000000000000000000.kafka 3143 09:45:44
retall-0/00000000000000003143.kafka 2122 09:45:44
retempty-0/00000000000000000000.kafka 0 09:45:45
retlastempty-0/00000000000000016955.kafka 2941 09:45:45
retlastempty-0/00000000000000019896.kafka 0 09:45:45
retmid-0/00000000000000000000.kafka 4311 12:45:44
retmid-0/00000000000000004311.kafka 4395 09:45:45
rettime-0/00000000000000006290.kafka 3180 09:45:44
rettime-0/00000000000000009470.kafka 1036 12:45:44
retsize-0/00000000000000000000.kafka 4246 12:40:04
retsize-0/00000000000000004246.kafka 4243 12:40:04
retsize-0/00000000000000008489.kafka 4227 12:40:04
retsize-0/00000000000000012716.kafka 4239 12:40:04
retsize-0/00000000000000016955.kafka 2941 12:40:04
"""
LEFT_BY_TIME = {"retempty-0/0", "retlastempty-0/19896", "retmid-0/0", "retmid-0/4311", "rettime-0/9470"}
LEFT_BY_SIZE = {"retsize-0/8489", "retsize-0/12716", "retsize-0/16955"}


@pytest.fixture
def folder_07(tmp_path: Path) -> Path:
    for line in MET_07.splitlines():
        name, size, time = line.split()
        hours, minutes, seconds = map(int, time.split(":"))
        log = tmp_path / name
        log.parent.mkdir(exist_ok=True)
        log.write_bytes(bytes(int(size)))
        changed = 1795305600 + 3600 * hours + 60 * minutes + seconds
        os.utime(log, (changed, changed))
    return tmp_path


def stays_07(*words: str, cwd: Path) -> set[str]:
    found = rows("--what-if", *words, "--now", "2026-11-22T12:46:48", ".", cwd=cwd)
    logs = (Path(row["segment"]) for row in found if not row["goes"])
    return {f"{log.parent.name}/{int(log.stem)}" for log in logs}


def test_retention_of_07_goes_by_the_last_change_of_the_file(folder_07: Path) -> None:
    """What the broker deleted, and that of a topic whose last file is empty or whose first one is young it kept."""
    stays = stays_07("retention=2h", cwd=folder_07)
    assert {log for log in stays if not log.startswith("retsize")} == LEFT_BY_TIME
    stays = stays_07("retention=9000B", cwd=folder_07)
    assert {log for log in stays if log.startswith("retsize")} == LEFT_BY_SIZE


def test_retention_of_07_says_what_counts(folder_07: Path) -> None:
    _, out, _ = stats("--what-if", "retention=2h", "--now", "2026-11-22T12:46:48", "retmid-0", cwd=folder_07)
    assert "0 of 2 segments would go; the last change of the oldest one is 1 min 4 s old" in " ".join(out.split())


@pytest.mark.parametrize("question", ["codec", "magic", "compaction"])
def test_other_questions_about_07_have_no_answer(folder_07: Path, question: str) -> None:
    status, _, errors = stats("--what-if", question, "retmid-0", cwd=folder_07)
    assert status == UNREADABLE
    assert "has logs of Kafka 0.7, about which only --what-if retention is answered" in errors


@pytest.mark.parametrize(
    ("time", "offset", "timestamp"),
    [
        ("2026-11-22T09:00", 6290, None),
        ("2026-11-22T10:00", 6290, 1795340744000),
        ("2026-11-22T12:45:44", 9470, 1795351544000),
        ("2100-01-01", 10506, ...),
    ],
)
def test_the_offset_that_a_broker_of_07_answers_for_a_time(
    folder_07: Path, time: str, offset: int, timestamp: Any
) -> None:
    """The start of the newest segment that was last changed by then, as in the answers of a real broker."""
    (row,) = rows("--offsets-for", time, "rettime-0", cwd=folder_07)
    assert (row["offset"], row["logStartOffset"], row["logEndOffset"]) == (offset, 6290, 10506)
    assert timestamp is ... or row["timestamp"] == timestamp


@pytest.mark.parametrize("made", ["sound", "unknown-type"])
def test_limits_come_from_the_metadata(made: str, tmp_path: Path) -> None:
    """They are not those of the metadata log itself. What of it a newer Kafka wrote may change them."""
    directory = unpack_cases("metadata", tmp_path) / "damaged" / made
    (directory / "t-0").mkdir()
    (directory / "t-0" / NAME).write_bytes(BATCH)
    status, out, errors = stats("--what-if", "retention", ".", cwd=directory)
    assert status == CLEAN
    assert "t-0: 1 of 1 segment would go" in out
    assert "__cluster_metadata-0: left out" in out
    assert "__cluster_metadata-0/" not in out
    newer = ("offset 109 holds what is not in the metadata here", "a newer Kafka")
    assert [all(part in errors for part in newer), errors == ""] == [made != "sound", made == "sound"]
