"""Repairs where the disk is full, nothing may be written, a broker runs, or the log changes under the reader."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import resolve
from kdump.log import lock
from kdump.log.lock import DirectoryLock, LockState, lock_state
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.repair import refusals
from kdump.repair.apply import disk, preparation
from kdump.repair.apply.journal import HOME
from kdump.repair.begun import undo_repair
from kdump.repair.plan import planner
from kdump.repair.plan.plan import RepairMode
from kdump.repair.run import Repair, Repaired, RepairOptions
from kdump.repair.salvage.pieces import SalvageOptions, TxnPolicy
from kdump.system import mounts
from tests.harness import batches
from tests.harness.cli_runs import CLEAN, DAMAGE, NAME, UNREADABLE, kdump
from tests.harness.killedrepairs import build, contents, manifests, repair, tree
from tests.harness.killing import limit_files


def run(options: RepairOptions, path: Path) -> list[Repaired]:
    """All partitions of ``path``; the first error is raised."""
    errors: list[KdumpError] = []
    with Repair(options, on_error=errors.append) as job:
        done = list(job.of(resolve(str(path))))
    if errors:
        raise errors[0]
    return done


def in_child(work: Callable[[], None]) -> int:
    """Exit status of a child that does ``work``: 0, or 3 for a KdumpError UNWRITABLE."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = CLEAN
        except KdumpError as error:
            status = UNREADABLE if error.code is Codes.UNWRITABLE else DAMAGE
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# No room


@pytest.mark.parametrize("mode", [RepairMode.LIKE_BROKER, RepairMode.SALVAGE])
@pytest.mark.parametrize("limit", [100, 2000, 8000])
@pytest.mark.slow
def test_files_that_cannot_grow(tmp_path: Path, mode: RepairMode, limit: int) -> None:
    partition = build(tmp_path)
    before = tree(partition)

    def limited() -> None:
        limit_files(limit)
        run(RepairOptions(mode, in_place=True, decides_transactions=True), partition)

    assert in_child(limited) == UNREADABLE
    assert tree(partition) == before
    assert not list(partition.glob(f"{HOME}/*"))

    def limited_copy() -> None:
        limit_files(limit)
        run(RepairOptions(mode, output=str(tmp_path / "out")), partition)

    assert in_child(limited_copy) == UNREADABLE
    assert list((tmp_path / "out").iterdir()) == []
    assert tree(partition) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.parametrize("mode", [RepairMode.LIKE_BROKER, RepairMode.SALVAGE])
@pytest.mark.slow
def test_a_full_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch, mode: RepairMode) -> None:
    partition = build(small_disk)
    before = tree(partition)
    filler = small_disk / "filler"
    room = os.statvfs(small_disk)
    filler.write_bytes(bytes(room.f_bavail * room.f_frsize))
    with pytest.raises(KdumpError, match="bytes are needed, 0 are free"):
        repair(partition, mode)
    assert tree(partition) == before
    # As if the room had gone since it was looked at: the disk is full at every page of the preparation.
    monkeypatch.setattr(refusals, "check_room", lambda directory, needed: None)
    failures = []
    for pages in range(200):
        os.truncate(filler, room.f_bavail * room.f_frsize - pages * 4096)
        try:
            repair(partition, mode)
        except KdumpError as error:
            failures.append(error)
            if contents(tree(partition)) != contents(before):
                break
        else:
            break
    assert {error.code for error in failures} == {Codes.UNWRITABLE}
    assert all("No space left" in str(error) for error in failures)
    assert len(failures) > 5
    filler.unlink()
    repair(partition, mode)
    sound = build(small_disk / "sound")
    repair(sound, mode)
    assert contents(tree(partition)) == contents(tree(sound))


def test_what_is_left_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = build(tmp_path)
    monkeypatch.setattr(preparation, "_ROOM", 1 << 60)
    for options in (RepairOptions(RepairMode.SALVAGE, in_place=True), RepairOptions(output=str(tmp_path / "out"))):
        with pytest.raises(KdumpError, match="bytes are needed") as error:
            run(options, partition)
        assert error.value.code is Codes.UNWRITABLE
    assert not (tmp_path / "out").exists()


