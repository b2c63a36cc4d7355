"""verify.run over files: captures are clean, what Kafka rejects is an error, one PATH is like another."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump import limits
from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.inputs import resolve
from kdump.kafka.recover import RecoveryOutcome
from kdump.log.files import strip_credentials
from kdump.log.metering import metered
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.verify.partition import PartitionCheck
from kdump.verify.run import Verification
from kdump.verify.segment import CheckOptions
from kdump.verify.summary import SegmentSummary
from tests.harness.archives import case_files
from tests.harness.batches import GZIP, TRANSACTIONAL, plain_rows, v2_batch
from tests.harness.captures import FIXTURES, Captures, partition_cases, partition_names
from tests.harness.cli_runs import BATCH, DAMAGED_BATCH, NAME, locked

SEGMENTS = FIXTURES / "segments"
DAMAGED = "damaged/"
QUICK = CheckOptions(deep=False)
UNDECODABLE = v2_batch(body=b"rubbish", record_count=1, attributes=GZIP)
KAFKA_OUTCOMES = {
    "unchanged": RecoveryOutcome.UNCHANGED,
    "truncated": RecoveryOutcome.TRUNCATED,
    "exception": RecoveryOutcome.FAILED,
}
Verified = tuple[list[Finding], list[SegmentSummary]]


def checking(options: CheckOptions | None = None) -> Verification:
    return Verification(PartitionCheck(options))


def verified(path: str | Path, verification: Verification | None = None) -> Verified:
    items = list((verification or Verification()).items(resolve(str(path))))
    summaries = [item for item in items if isinstance(item, SegmentSummary)]
    return [item for item in items if isinstance(item, Finding)], summaries


def alarming(findings: Iterable[Finding]) -> list[str]:
    return [f"{item.path}: {item}" for item in findings if item.severity is not Severity.INFO]


def codes(findings: Iterable[Finding]) -> list[Codes]:
    return [finding.code for finding in findings]


def errors(findings: Iterable[Finding]) -> list[Codes]:
    return [finding.code for finding in findings if finding.severity is Severity.ERROR]


def written(directory: Path, *entries: bytes, name: str = NAME, index: bool = True) -> Path:
    """A segment with an empty index and nothing else beside it."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_bytes(b"".join(entries))
    if index:
        path.with_suffix(".index").write_bytes(b"")
        path.with_suffix(".timeindex").write_bytes(b"")
    return path


# --- What brokers wrote, and what was damaged in it ---


@pytest.mark.parametrize(("left", "missed"), [(set(), 0), ({0}, 1), ({5}, 1)])
def test_brokers_before_0_10_1_wrote_no_time_indexes(tmp_path: Path, left: set[int], missed: int) -> None:
    """Messages of magic 1 with timestamps, seen of 0.10.0.1; where there is one time index the others are missed."""
    source = SEGMENTS / "v1-gzip-0"
    for base in (0, 5):
        for suffix in (".log", ".index", ".timeindex") if base in left else (".log", ".index"):
            shutil.copy(source / f"{0:020}{suffix}", tmp_path / f"{base:020}{suffix}")
    assert codes(verified(tmp_path)[0]).count(Codes.INDEX_MISSING) == missed


@pytest.mark.parametrize(
    ("checkpoint", "code"),
    [
        ("v2-txn 0 397", Codes.SEGMENT_GAP),
        ("v2-txn 1 397", Codes.SEGMENT_MISSING),
        ("v2-txn 0 0", Codes.SEGMENT_MISSING),
    ],
)
def test_the_log_directory_says_what_was_cleaned(tmp_path: Path, checkpoint: str, code: Codes) -> None:
    partition = tmp_path / "v2-txn-0"
    shutil.copytree(SEGMENTS / "v2-txn-0", partition)
    for path in partition.glob(f"{201:020}.*"):
        path.unlink()
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\n{checkpoint}\n")
    findings, _ = verified(partition)
    assert set(codes(findings)) & {Codes.SEGMENT_GAP, Codes.SEGMENT_MISSING} == {code}


