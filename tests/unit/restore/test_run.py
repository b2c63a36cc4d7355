"""Restored directories: what is in them, what is refused, and that a kill leaves what it was or what is finished."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.convert.conversion import Conversion
from kdump.format.batch import parse_header
from kdump.format.checkpoint import parse_leader_epoch_checkpoint, parse_offset_checkpoint, parse_topic_id
from kdump.format.snapshot import parse_snapshot
from kdump.inputs import resolve
from kdump.kafka07.message import write_message
from kdump.log.lock import DirectoryLock
from kdump.reading.selection import Range
from kdump.repair.begun import undo_repair
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.restore.plan import NoteKind, Placing, RestoreOptions, plan_restore
from kdump.restore.report import restored_lines
from kdump.restore.run import Restore, RestoredBy, RestoredPartition
from kdump.restore.source import read_source
from kdump.restore.target import TargetPartition
from kdump.verify.startcheck import StartCheck
from kdump.verify.startups import StartOptions, task_of
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import DAMAGE, kdump
from tests.harness.killedrepairs import MARKER, contents, tree
from tests.harness.killing import in_child, killed_at

TRANSACTIONAL = FIXTURES / "segments" / "v2-txn-0"
ID = "kdumpkdumpkdumpkdumpkg"
OTHER_ID = "kdumpkdumpkdumpkdumpkQ"
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")
END = 448
"""Of the transactional log."""


def log_directory(root: Path, *, topic_id: str | None = ID, records: int = 0) -> Path:
    """A log directory after a clean shutdown; topic t is new and empty, or has some records."""
    logs = root / "logs"
    partition = logs / "t-0"
    partition.mkdir(parents=True)
    (logs / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    (logs / MARKER).write_text('{"version":0,"brokerEpoch":1}')
    (logs / ".lock").touch()
    for name in CHECKPOINTS[:2]:
        (logs / name).write_text(f"0\n2\nother 0 9\nt 0 {records}\n")
    (logs / CHECKPOINTS[2]).write_text("0\n0\n")
    if topic_id is not None:
        (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        (partition / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n" if records else "0\n0\n")
        (partition / f"{0:020}.log").write_bytes(v2_batch(plain_rows(records)) if records else b"")
        for suffix in (".index", ".timeindex"):
            (partition / f"{0:020}{suffix}").write_bytes(b"")
    return logs


def plain_source(root: Path, *, epochs: tuple[int, ...] = (0, 3, 5)) -> Path:
    """A partition with a segment for each leader epoch, of three records each, from offset 10 on."""
    partition = root / "old-0"
    partition.mkdir(parents=True)
    for number, epoch in enumerate(epochs):
        base = 10 + 3 * number
        log = v2_batch(plain_rows(3), base_offset=base, partition_leader_epoch=epoch)
        (partition / f"{base:020}.log").write_bytes(log)
    return partition


def restore(
    source: Path, logs: Path, options: RestoreOptions | None = None, *, epoch: int = 0, topic_id: str = ID
) -> RestoredPartition:
    options = options or RestoreOptions()
    plan = plan_restore(read_source(resolve(str(source))), TargetPartition("t", 0, topic_id, epoch), options)
    with Restore(str(logs), options) as job:
        job.check(plan)
        return job.restore(plan)


def started(partition: Path) -> StartCheck:
    check = task_of(str(partition), StartOptions()).run()
    assert isinstance(check, StartCheck)
    return check


def line(logs: Path, checkpoint: str) -> int | None:
    found = {entry[:2]: entry.offset for entry in parse_offset_checkpoint((logs / checkpoint).read_bytes())}
    return found.get(("t", 0))


def epochs_in(partition: Path) -> list[int]:
    found = []
    for log in sorted(partition.glob("*.log")):
        data = log.read_bytes()
        position = 0
        while position < len(data):
            header = parse_header(data, position)
            found.append(header.partition_leader_epoch)
            position += 12 + header.batch_length
    return found


def test_a_transactional_log(tmp_path: Path) -> None:
    logs = log_directory(tmp_path)
    restored = restore(TRANSACTIONAL, logs)
    partition = logs / "t-0"
    for path in TRANSACTIONAL.glob("*.log"):
        assert (partition / path.name).read_bytes() == path.read_bytes()
    for path in TRANSACTIONAL.glob("*.txnindex"):
        assert (partition / path.name).read_bytes() == path.read_bytes(), path.name
    assert parse_topic_id((partition / "partition.metadata").read_bytes()) == ID
    assert [line(logs, name) for name in CHECKPOINTS] == [END, END, None]
    assert (logs / "recovery-point-offset-checkpoint").read_text() == f"0\n2\nother 0 9\nt 0 {END}\n"
    assert (logs / MARKER).is_file()
    check = started(partition)
    assert check.is_harmless
    assert check.start.served is not None
    assert check.start.served.end_offset == END
    assert restored.start is not None
    assert restored.start.start == check.start
    expected = parse_snapshot((TRANSACTIONAL / f"{END:020}.snapshot").read_bytes())
    assert parse_snapshot((partition / f"{END:020}.snapshot").read_bytes()) == expected


@pytest.mark.parametrize(
    ("highest", "epochs", "entries"),
    [
        (0, [0, 0, 0], [(0, 10)]),
        (3, [0, 3, 3], [(0, 10), (3, 13)]),
        (9, [0, 3, 5], [(0, 10), (3, 13), (5, 16)]),
    ],
)
def test_leader_epochs(tmp_path: Path, highest: int, epochs: list[int], entries: list[tuple[int, int]]) -> None:
    logs = log_directory(tmp_path)
    source = plain_source(tmp_path)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    restore(source, logs, RestoreOptions(placing=Placing.HARD_LINK), epoch=highest)
    partition = logs / "t-0"
    assert epochs_in(partition) == epochs
    found = parse_leader_epoch_checkpoint((partition / "leader-epoch-checkpoint").read_bytes())
    assert [tuple(entry) for entry in found] == entries
    assert started(partition).is_harmless
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    assert line(logs, CHECKPOINTS[2]) == 10


def test_links(tmp_path: Path) -> None:
    """Logs that change get no second name, and the last one does not: a broker writes to it."""
    logs, source = log_directory(tmp_path), plain_source(tmp_path, epochs=(0, 5, 1, 0))
    restored = restore(source, logs, RestoreOptions(placing=Placing.HARD_LINK), epoch=1)
    shared = [
        os.path.samefile(path, logs / "t-0" / path.name) for path in sorted(source.iterdir()) if path.suffix == ".log"
    ]
    assert shared == [True, False, True, False]
    assert restored.new is not None
    assert restored.new.linked == 2
    modified = [path.stat().st_mtime_ns for path in sorted(source.glob("*.log"))]
    assert [path.stat().st_mtime_ns for path in sorted((logs / "t-0").glob("*.log"))] == modified


def test_reflinks_or_copies(tmp_path: Path) -> None:
    logs, source = log_directory(tmp_path), plain_source(tmp_path, epochs=(0, 0))
    restore(source, logs, RestoreOptions(placing=Placing.REFLINK))
    for path in source.glob("*.log"):
        assert (logs / "t-0" / path.name).read_bytes() == path.read_bytes()
        assert not os.path.samefile(path, logs / "t-0" / path.name)


def test_damage_is_left_out_and_told(tmp_path: Path) -> None:
    logs, source = log_directory(tmp_path), plain_source(tmp_path, epochs=(0, 0, 0))
    log = source / f"{13:020}.log"
    data = bytearray(log.read_bytes() + v2_batch(plain_rows(2), base_offset=16))
    data[70] ^= 1
    log.write_bytes(data)
    (source / f"{16:020}.log").rename(source / f"{18:020}.log")
    (source / f"{18:020}.log").write_bytes(v2_batch(plain_rows(1), base_offset=20))
    plan = plan_restore(read_source(resolve(str(source))), TargetPartition("t", 0, ID), RestoreOptions())
    losses = [(note.kind, note.first_offset, note.last_offset) for note in plan.notes if note.is_loss]
    assert losses == [(NoteKind.DAMAGE, 13, 15), (NoteKind.MISSING_OFFSETS, 18, 19)]
    restore(source, logs)
    assert (logs / "t-0" / log.name).read_bytes() == bytes(data[-len(v2_batch(plain_rows(2), base_offset=16)) :])
    assert started(logs / "t-0").is_harmless


OLD, LATER = 10**9, 1 << 45
"""Timestamps in ms: of 1970, and of the year 3084."""


@pytest.mark.parametrize(("timestamp", "is_told"), [(OLD, True), (LATER, False)])
def test_what_retention_deletes_at_once(tmp_path: Path, timestamp: int, is_told: bool) -> None:
    """By the timestamps of batches where no time index is there."""
    source = tmp_path / "old-0"
    source.mkdir()
    (source / f"{0:020}.log").write_bytes(v2_batch(plain_rows(3), base_timestamp=timestamp))
    plan = plan_restore(read_source(resolve(str(source))), TargetPartition("t", 0, ID), RestoreOptions())
    assert (NoteKind.RETENTION in {note.kind for note in plan.notes}) is is_told


@pytest.mark.parametrize("policy", [TxnPolicy.ABORT, TxnPolicy.COMMIT])
def test_open_transactions_end(tmp_path: Path, policy: TxnPolicy) -> None:
    logs = log_directory(tmp_path)
    restored = restore(TRANSACTIONAL, logs, RestoreOptions(transactions=policy))
    assert restored.new is not None
    assert restored.new.ended == 1
    check = started(logs / "t-0")
    assert check.is_harmless
    assert check.start.served is not None
    assert check.start.served.end_offset == END + 1
    assert check.start.served.first_unstable_offset is None
    index = (logs / "t-0" / f"{397:020}.txnindex").read_bytes()
    more = len(index) - (TRANSACTIONAL / f"{397:020}.txnindex").stat().st_size
    assert more == (34 if policy is TxnPolicy.ABORT else 0)


def test_forgotten_producers(tmp_path: Path) -> None:
    """Those with open transactions stay; also after a crash right after the start."""
    logs = log_directory(tmp_path)
    restore(TRANSACTIONAL, logs, RestoreOptions(forgets_producers=True))
    partition = logs / "t-0"
    (logs / MARKER).unlink()
    check = started(partition)
    assert check.is_harmless
    served = check.start.served
    assert served is not None
    assert [found.first_offset for found in served.open_transactions] == [442]
    (name,) = [path.name for path in partition.glob("*.snapshot")]
    assert [entry.current_txn_first_offset for entry in parse_snapshot((partition / name).read_bytes())] == [442]
    assert (partition / f"{END:020}.log").stat().st_size == 0


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("has_records", [True, False])
def test_an_empty_last_segment(tmp_path: Path, *, forgets: bool, has_records: bool) -> None:
    """A broker rolled after its last batch, and maybe deleted all before; so are restored logs without producers."""
    source = plain_source(tmp_path)
    (source / f"{19:020}.log").touch()
    if not has_records:
        for base in (10, 13, 16):
            (source / f"{base:020}.log").unlink()
    logs = log_directory(tmp_path)
    restore(source, logs, RestoreOptions(forgets_producers=forgets))
    restore(source, logs, RestoreOptions(forgets_producers=forgets, overwrites=True))
    partition = logs / "t-0"
    check = started(partition)
    assert (check.is_harmless, check.start.served is not None) == (True, True)
    assert (partition / f"{19:020}.log").stat().st_size == 0
    assert (partition / f"{19:020}.snapshot").exists() is has_records
    assert line(logs, CHECKPOINTS[0]) == 19


def test_old_formats_become_new_ones(tmp_path: Path) -> None:
    logs = log_directory(tmp_path)
    options = RestoreOptions(Conversion(to_magic=2), is_converted=True)
    restored = restore(FIXTURES / "segments" / "v1-gzip-0", logs, options)
    assert started(logs / "t-0").is_harmless
    assert restored.new is not None
    assert set(epochs_in(logs / "t-0")) == {0}


def test_records_are_not_replaced_unasked(tmp_path: Path) -> None:
    logs, source = log_directory(tmp_path, records=2), plain_source(tmp_path)
    before = contents(tree(logs / "t-0"))
    with pytest.raises(KdumpError) as refused:
        restore(source, logs)
    assert refused.value.code is Codes.OUTPUT_EXISTS
    assert contents(tree(logs / "t-0")) == before
    restored = restore(source, logs, RestoreOptions(overwrites=True))
    assert started(logs / "t-0").is_harmless
    undo_repair(restored.manifest)
    assert contents(tree(logs / "t-0")) == before


def test_other_topic_id(tmp_path: Path) -> None:
    logs, source = log_directory(tmp_path, topic_id=OTHER_ID), plain_source(tmp_path)
    with pytest.raises(KdumpError) as refused:
        restore(source, logs)
    assert refused.value.code is Codes.REPAIR_REFUSED
    restore(source, logs, topic_id=OTHER_ID)


def test_running_broker(tmp_path: Path) -> None:
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    before = contents(tree(logs / "t-0"))

    def refused_in_child() -> None:
        with pytest.raises(KdumpError) as refused:
            restore(source, logs)
        assert refused.value.code is Codes.LOCK_HELD

    with DirectoryLock(str(logs)):
        assert in_child(refused_in_child) == 0
    assert contents(tree(logs / "t-0")) == before


def test_a_log_that_ends_before_the_old_one(tmp_path: Path) -> None:
    """The log start of the old log is above the end of the new one: a start would empty it."""
    logs, source = log_directory(tmp_path, records=2), plain_source(tmp_path)
    (logs / CHECKPOINTS[2]).write_text("0\n2\nother 0 4\nt 0 900\n")
    restored = restore(source, logs, RestoreOptions(overwrites=True))
    assert line(logs, CHECKPOINTS[2]) == 10
    assert started(logs / "t-0").is_harmless
    undo_repair(restored.manifest)
    assert (logs / CHECKPOINTS[2]).read_text() == "0\n2\nother 0 4\nt 0 900\n"


Made = Callable[[Path], Path]


def empty(root: Path) -> Path:
    return log_directory(root)


def missing(root: Path) -> Path:
    return log_directory(root, topic_id=None)


def full(root: Path) -> Path:
    return log_directory(root, records=2)


@pytest.mark.slow
@pytest.mark.parametrize("made", [empty, missing, full])
@pytest.mark.parametrize("way_on", ["again", "undo"])
def test_killed_anywhere(tmp_path: Path, made: Made, way_on: str) -> None:
    """Run again it is finished, undone it is as it was; nothing else of the log directory changes at any moment."""
    source = plain_source(tmp_path, epochs=(0, 2))
    options = RestoreOptions(overwrites=True)
    sound = made(tmp_path / "sound")
    before = contents(tree(sound / "t-0"))
    restore(source, sound, options)
    after = contents(tree(sound / "t-0"))
    killed = 0
    for number in range(1, 1000, 7):
        logs = made(tmp_path / f"{number}-{way_on}")
        if not killed_at(number, partial(restore, source, logs, options)):
            break
        killed += 1
        found = contents(tree(logs / "t-0"))
        others = {name for name in found if not name.startswith("t-0/") and not name.endswith(".kdump-part")}
        assert others == {name for name in before if not name.startswith("t-0/")}
        assert found[MARKER] == before[MARKER]
        assert b"other 0 9\n" in found[CHECKPOINTS[0]]
        manifests = sorted((logs / "t-0").glob(".kdump/*/manifest.json"))
        if way_on == "undo" and manifests:
            undo_repair(str(manifests[0]))
        if way_on == "undo" or not manifests:
            assert contents(tree(logs / "t-0")) == before
        restore(source, logs, options)
        assert contents(tree(logs / "t-0")) == after
    assert killed > 10


def test_a_source_that_recovery_would_cut(tmp_path: Path) -> None:
    """Nothing is written where the model of a broker would not keep all of it."""
    logs, source = log_directory(tmp_path), tmp_path / "txn-0"
    shutil.copytree(TRANSACTIONAL, source)
    last = max(source.glob("*.log"))
    data = last.read_bytes()
    broken = bytearray(v2_batch(plain_rows(1), base_offset=END, attributes=0x30, producer_id=3, producer_epoch=0))
    last.write_bytes(data + broken)
    before = contents(tree(logs / "t-0"))
    with pytest.raises(KdumpError) as refused:
        restore(source, logs)
    assert refused.value.code is Codes.REPAIR_REFUSED
    assert contents(tree(logs / "t-0")) == before


def test_lines_of_the_cleaner(tmp_path: Path) -> None:
    """That of the source where it holds; one that the empty log had is never above the end."""
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    checkpoint = logs / "cleaner-offset-checkpoint"
    checkpoint.write_text("0\n2\nt 0 900\nother 0 3\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nold 0 13\n")
    restore(source, logs)
    assert checkpoint.read_text() == "0\n2\nt 0 13\nother 0 3\n"
    checkpoint.write_text("0\n2\nt 0 900\nother 0 3\n")
    restore(source, logs, RestoreOptions(Conversion(renumber=0), is_converted=True, overwrites=True))
    assert checkpoint.read_text() == "0\n2\nt 0 0\nother 0 3\n"


def test_missing_checkpoints_are_made(tmp_path: Path) -> None:
    """Without the line of the log start deleted records would come back."""
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    for name in CHECKPOINTS:
        (logs / name).unlink()
    restored = restore(source, logs)
    assert [line(logs, name) for name in CHECKPOINTS] == [19, 19, 10]
    undo_repair(restored.manifest)
    assert [line(logs, name) for name in CHECKPOINTS] == [None, None, None]


def test_what_is_larger_than_a_producer_may_write(tmp_path: Path) -> None:
    source = plain_source(tmp_path)
    size = (source / f"{13:020}.log").stat().st_size
    (source / f"{13:020}.log").write_bytes(v2_batch(plain_rows(3, size=40), base_offset=13))
    plan = plan_restore(
        read_source(resolve(str(source))),
        TargetPartition("t", 0, ID, max_message_bytes=size),
        RestoreOptions(),
    )
    found = [(note.first_offset, note.is_loss) for note in plan.notes if note.kind is NoteKind.LARGE_BATCH]
    assert found == [(15, False)]


def test_another_repair_was_begun(tmp_path: Path) -> None:
    """It is left to those who began it."""
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    restored = restore(source, logs)
    manifest = Path(restored.manifest)
    manifest.write_bytes(
        manifest.read_bytes().replace(b'"state": "done"', b'"state": "begun"').replace(b'"restore"', b'"salvage"')
    )
    with pytest.raises(KdumpError) as refused:
        restore(source, logs)
    assert refused.value.code is Codes.REPAIR_REFUSED
    assert "--finish" in refused.value.message


def test_a_link_before_the_directory_above(tmp_path: Path) -> None:
    logs = log_directory(tmp_path / "a")
    (tmp_path / "a" / "b").mkdir()
    (tmp_path / "link").symlink_to("a/b")
    restored = restore(plain_source(tmp_path), tmp_path / "link" / ".." / "logs")
    assert restored.directory == str(logs / "t-0")
    assert not (tmp_path / "logs").exists()


def test_run_again(tmp_path: Path) -> None:
    """What is done stays as it is, whatever is asked besides; what was asked for otherwise, or has changed, is not."""
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    first = restore(source, logs)
    assert first.new is not None
    made = (first.new.logs, first.new.log_start, first.new.log_end, first.new.size)
    before = contents(tree(logs / "t-0"))
    for options in (RestoreOptions(), RestoreOptions(overwrites=True), RestoreOptions(placing=Placing.HARD_LINK)):
        again = restore(source, logs, options)
        assert (again.by, again.manifest) == (RestoredBy.EARLIER, first.manifest)
        assert again.new is not None
        assert (again.new.logs, again.new.log_start, again.new.log_end, again.new.size) == made
    assert contents(tree(logs / "t-0")) == before
    for options in (RestoreOptions(forgets_producers=True), RestoreOptions(transactions=TxnPolicy.ABORT)):
        with pytest.raises(KdumpError) as refused:
            restore(source, logs, options)
        assert refused.value.code is Codes.OUTPUT_EXISTS
    log = source / f"{10:020}.log"
    os.utime(log, ns=(0, 0))
    with pytest.raises(KdumpError):
        restore(source, logs)


def test_a_log_of_the_source_is_gone_meanwhile(tmp_path: Path) -> None:
    """A broker may run on the source."""
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    plan = plan_restore(read_source(resolve(str(source))), TargetPartition("t", 0, ID), RestoreOptions())
    (source / f"{13:020}.log").unlink()
    before = contents(tree(logs / "t-0"))
    with Restore(str(logs), RestoreOptions(placing=Placing.HARD_LINK)) as job:
        for step in (job.check, job.restore):
            with pytest.raises(KdumpError) as refused:
                step(plan)
            assert refused.value.path == str(source / f"{13:020}.log")
    assert contents(tree(logs / "t-0")) == before


def test_run_again_after_the_broker_wrote(tmp_path: Path) -> None:
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    restore(source, logs)
    with (logs / "t-0" / f"{16:020}.log").open("ab") as log:
        log.write(v2_batch(plain_rows(1), base_offset=19))
    with pytest.raises(KdumpError) as refused:
        restore(source, logs)
    assert refused.value.code is Codes.OUTPUT_EXISTS


def test_run_again_with_a_backup_elsewhere(tmp_path: Path) -> None:
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    options = RestoreOptions(backup=str(tmp_path / "backup"))
    first = restore(source, logs, options)
    assert restore(source, logs, options).by is RestoredBy.EARLIER
    undo_repair(first.manifest)
    assert restore(source, logs, options).by is RestoredBy.THIS


@pytest.mark.parametrize("backup", [None, "backup"])
def test_an_undo_removes_a_directory_that_was_made(tmp_path: Path, backup: str | None) -> None:
    """Also one that an interrupted run had made; not one in which something else has come."""
    options = RestoreOptions(backup=backup and str(tmp_path / backup))
    logs, source = log_directory(tmp_path, topic_id=None), plain_source(tmp_path)
    (logs / "t-0").rmdir()
    undo_repair(restore(source, logs, options).manifest)
    assert not (logs / "t-0").exists()
    (logs / "t-0" / ".kdump" / "20260101T000000.000000Z" / "new").mkdir(parents=True)
    undo_repair(restore(source, logs, options).manifest)
    assert not (logs / "t-0").exists()
    restored = restore(source, logs, options)
    (logs / "t-0" / "other").touch()
    undo_repair(restored.manifest)
    assert (logs / "t-0" / "other").exists()


@pytest.mark.parametrize("is_later_undone", [True, False])
def test_the_first_of_two_undone_repairs_removes_the_directory(tmp_path: Path, is_later_undone: bool) -> None:
    """A manifest that tells of more than what is undone stays, and the directory with it."""
    logs, source = log_directory(tmp_path, topic_id=None), plain_source(tmp_path)
    (logs / "t-0").rmdir()
    first = restore(source, logs)
    later = restore(source, logs, RestoreOptions(Conversion(renumber=0), is_converted=True, overwrites=True))
    undo_repair(later.manifest)
    if not is_later_undone:
        manifest = Path(later.manifest)
        manifest.write_text(manifest.read_text().replace('"undone"', '"done"'))
    undo_repair(first.manifest)
    assert (logs / "t-0").exists() is not is_later_undone


def in_place_of_the_directory(logs: Path) -> Path:
    shutil.rmtree(logs / "t-0")
    (logs / "t-0").touch()
    return logs / "t-0"


def pipe_as_a_checkpoint(logs: Path) -> Path:
    (logs / CHECKPOINTS[1]).unlink()
    os.mkfifo(logs / CHECKPOINTS[1])
    return logs / CHECKPOINTS[1]


def directory_as_a_checkpoint(logs: Path) -> Path:
    (logs / "cleaner-offset-checkpoint").mkdir()
    return logs / "cleaner-offset-checkpoint"


def link_as_a_checkpoint(logs: Path) -> Path:
    (logs / CHECKPOINTS[0]).rename(logs / "elsewhere")
    (logs / CHECKPOINTS[0]).symlink_to("elsewhere")
    return logs / CHECKPOINTS[0]


def malformed_checkpoint(logs: Path) -> Path:
    (logs / CHECKPOINTS[0]).write_text("0\n3\nt 0 1\n")
    return logs / CHECKPOINTS[0]


def pipe_as_a_log(logs: Path) -> Path:
    os.mkfifo(logs / "t-0" / f"{7:020}.log")
    return logs / "t-0" / f"{7:020}.log"


def pipe_as_the_home_of_journals(logs: Path) -> Path:
    os.mkfifo(logs / "t-0" / ".kdump")
    return logs / "t-0" / ".kdump"


def directory_as_a_log(logs: Path) -> Path:
    (logs / "t-0" / f"{10:020}.log").mkdir()
    return logs / "t-0" / f"{10:020}.log"


@pytest.mark.parametrize(
    "spoiled",
    [
        in_place_of_the_directory,
        pipe_as_a_checkpoint,
        directory_as_a_checkpoint,
        link_as_a_checkpoint,
        malformed_checkpoint,
        pipe_as_a_log,
        pipe_as_the_home_of_journals,
        directory_as_a_log,
    ],
)
def test_what_cannot_be_replaced(tmp_path: Path, spoiled: Made) -> None:
    """It is found before anything is written, and named."""
    logs, source = log_directory(tmp_path), plain_source(tmp_path)
    path = spoiled(logs)
    before = sorted(map(str, logs.rglob("*")))
    with pytest.raises(KdumpError) as refused:
        restore(source, logs)
    assert refused.value.code is Codes.REPAIR_REFUSED
    assert refused.value.path == str(path)
    assert sorted(map(str, logs.rglob("*"))) == before


@pytest.mark.parametrize("place", ["logs", "logs/backup", "logs/other-0"])
@pytest.mark.parametrize("is_log_directory", [True, False])
def test_a_backup_among_the_partitions(tmp_path: Path, place: str, *, is_log_directory: bool) -> None:
    """A broker would load it, or not start because of it; also where the directory is none of a broker yet."""
    logs = log_directory(tmp_path) if is_log_directory else tmp_path / "logs"
    with pytest.raises(KdumpError) as refused:
        restore(plain_source(tmp_path), logs, RestoreOptions(backup=str(tmp_path / place)))
    assert refused.value.code is Codes.REPAIR_REFUSED


def test_links_that_cannot_be_made_are_told(tmp_path: Path) -> None:
    """Of another mode than the files of the target: a broker of another user could not open them."""
    logs, source = log_directory(tmp_path), plain_source(tmp_path, epochs=(0, 0, 0))
    (source / f"{10:020}.log").chmod(0o400)
    restored = restore(source, logs, RestoreOptions(placing=Placing.HARD_LINK))
    assert restored.new is not None
    assert (restored.new.linked, sum(restored.new.unlinked.values())) == (1, 1)
    assert "1 log is a copy: a second name would have" in "".join(restored_lines(restored))


@pytest.mark.parametrize(
    ("offsets", "told"),
    [(Range(), [442]), (Range(None, 440), None), (Range(445), [445]), (Range(448), [])],
)
def test_open_transactions_of_a_part(tmp_path: Path, offsets: Range, told: list[int] | None) -> None:
    """Those that are open at the end of the part, which markers end; not those after it."""
    logs = log_directory(tmp_path)
    conversion = Conversion(offsets=offsets, keep_open=True)
    options = RestoreOptions(conversion, is_converted=True, transactions=TxnPolicy.ABORT)
    plan = plan_restore(read_source(resolve(str(TRANSACTIONAL))), TargetPartition("t", 0, ID), options)
    found = [note.first_offset for note in plan.notes if note.kind is NoteKind.OPEN_TRANSACTION]
    assert all(note in offsets for note in found if note is not None)
    restored = restore(TRANSACTIONAL, logs, options)
    assert restored.new is not None
    assert restored.new.ended == len(found)
    assert told in (None, found)


@pytest.mark.parametrize("topic", ["__transaction_state", "__remote_log_metadata", "__share_group_state"])
def test_the_state_of_other_brokers(tmp_path: Path, topic: str) -> None:
    """It is told, unless the target has the topic with the id of the source."""
    source = plain_source(tmp_path)
    for topic_id, is_told in ((None, True), (OTHER_ID, True), (ID, False)):
        if topic_id is not None:
            (source / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        plan = plan_restore(read_source(resolve(str(source))), TargetPartition(topic, 0, ID), RestoreOptions())
        found = [note.is_loss for note in plan.notes if note.kind is NoteKind.BROKER_STATE]
        assert found == [False] * is_told
    for other in ("t", "__consumer_offsets"):
        plan = plan_restore(read_source(resolve(str(source))), TargetPartition(other, 0, OTHER_ID), RestoreOptions())
        assert NoteKind.BROKER_STATE not in {note.kind for note in plan.notes}


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_partition_of_kafka_0_7(tmp_path: Path, *, is_alone: bool) -> None:
    """Beside logs of today those of 0.7 were left out silently."""
    partition = plain_source(tmp_path)
    if is_alone:
        shutil.rmtree(partition)
        partition.mkdir()
    (partition / f"{0:020}.kafka").write_bytes(write_message(b"value"))
    with pytest.raises(KdumpError, match=r"logs of Kafka 0\.7: convert") as error:
        read_source(resolve(str(partition)))
    assert error.value.code is Codes.NO_SEGMENTS
    assert error.value.path == str(partition)


@pytest.mark.parametrize("codec", [(), ("--codec", "zstd")])
@pytest.mark.parametrize("name", ["10.log", f"{10:020}.a.log"])
def test_two_logs_of_one_base_offset(tmp_path: Path, name: str, codec: tuple[str, ...]) -> None:
    """They would have one name. A hidden file that existed was named."""
    source = plain_source(tmp_path)
    shutil.copy(source / f"{10:020}.log", source / name)
    words = ["restore", "--topic", "t", "--topic-id", ID, "-o", str(tmp_path / "new"), str(source)]
    run = kdump(*words, *codec, cwd=tmp_path)
    assert run.returncode == DAMAGE
    assert "two logs of it begin at offset 10: move one of them away, or --renumber them" in run.stderr.decode()
    assert not (tmp_path / "new").exists()
