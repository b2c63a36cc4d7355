"""Verify beside a writer that appends, rolls, deletes and compacts: nothing is wrong, and true damage is found."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.inputs import resolve
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.verify import settling
from kdump.verify.gaps import NextSegment
from kdump.verify.judging import judge
from kdump.verify.partition import PartitionCheck
from kdump.verify.readings import Group, plan_readings, read_pieces
from kdump.verify.run import Verification
from kdump.verify.segment import CheckOptions, Rows, SegmentReading
from kdump.verify.startups import KeepsChanging, StartOptions, start_all
from kdump.verify.summary import SegmentSummary
from tests.harness import ROOT
from tests.harness.batches import v2_batch
from tests.harness.fast_reference import Row
from tests.harness.livewriter import LivePartition, checkpoint, fill

SECONDS = 3.0
OPTIONS = {"quick": CheckOptions(deep=False), "deep": CheckOptions()}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """A log directory with a writer at work in another process."""
    command = [sys.executable, "-m", "tests.harness.livewriter", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin
        assert writer.stdout
        assert writer.stdout.readline()
        yield tmp_path
        assert writer.poll() is None
        writer.stdin.close()


def findings(
    path: Path, options: CheckOptions | None = None, opened: Callable[[str], Source] = open_source
) -> list[Finding]:
    """``opened``: opens the logs."""
    verification = Verification(PartitionCheck(options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kdump.verify.partition.open_source", opened)
        return [item for item in verification.items(resolve(str(path))) if isinstance(item, Finding)]


def serious(found: list[Finding]) -> list[str]:
    return [f"{one.path}: {one.code.value.code} {one}" for one in found if one.severity is not Severity.INFO]


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0] ^ 0x42
        file.seek(position)
        file.write(bytes([byte]))


@pytest.mark.parametrize("depth", list(OPTIONS))
@pytest.mark.slow
def test_nothing_is_wrong(live: Path, depth: str) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for path in (live, live / "plain-0", live / "comp-0"):
            assert serious(findings(path, OPTIONS[depth])) == []
        for path in sorted((live / "plain-0").glob("*.log"))[-2:]:
            assert serious(findings(path, OPTIONS[depth])) == []


@pytest.mark.slow
def test_damage_is_found_each_time(live: Path) -> None:
    """Retention may delete the damaged segment meanwhile: then the newest one is damaged instead."""
    for _ in range(20):
        log = sorted((live / "plain-0").glob("*.log"))[-1]
        while log.exists() and log.stat().st_size < 5000:
            time.sleep(0.01)
        if log.exists() and _is_found_each_time(live, log):
            return
    pytest.fail("each segment was deleted before it was verified")


def _is_found_each_time(live: Path, log: Path) -> bool:
    """False where the damaged log is deleted before it was verified each time."""
    flip(log, 2000)
    for path in (live, live / "plain-0", log) * 2:
        try:
            found = findings(path)
        except KdumpError:
            found = []
        if not log.exists():
            return False
        assert [(one.code, one.path) for one in found if one.severity is Severity.ERROR] == [
            (Codes.BATCH_CRC, str(log))
        ]
    return True


# --- At a certain moment ---


@pytest.fixture
def partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[LivePartition]:
    monkeypatch.setattr(settling, "PAUSE_SECONDS", 0.01)
    return fill(tmp_path)


def at_opening(base: int, act: Callable[[], None], *, then: bool = False) -> Callable[[str], Source]:
    """Opens files, and does something once when the log of a segment is to be opened, or (``then``) has been."""
    done = False

    def opened(path: str) -> Source:
        nonlocal done
        is_it = path.endswith(f"{base:020}.log") and not done
        done |= is_it
        if is_it and not then:
            act()
        source = open_source(path)
        if is_it and then:
            act()
        return source

    return opened


def several(partition: LivePartition, count: int) -> Callable[[], None]:
    def act() -> None:
        for _ in range(count):
            partition.append()
        partition.roll()
        for _ in range(3):
            partition.append()

    return act


@pytest.mark.parametrize("then", [False, True])
@pytest.mark.parametrize("which", [0, 3, -1])
@pytest.mark.parametrize("what", ["grows", "rolls", "deletes", "compacts", "deletes all before"])
@pytest.mark.slow
def test_at_the_moment(tmp_path: Path, partitions: list[LivePartition], which: int, what: str, then: bool) -> None:
    plain, compacted = partitions
    partition = compacted if what == "compacts" else plain
    bases = list(partition.bases)

    def act() -> None:
        match what:
            case "grows":
                for _ in range(3):
                    partition.append()
            case "rolls":
                several(partition, 2)()
            case "deletes":
                partition.delete(bases[0])
            case "deletes all before":
                for base in bases[: which % len(bases) or 1]:
                    if base != bases[-1]:
                        partition.delete(base)
            case "compacts":
                first = min(which % len(bases), len(bases) - 4)
                partition.compact(bases[first : first + 3])
        checkpoint(tmp_path, partitions)

    found = findings(tmp_path, opened=at_opening(bases[which], act, then=then))
    assert serious(found) == []


@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_a_cleaned_file_that_comes_after_its_opening_failed(
    partitions: list[LivePartition], monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Seen beside a live writer: the file is missing at the opening, and there, with no .swap, a moment later."""
    compacted = partitions[1]
    path = compacted.path(compacted.bases[2], suffix)
    failed: list[str] = []

    def opened(name: str) -> Source:
        if name == str(path) and not failed:
            failed.append(name)
            raise KdumpError(Codes.MISSING, "no such file or directory", path=name)
        return open_source(name)

    monkeypatch.setattr("kdump.log.opening.open_source", opened)
    assert serious(findings(compacted.directory, opened=opened)) == []
    assert failed == [str(path)]