@pytest.mark.parametrize("name", partition_cases(name for name in partition_names() if not name.startswith(DAMAGED)))
def test_captures_are_clean(captures: Captures, name: str) -> None:
    directory = captures.root / name
    logs = sorted(str(path) for path in directory.glob("*.log"))
    paths = [str(directory)] if logs else [str(path) for path in directory.glob("*.checkpoint")]
    assert paths
    for options in (QUICK, CheckOptions()):
        summaries = []
        for path in paths:
            findings, found = verified(path, checking(options))
            assert alarming(findings) == []
            summaries += found
        assert [summary.path for summary in summaries] == logs or paths
        assert all(summary.recovery is None and summary.size is not None for summary in summaries)


def java_rejects(directory: Path) -> bool:
    """The real tool aborts over a log, or says that something in it is not valid."""
    for status in (directory / "golden").glob("*.log.4.3.1.deep.rc"):
        out = status.with_suffix(".out").read_bytes()
        said = (b"isvalid: false", b"isValid: false", b"invalid bytes at the end")
        if status.read_text().strip() != "0" or any(text in out for text in said):
            return True
    return False


def test_what_the_java_tool_rejects_is_an_error(captures: Captures) -> None:
    rejected = [path for path in sorted((captures.root / "damaged").iterdir()) if java_rejects(path)]
    assert len(rejected) > 50
    missed = [path.name for path in rejected if not errors(verified(path)[0])]
    assert missed == []


def unpacked(folder: str, directory: Path) -> Path:
    """The files of one case, in a directory of their own."""
    directory.mkdir()
    for name, data in case_files("repair").items():
        if name.startswith(f"repair/{folder}/"):
            (directory / os.path.basename(name)).write_bytes(data)
    return directory


def case_results() -> Iterator[dict[str, Any]]:
    yield from map(json.loads, case_files("repair")["repair/results.jsonl"].splitlines())


def test_clean_bases(tmp_path: Path) -> None:
    names = sorted({name.split("/")[2] for name in case_files("repair") if name.startswith("repair/base/")})
    assert len(names) == 20
    for name in names:
        findings, summaries = verified(unpacked(f"base/{name}", tmp_path / name))
        assert errors(findings) == [], name
        assert [summary.recovery for summary in summaries] == [None]


@pytest.mark.slow
def test_what_kafka_rejects_is_an_error_and_recovery_is_as_in_kafka(tmp_path: Path) -> None:
    wrong = []
    for case in case_results():
        rejected = case["outcome"] != "unchanged" or case["kafka_reads"].get("ok") is False
        if not rejected:
            continue
        findings, (summary,) = verified(unpacked(f"mutants/{case['id']}", tmp_path / case["id"]))
        recovery = summary.recovery
        if not errors(findings) or recovery is None or recovery.outcome is not KAFKA_OUTCOMES[case["outcome"]]:
            wrong.append((case["id"], case["mutation"], codes(findings), recovery and recovery.outcome))
        elif recovery.outcome is RecoveryOutcome.TRUNCATED and recovery.end != case["recover"]["size"]:
            wrong.append((case["id"], case["mutation"], recovery.end, case["recover"]["size"]))
    assert wrong == []


# --- Depth ---


class CountingSource(Source):
    """A file of which every read is counted."""

    def __init__(self, path: str, count: Callable[[int], None]) -> None:
        self._source = open_source(path)
        super().__init__(path, self._source.size)
        self._count = count

    def read_into(self, view: memoryview, position: int) -> int:
        filled = self._source.read_into(view, position)
        self._count(filled)
        return filled

    def close(self) -> None:
        self._source.close()


def test_quick_decodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, UNDECODABLE)
    assert errors(verified(path)[0]) == [Codes.PAYLOAD]

    def decompress(*arguments: object, **named: object) -> bytes:
        raise AssertionError("something is decompressed")

    monkeypatch.setattr("kdump.wire.compression.decompress", decompress)
    assert alarming(verified(path, checking(QUICK))[0]) == []


def test_quick_reads_every_byte_once() -> None:
    path = str(SEGMENTS / "v2-txn-0" / NAME)
    counts: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kdump.verify.partition.open_source", lambda name: CountingSource(name, counts.append))
        verified(path, checking(QUICK))
    assert sum(counts) == os.path.getsize(path)