def test_a_full_disk_and_a_backup_on_another(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end that is cut off goes there."""
    partition = build(small_disk)
    asked: dict[str, int] = {}
    monkeypatch.setattr(refusals, "check_room", asked.__setitem__)
    backup = str(tmp_path / "kept")
    run(RepairOptions(RepairMode.LIKE_BROKER, in_place=True, backup=backup), partition)
    assert asked[str(partition)] == 0
    assert asked[backup] > 5000


def test_a_disk_that_cannot_be_written(small_disk: Path) -> None:
    partition = build(small_disk)
    before = tree(partition)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for options in (
        RepairOptions(RepairMode.LIKE_BROKER, in_place=True),
        RepairOptions(RepairMode.SALVAGE, in_place=True, decides_transactions=True),
        RepairOptions(output=str(small_disk / "out")),
    ):
        with pytest.raises(KdumpError, match="Read-only file system") as error:
            run(options, partition)
        assert error.value.code is Codes.UNWRITABLE
    assert tree(partition) == before


def test_a_directory_of_somebody_else(tmp_path: Path) -> None:
    partition = build(tmp_path)
    before = tree(partition)
    (partition / HOME).touch()
    with pytest.raises(KdumpError) as error:
        repair(partition, RepairMode.LIKE_BROKER)
    assert error.value.code is Codes.UNWRITABLE
    (partition / HOME).unlink()
    assert tree(partition) == before


# Brokers


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print(flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """A partition in a log directory whose lock another process holds."""
    partition = build(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(partition.parent / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield partition
        holder.communicate()


def test_a_running_broker(running: Path, tmp_path: Path) -> None:
    before = tree(running)
    told = kdump("repair", str(running), cwd=tmp_path)
    assert b"a broker holds the lock; stop it before repairing in place" in told.stdout
    refused = kdump("repair", "--like-broker", "--in-place", str(running), cwd=tmp_path)
    assert refused.returncode == DAMAGE
    assert b".lock: a broker runs on this log directory" in refused.stderr
    assert tree(running) == before
    assert not (running / HOME).exists()
    assert kdump("repair", "-o", "out", str(running), cwd=tmp_path).returncode == CLEAN


def others_see_lock(directory: Path) -> bool:
    """Another process finds the lock held."""
    ask = "import sys; from kdump.log.lock import is_held; sys.exit(is_held(sys.argv[1]))"
    return bool(subprocess.run([sys.executable, "-c", ask, str(directory)], check=False).returncode)


def test_the_lock_is_held_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = build(tmp_path)
    states = []
    remove = disk.remove

    def watched(path: str) -> None:
        states.append(others_see_lock(partition.parent))
        monkeypatch.setattr(disk, "remove", remove)
        remove(path)

    monkeypatch.setattr(disk, "remove", watched)
    repair(partition, RepairMode.LIKE_BROKER)
    assert states == [True]
    assert lock_state(str(partition.parent)) is LockState.FREE


def test_the_lock_is_held_between_partitions(tmp_path: Path) -> None:
    """A broker that starts while the second one is looked at would serve the first; asking must not give it up."""
    partition = build(tmp_path)
    shutil.copytree(partition, partition.with_name("t-1"))
    directory = partition.parent
    with Repair(RepairOptions(RepairMode.LIKE_BROKER, in_place=True), on_error=pytest.fail) as job:
        for _ in job.of(resolve(str(directory))):
            assert not lock.is_held(str(directory))
            assert others_see_lock(directory)
    assert not others_see_lock(directory)


def test_a_lock_file_is_made_for_the_owner(tmp_path: Path) -> None:
    with DirectoryLock(str(tmp_path)):
        status = (tmp_path / ".lock").stat()
        assert (status.st_uid, status.st_mode & 0o777) == (tmp_path.stat().st_uid, 0o644 & ~_umask())
    assert (tmp_path / ".lock").exists()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = build(tmp_path)
    monkeypatch.setattr(lock, "file_system", lambda path: "nfs4")
    (plan,) = run(RepairOptions(), partition)
    assert plan.plan.place.lock is LockState.UNKNOWN
    with pytest.raises(KdumpError, match="--force goes on"):
        repair(partition, RepairMode.LIKE_BROKER)
    run(RepairOptions(RepairMode.LIKE_BROKER, in_place=True, force=True), partition)
    (manifest,) = manifests(partition)
    with pytest.raises(KdumpError, match="--force goes on"):
        undo_repair(str(manifest))
    undo_repair(str(manifest), force=True)


def test_long_names_come_back_from_another_file_system(small_disk: Path, tmp_path: Path) -> None:
    """A name of 250 bytes has no room for the ends that a file gets for a moment; the undo stopped half way."""
    partition = build(tmp_path)
    for path in partition.glob(f"{105:020}.*"):
        path.rename(path.with_name("0" * 220 + path.name))
    before = contents(tree(partition))
    run(RepairOptions(RepairMode.LIKE_BROKER, in_place=True, backup=str(small_disk / "kept")), partition)
    (manifest,) = small_disk.glob("kept/*/manifest.json")
    undo_repair(str(manifest))
    assert contents(tree(partition)) == before


def test_a_home_of_journals_on_another_file_system(small_disk: Path, tmp_path: Path) -> None:
    """No step could move a prepared file to its name."""
    partition = build(tmp_path)
    (partition / HOME).mkdir()
    before = tree(partition)
    subprocess.run(["mount", "--bind", str(small_disk), str(partition / HOME)], check=True)
    try:
        with pytest.raises(KdumpError, match="lies on another file system than the partition"):
            repair(partition, RepairMode.SALVAGE)
        assert list((partition / HOME).iterdir()) == []
    finally:
        subprocess.run(["umount", str(partition / HOME)], check=True)
    assert tree(partition) == before


def test_mounts() -> None:
    lines = [
        "1 0 8:1 / / rw shared:1 - ext4 /dev/sda rw",
        "2 1 0:40 / /data rw shared:2 - nfs4 host:/x rw",
        "3 1 0:41 / /data\\040two rw - fuse.sshfs host: rw",
        "4 2 0:42 / /data/local rw master:1 shared:3 - xfs /dev/sdb rw",
    ]
    found = [mounts.type_at(path, lines) for path in ("/etc", "/data", "/database", "/data two/x", "/data/local/a")]
    assert found == ["ext4", "nfs4", "ext4", "fuse.sshfs", "xfs"]
    assert [mounts.tells_locks(kind) for kind in found] == [True, False, True, False, True]
    assert mounts.tells_locks(mounts.file_system("/proc"))


# Logs that change


@pytest.mark.parametrize("output", ["out", None])
def test_a_log_that_grows(tmp_path: Path, output: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = build(tmp_path)
    last = partition / f"{397:020}.log"

    def opened(path: str) -> Source:
        source = open_source(path)
        if path == str(last):
            with last.open("ab") as log:
                log.write(b"more")
        return source

    monkeypatch.setattr(planner, "open_source", opened)
    options = RepairOptions(RepairMode.SALVAGE, output=str(tmp_path / output) if output else None)
    with pytest.raises(KdumpError, match="was written to while it was read") as error:
        run(options, partition)
    assert error.value.code is Codes.CHANGED_WHILE_READ
    if output:
        assert list((tmp_path / output).iterdir()) == []


# Transactions


def test_transactions_whose_end_is_lost_ask_for_a_decision(tmp_path: Path) -> None:
    def batch(offset: int, **header: int) -> bytes:
        return batches.v2_batch(batches.plain_rows(1), base_offset=offset, producer_epoch=0, **header)

    log = tmp_path / "t-0" / NAME
    log.parent.mkdir()
    opened = batch(0, producer_id=7, base_sequence=0, attributes=batches.TRANSACTIONAL)
    log.write_bytes(opened + batch(1, crc=1, producer_id=7, base_sequence=1) + batch(2))
    state = log.read_bytes()
    with pytest.raises(KdumpError, match="producer 7 from offset 0 on"):
        run(RepairOptions(RepairMode.SALVAGE, in_place=True), log.parent)
    assert log.read_bytes() == state
    salvaging = SalvageOptions(transactions=TxnPolicy.DROP)
    run(RepairOptions(RepairMode.SALVAGE, in_place=True, salvaging=salvaging, decides_transactions=True), log.parent)
    assert opened not in log.read_bytes()


# What another owner gave


@pytest.mark.parametrize(
    ("mode", "is_own_group", "expected"),
    [(0o640, True, 0o640), (0o640, False, 0o600), (0o664, False, 0o644), (0o6755, True, 0o755), (0o600, False, 0o600)],
)
def test_a_copy_gives_no_more_rights_than_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_own_group: bool, expected: int
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refuse)
    gid = tmp_path.stat().st_gid + (not is_own_group)
    like = os.stat_result((mode, 0, 0, 0, os.geteuid() + 1, gid, 0, 0, 0, 0))
    disk.write_file(str(tmp_path / "copy"), b"", like)
    assert (tmp_path / "copy").stat().st_mode & 0o7777 == expected


@pytest.mark.parametrize(("mode", "of_file"), [(0o640, 0o640), (0o6755, 0o755), (0o2770, 0o770)])
def test_no_file_runs_with_the_rights_of_its_owner(tmp_path: Path, mode: int, of_file: int) -> None:
    """While a log is opened, a link in its place may give the owner and mode of a program. Directories keep theirs."""
    own = tmp_path.stat()
    like = os.stat_result((mode, 0, 0, 0, own.st_uid, own.st_gid, 0, 0, 0, 0))
    disk.write_file(str(tmp_path / "copy"), b"", like, keep_owner=True)
    disk.make_directory(str(tmp_path / "directory"), like)
    assert (tmp_path / "copy").stat().st_mode & 0o7777 == of_file
    assert (tmp_path / "directory").stat().st_mode & 0o7777 == mode


def test_a_directory_whose_mode_cannot_be_set_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int, mode: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fchmod", fails)
    with pytest.raises(KdumpError) as raised:
        disk.make_directory_for_copies(str(tmp_path / "new"), tmp_path.stat())
    assert raised.value.code is Codes.UNWRITABLE
    assert not (tmp_path / "new").exists()