def test_a_segment_that_goes_at_last(partitions: list[LivePartition]) -> None:
    """Damage in a segment that is deleted meanwhile is nobody's any more."""
    plain = partitions[0]
    base = plain.bases[0]
    flip(plain.path(base, ".log"), 2000)
    found = findings(plain.directory, opened=at_opening(base, lambda: plain.delete(base), then=True))
    assert serious(found) == []


@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_damage_in_a_segment_that_grows(partitions: list[LivePartition], suffix: str) -> None:
    plain = partitions[0]
    base = plain.bases[-1]
    for _ in range(5):
        plain.append()
    flip(plain.path(base, suffix), 2000 if suffix == ".log" else 15)
    for path in (plain.directory, plain.path(base, ".log")):

        def opened(name: str) -> Source:
            source = open_source(name)
            plain.append()
            return source

        found = [one for one in findings(path, opened=opened) if one.severity is not Severity.INFO]
        assert [one.path for one in found] == [str(plain.path(base, suffix))]


def test_damage_in_another_segment(partitions: list[LivePartition]) -> None:
    plain = partitions[0]
    damaged, base = plain.bases[2], plain.bases[-1]
    flip(plain.path(damaged, ".log"), 2000)
    found = findings(plain.directory, opened=at_opening(base, several(plain, 3), then=True))
    errors = [one for one in found if one.severity is not Severity.INFO]
    assert [(one.code, one.path) for one in errors] == [(Codes.BATCH_CRC, str(plain.path(damaged, ".log")))]


def test_a_snapshot_that_is_ahead_of_a_live_log(partitions: list[LivePartition]) -> None:
    plain = partitions[0]
    plain.path(plain.offset + 1000, ".snapshot").write_bytes(plain.path(plain.bases[1], ".snapshot").read_bytes())
    found = findings(plain.directory, opened=at_opening(plain.bases[-1], several(plain, 3), then=True))
    assert [one.code for one in found if one.severity is not Severity.INFO] == [Codes.SNAPSHOT_BEYOND_LOG]


def test_a_segment_that_came_after_the_listing(partitions: list[LivePartition]) -> None:
    """And before the partition was looked at; seen beside a broker on a machine that was busy."""
    plain = partitions[0]
    listed = [str(plain.path(base, ".log")) for base in plain.bases]
    several(plain, 3)()
    found = [one for one in PartitionCheck().segments(listed, str(plain.directory)) if isinstance(one, Finding)]
    assert serious(found) == []