# --- PATHs ---


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("gone.log", Codes.MISSING),
        (NAME, Codes.MISSING),
        ("notes.txt", Codes.NOT_A_SEGMENT_FILE),
        ("empty", Codes.NO_SEGMENTS),
    ],
)
def test_what_is_no_segment(tmp_path: Path, name: str, code: Codes) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "empty").mkdir()
    with pytest.raises(KdumpError) as caught:
        verified(tmp_path / name)
    assert caught.value.code is code


def test_every_finding_has_a_path(captures: Captures) -> None:
    for path in sorted((captures.root / "damaged").glob("[lrv]*")):
        findings, _ = verified(path)
        assert all(finding.path and os.path.dirname(finding.path) == str(path) for finding in findings)


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex"])
def test_a_sibling_stands_for_its_segment(suffix: str) -> None:
    path = SEGMENTS / "v2-txn-0" / f"{105:020}.log"
    _, summaries = verified(path.with_suffix(suffix))
    assert [summary.path for summary in summaries] == [str(path)]


@pytest.mark.parametrize("name", ["snap-1byte", "snap-count", "snap-trunc", "snap-version", "txn-version"])
def test_lone_siblings(captures: Captures, name: str) -> None:
    paths = [
        path
        for path in (captures.root / "damaged" / name).iterdir()
        if path.suffix in (".snapshot", ".txnindex") and path.stat().st_size
    ]
    assert paths
    for path in paths:
        findings, (summary,) = verified(path)
        assert {finding.path for finding in findings} == {str(path)}
        assert (summary.path, summary.size, summary.batches) == (str(path), path.stat().st_size, None)


@pytest.mark.parametrize("name", [f"{NAME}.deleted", f"{NAME}.swap", f"{0:020}-{'a' * 22}.log", "0.log"])
def test_other_names_of_segments(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, BATCH, DAMAGED_BATCH, name=name, index=False)
    findings, (summary,) = verified(path)
    assert Codes.BATCH_CRC in codes(findings)
    assert (summary.path, summary.batches) == (str(path), 2)


def test_fifo(tmp_path: Path) -> None:
    path = tmp_path / "a.pipe"
    os.mkfifo(path)
    with subprocess.Popen([sys.executable, "-c", f"open({str(path)!r}, 'wb').write({BATCH + DAMAGED_BATCH!r})"]):
        strip_credentials(str(path))
        findings, (summary,) = verified(path)
    assert errors(findings) == [Codes.BATCH_CRC]
    assert (summary.size, summary.recovery, summary.batches) == (None, None, 2)


# --- What the summary says ---


def test_recovery_that_fails(tmp_path: Path) -> None:
    producer = {"producer_id": 1, "producer_epoch": 0}
    transactional = v2_batch(plain_rows(1), base_sequence=0, attributes=TRANSACTIONAL, **producer)
    plain = v2_batch(plain_rows(1), base_offset=1, base_sequence=1, **producer)
    findings, (summary,) = verified(written(tmp_path, transactional, plain))
    assert errors(findings) == [Codes.TRANSACTION_STATE]
    assert summary.recovery is not None
    assert summary.recovery.outcome is RecoveryOutcome.FAILED


def test_hole_and_where_it_goes_on(tmp_path: Path) -> None:
    batches = [v2_batch(plain_rows(3, 2000), base_offset=number * 3) for number in range(9)]
    size = len(batches[0])
    data = bytearray(b"".join(batches))
    data[2 * size : 3 * size] = bytes(size)
    path = written(tmp_path / "t-0", bytes(data))
    entries = ((8, 2 * size), (17, 5 * size), (26, 8 * size))
    path.with_suffix(".index").write_bytes(
        b"".join(offset.to_bytes(4, "big") + place.to_bytes(4, "big") for offset, place in entries)
    )
    (hole,) = [item for item in verified(path)[0] if item.code is Codes.ZERO_FILL]
    assert (hole.position, hole.length) == (2 * size, size)
    # Batch 3 is sound, but a fetch from the index entry before the hole does not get to it.
    assert (hole.first_offset, hole.last_offset, hole.continue_at) == (6, 8, 17)