def test_a_first_epoch_of_a_segment_that_a_broker_deletes(partitions: list[LivePartition]) -> None:
    """The broker may have died before it wrote the file of the epochs."""
    plain = partitions[0]
    (plain.directory / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {plain.bases[0]}\n")
    log = plain.path(plain.bases[0], ".log").rename(plain.path(plain.bases[0], ".log.deleted"))
    for suffix in (".index", ".timeindex"):
        plain.path(plain.bases[0], suffix).rename(plain.path(plain.bases[0], f"{suffix}.deleted"))
    assert serious(findings(plain.directory)) == []
    log.unlink()
    assert [one.code for one in findings(plain.directory) if one.severity is Severity.ERROR] == [Codes.ALREADY_LOST]


@pytest.mark.parametrize("is_running", [True, False])
def test_a_first_epoch_that_is_written_after_the_segment_is_gone(
    partitions: list[LivePartition], monkeypatch: pytest.MonkeyPatch, is_running: bool
) -> None:
    """Kafka writes leader-epoch-checkpoint in another thread than the one that renames the segment's files."""
    plain = partitions[0]
    epochs = plain.directory / "leader-epoch-checkpoint"
    epochs.write_text(f"0\n1\n0 {plain.bases[0]}\n")
    plain.delete(plain.bases[0])
    monkeypatch.setattr("kdump.verify.partition.is_held", lambda path: is_running)

    def write_it(seconds: float) -> None:
        epochs.write_text(f"0\n1\n0 {plain.bases[0]}\n")

    monkeypatch.setattr(settling.time, "sleep", write_it)
    codes = [one.code for one in findings(plain.directory) if one.severity is not Severity.INFO]
    assert codes == ([] if is_running else [Codes.ALREADY_LOST])


@pytest.mark.parametrize("wrong", ["leader-epoch-checkpoint", "snapshot"])
def test_all_segments_go_before_the_second_round(
    partitions: list[LivePartition], monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """The topic was deleted: the files that were wrong beside its logs are read again beside none."""
    plain = partitions[0]
    first = plain.bases[0]
    if wrong == "snapshot":
        plain.path(plain.offset + 1000, ".snapshot").write_bytes(plain.path(plain.bases[1], ".snapshot").read_bytes())
    else:
        (plain.directory / wrong).write_text(f"0\n1\n0 {first}\n")
        plain.delete(first)
    monkeypatch.setattr("kdump.verify.partition.is_held", lambda path: wrong != "snapshot")
    is_deleted = False

    def delete_all(seconds: float) -> None:
        nonlocal is_deleted
        is_deleted = True
        for path in plain.directory.glob("*.log"):
            path.unlink()

    monkeypatch.setattr(settling.time, "sleep", delete_all)
    touch = at_opening(plain.bases[-1], (plain.directory / "new").touch, then=True)
    found = [one.code for one in findings(plain.directory, opened=touch) if one.severity is not Severity.INFO]
    assert is_deleted
    assert found


@pytest.mark.parametrize("is_repaired", [True, False])
def test_a_log_that_changes_while_its_end_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_repaired: bool
) -> None:
    """What was read before the damage is not checked again, and not left out."""
    monkeypatch.setattr(settling, "PAUSE_SECONDS", 0)
    batches = [v2_batch([Row(0, 0, None, b"v")], base_offset=number) for number in range(9000)]
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"".join(batches))
    last = log.stat().st_size - 1
    flip(log, last)
    rounds: list[Source] = []

    class Reading(SegmentReading):
        def items(self) -> Iterator[Finding | Rows]:
            yield from super().items()
            if len(rounds) == 1:
                flip(log, last - (not is_repaired))

    def read(source: Source, following: NextSegment) -> Reading:
        rounds.append(source)
        return Reading(source, following)

    items = list(PartitionCheck(read=read).segments([str(log)], None))
    (summary,) = (item for item in items if isinstance(item, SegmentSummary))
    assert (len(rounds), summary.batches, summary.last_offset) == (2, 9000, 8999)
    found = [item.code for item in items if isinstance(item, Finding) and item.path == str(log)]
    assert found == [Codes.BATCH_CRC] * (not is_repaired)
    assert summary.counts[Severity.ERROR] == len(found)


def test_what_never_settles_is_not_decidable(tmp_path: Path) -> None:
    numbers = iter(range(100))

    def check() -> list[Finding]:
        return [Finding(Codes.BATCH_CRC, "wrong", next(numbers), path="x"), Finding(Codes.OFFSET_GAP, "gap", 7)]

    found = settling.settled_findings(check, lambda: True)
    assert [one.severity for one in found] == [Severity.INFO, Severity.WARNING]
    assert "not decidable" in found[0].message
    assert settling.settled_findings(check, lambda: False)[0].severity is Severity.ERROR


def test_logs_that_other_processes_read(partitions: list[LivePartition]) -> None:
    """As on Spark: the partition has changed between the looks and the judgement."""
    plain, compacted = partitions
    for partition in partitions:
        group = Group(tuple(str(partition.path(base, ".log")) for base in partition.bases), str(partition.directory))
        options = CheckOptions()
        pieces = [piece for task in plan_readings([group]) for look in task for piece in read_pieces(look, options)]
        pieces.sort(key=lambda piece: piece[:-1])
        if partition is compacted:
            partition.compact(partition.bases[1:4])
        else:
            partition.delete(partition.bases[0])
        several(partition, 3)()
        items = [item for _, item in judge([group], pieces, options)]
        assert not any(isinstance(item, KdumpError) for item in items)
        assert serious([item for item in items if isinstance(item, Finding)]) == []
    assert plain.bases


@pytest.mark.parametrize("settles", [False, True])
def test_a_start_over_files_that_keep_changing_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settles: bool
) -> None:
    """Each look meets another file that has become shorter; where that ends, it is an error."""
    (directory := tmp_path / "t-0").mkdir()
    log = directory / f"{0:020}.log"
    log.touch()
    looks = iter(range(100))

    def starts(*arguments: object, **options: object) -> object:
        number = next(looks)
        if not settles or not number:
            log.write_bytes(bytes(number + 1))
        raise KdumpError(Codes.UNREADABLE, "has become shorter", path=f"{log}-{0 if settles else number}")

    monkeypatch.setattr("kdump.verify.startups.check_start", starts)
    monkeypatch.setattr(settling, "PAUSE_SECONDS", 0)
    errors: list[KdumpError] = []
    items = list(start_all([resolve(str(directory))], StartOptions(), errors.append))
    if settles:
        assert [error.message for error in errors] == ["has become shorter"]
        assert not items
    else:
        assert items == [KeepsChanging(str(directory), "cannot be told: the files keep changing")]
        assert not errors