def test_progress() -> None:
    seen: list[tuple[str, int]] = []
    path = str(SEGMENTS / "v1-gzip-0" / NAME)
    with metered(progress=lambda *step: seen.append(step)):
        verified(path, checking())
    size = os.path.getsize(path)
    assert max(done for read, done in seen if read == path) >= size
    assert [done for _, done in seen] == sorted(done for _, done in seen)


# --- Below a running broker ---


@pytest.fixture
def live_log_directory(tmp_path: Path) -> Iterator[Path]:
    """A log directory whose .lock another process holds, as a broker does."""
    lock = tmp_path / ".lock"
    lock.write_bytes(b"")
    with locked(lock):
        yield tmp_path


TORN = [BATCH + v2_batch(plain_rows(3), base_offset=3)[:cut] for cut in (40, 70)]


@pytest.mark.parametrize("data", TORN, ids=["header", "records"])
def test_torn_tail_of_a_live_broker(live_log_directory: Path, data: bytes) -> None:
    findings, _ = verified(written(live_log_directory / "t-0", data))
    assert findings
    assert alarming(findings) == []


@pytest.mark.parametrize("data", TORN, ids=["header", "records"])
def test_torn_tail_of_no_live_broker(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".lock").write_bytes(b"")
    assert len(errors(verified(written(tmp_path / "t-0", data))[0])) == 1


def test_only_the_last_segment_of_a_live_broker_grows(live_log_directory: Path) -> None:
    partition = live_log_directory / "t-0"
    written(partition, TORN[1])
    written(partition, v2_batch(plain_rows(3), base_offset=6), name=f"{6:020}.log")
    findings, _ = verified(partition)
    assert errors(findings) == [Codes.TRUNCATED]


def test_damage_below_a_live_broker_is_damage(live_log_directory: Path) -> None:
    findings, _ = verified(written(live_log_directory / "t-0", DAMAGED_BATCH, BATCH))
    assert Codes.BATCH_CRC in errors(findings)


def test_asking_for_the_lock_does_not_take_it(live_log_directory: Path) -> None:
    verified(written(live_log_directory / "t-0", TORN[0]))
    with (live_log_directory / ".lock").open("r+b") as lock, pytest.raises(OSError, match="unavailable"):
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_slash_after_a_partition_directory_changes_nothing() -> None:
    directory = SEGMENTS / "v2-txn-0"
    assert verified(f"{directory}/") == verified(directory)


@pytest.mark.parametrize("other", ["t-0.0a-delete", "t-0.0a-future", "t-0.0a-stray", "t-00"])
def test_lines_of_checkpoints_are_not_those_of_another_directory_of_the_partition(tmp_path: Path, other: str) -> None:
    """The directory beside ``t-0`` took its place, and what was wrong with its checkpoint was not found."""
    for folder, offset in (("t-0", 0), (other, 100)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{offset:020}.log").write_bytes(v2_batch(plain_rows(5), base_offset=offset))
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    found, _ = verified(tmp_path)
    assert codes(found).count(Codes.RECOVERY_POINT) == 1
    shutil.rmtree(tmp_path / "t-0")
    found, _ = verified(tmp_path)
    assert Codes.PARTITION_MISSING not in codes(found)


@pytest.mark.parametrize(("limit", "shown", "told"), [(2, 2, "1 of severity error"), (3, 3, None)])
def test_findings_over_the_limit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, shown: int, told: str | None
) -> None:
    batches = [bytearray(v2_batch(plain_rows(1), base_offset=number)) for number in range(5)]
    for batch in batches[:3]:
        batch[-1] ^= 1
    (tmp_path / f"{0:020}.log").write_bytes(b"".join(batches))
    monkeypatch.setitem(limits._given, limits.FINDINGS, limit)
    found = [one for one in Verification().items(resolve(str(tmp_path))) if isinstance(one, Finding)]
    wrong = [one for one in found if one.code is Codes.BATCH_CRC]
    left_out = [one for one in found if one.code is Codes.LEFT_OUT]
    assert (len(wrong), len(left_out)) == (shown, told is not None)
    assert all(told is not None and told in one.message and one.severity is Severity.ERROR for one in left_out)
