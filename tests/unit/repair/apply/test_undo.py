"""Undoing a repair after a broker ran: what it wrote is kept, what is not as before is told, its own marker stays."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import resolve
from kdump.repair.apply import disk, journal
from kdump.repair.apply.disk import DirectoryEntry
from kdump.repair.apply.folders import Folders
from kdump.repair.apply.journal import set_line
from kdump.repair.apply.manifest import Action, RepairStep
from kdump.repair.apply.manifestjson import parse_manifest
from kdump.repair.begun import undo_repair
from kdump.repair.plan import starts
from kdump.repair.plan.plan import RepairMode
from kdump.repair.run import Repair, RepairOptions
from tests.harness.acls import GROUP_OF_FILE, MASK, NAMED, OTHERS, USER_OF_FILE, set_acl
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump
from tests.harness.killedrepairs import MARKER, build, contents, manifests, repair, tree
from tests.harness.killing import in_child, killed_at


def undo(partition: Path, *words: str) -> tuple[int, str, str]:
    (manifest,) = manifests(partition)
    run = kdump("repair", "--undo", str(manifest), *words, cwd=partition)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def kept(partition: Path) -> dict[str, bytes]:
    """What the backup holds of files that were written to."""
    return {path.name: path.read_bytes() for path in partition.glob(".kdump/*/changed-*/*")}


@pytest.fixture(params=[RepairMode.LIKE_BROKER, RepairMode.SALVAGE], ids=["like-broker", "salvage"])
def repaired(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, dict[str, bytes]]:
    """A repaired partition, and the log directory before."""
    partition = build(tmp_path)
    before = contents(tree(partition))
    repair(partition, request.param)
    return partition, before


def test_files_that_a_broker_wrote_are_named(repaired: tuple[Path, dict[str, bytes]]) -> None:
    """No log is among them: nothing that follows from the logs is missed, and it is kept all the same."""
    partition, before = repaired
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    (partition / f"{17:020}.snapshot").write_bytes(b"new")
    (partition / "notes.txt").write_bytes(b"mine")
    (partition / f"{0:020}.timeindex").unlink()
    status, text, errors = undo(partition)
    assert (status, errors) == (CLEAN, "")
    lines = text.splitlines()
    assert lines[0] == f"{partition}: the files of the repair are as they were before it; other files are not"
    assert f"{partition}/partition.metadata: was written to since the repair" in lines
    assert f"{partition}/{0:020}.timeindex: is gone" in lines
    assert f"{partition}/notes.txt: was not there before the repair" in lines
    kept_names = {line.partition(": ")[0].rpartition("/")[2] for line in lines if "what it held is in" in line}
    assert kept_names == set(kept(partition)) >= {f"{17:020}.snapshot"}
    assert kept(partition)[f"{17:020}.snapshot"] == b"new"
    after = contents(tree(partition))
    touched = {"partition.metadata", "notes.txt", f"{0:020}.timeindex", "leader-epoch-checkpoint"}
    names = {name for name in before.keys() | after.keys() if Path(name).name not in touched}
    assert {name: after.get(name) for name in names} == {name: before.get(name) for name in names}


def test_nothing_is_named_where_a_broker_only_looked(repaired: tuple[Path, dict[str, bytes]]) -> None:
    """It grows the index files of the last segment, trims them, and gives them another time."""
    partition, before = repaired
    for path in partition.glob("*.*index"):
        os.utime(path)
    assert undo(partition) == (CLEAN, f"{partition}: is as it was before the repair\n", "")
    assert contents(tree(partition)) == before


def append(log: Path, base_offset: int) -> bytes:
    with log.open("ab") as file:
        file.write(v2_batch(plain_rows(2), base_offset=base_offset))
    return log.read_bytes()


def write_since(partition: Path) -> dict[str, bytes]:
    """Append to the last segment and roll another one; their contents."""
    log = max(partition.glob("*.log"))
    rolled = partition / f"{450:020}.log"
    rolled.write_bytes(v2_batch(plain_rows(2), base_offset=450))
    return {log.name: append(log, 448), rolled.name: rolled.read_bytes()}


def test_records_that_were_written_after_a_cut_need_a_decision(tmp_path: Path) -> None:
    partition = build(tmp_path)
    before = contents(tree(partition))
    repair(partition, RepairMode.LIKE_BROKER)
    written = write_since(partition)
    state = contents(tree(partition))
    status, text, errors = undo(partition)
    assert (status, text) == (DAMAGE, "")
    assert all(name in errors for name in written)
    assert "--replace-changed goes on and keeps it in the backup" in errors
    assert contents(tree(partition)) == state
    status, text, errors = undo(partition, "--replace-changed")
    assert (status, errors) == (CLEAN, "")
    assert text.startswith(f"{partition}: is as it was before the repair\n")
    assert contents(tree(partition)) == before
    assert kept(partition) == written


def test_records_that_were_written_after_segments_that_stay_stay(tmp_path: Path) -> None:
    """The repair left the last segment alone, and so does undoing it."""
    partition = build(tmp_path)
    before = contents(tree(partition))
    repair(partition, RepairMode.SALVAGE)
    written = write_since(partition)
    status, text, errors = undo(partition)
    assert (status, errors) == (CLEAN, "")
    appended, rolled = written
    assert text.splitlines() == [
        f"{partition}: the files of the repair are as they were before it; other files are not",
        f"{partition}/{appended}: was written to since the repair",
        f"{partition}/{rolled}: was not there before the repair",
    ]
    assert contents(tree(partition)) == before | {f"{partition.name}/{name}": data for name, data in written.items()}


@pytest.mark.slow
def test_killed_while_changed_files_are_replaced(tmp_path: Path) -> None:
    """What was written is either in its place or in the backup; a second try brings the rest back."""
    killed = 0
    for number in range(1, 400, 5):
        partition = build(tmp_path / str(number))
        before = contents(tree(partition))
        repair(partition, RepairMode.LIKE_BROKER)
        log = max(partition.glob("*.log"))
        written = append(log, 448)
        (manifest,) = manifests(partition)

        def work(manifest: Path = manifest) -> None:
            undo_repair(str(manifest), replaces_changed=True)

        is_killed = killed_at(number, work)
        if is_killed:
            killed += 1
            assert written in (log.read_bytes(), kept(partition).get(log.name))
            undo_repair(str(manifest), replaces_changed=True)
        assert contents(tree(partition)) == before
        assert kept(partition)[log.name] == written
        if not is_killed:
            break
    assert killed > 5


@pytest.mark.parametrize("what", ["changed", "longer", "link", "pipe", "directory"])
def test_nothing_is_undone_with_a_backup_that_is_not_what_was_saved(
    repaired: tuple[Path, dict[str, bytes]], what: str
) -> None:
    """What the repair made is the only good log then."""
    partition, _ = repaired
    saved = min(partition.glob(".kdump/*/old/*.log*"))
    original = saved.read_bytes()
    if what in ("changed", "longer"):
        saved.write_bytes(original[:-1] + b"!" if what == "changed" else original + b"!")
    else:
        saved.unlink()
        if what == "link":
            (partition.parent.parent / "elsewhere").write_bytes(original)
            saved.symlink_to(partition.parent.parent / "elsewhere")
        elif what == "pipe":
            os.mkfifo(saved)
        else:
            saved.mkdir()
    before = {path: path.read_bytes() for path in partition.iterdir() if path.is_file()}
    status, _, errors = undo(partition)
    assert status == DAMAGE
    assert saved.name[:24] in errors
    assert {path: path.read_bytes() for path in partition.iterdir() if path.is_file()} == before


def test_a_giant_in_place_of_a_changed_file_is_not_kept(repaired: tuple[Path, dict[str, bytes]]) -> None:
    """A copy of a sparse file fills the disk."""
    partition, _ = repaired
    changes = json.loads(manifests(partition)[0].read_bytes())["files"]
    index = partition / next(change["name"] for change in changes if change["after"] and "index" in change["name"])
    os.truncate(index, 4 << 40)
    status, _, errors = undo(partition)
    assert status == UNREADABLE
    assert f"{index}: has 4,398,046,511,104 bytes or more" in errors
    assert index.stat().st_size == 4 << 40
    assert kept(partition) == {}


def test_a_giant_checkpoint_is_not_read(tmp_path: Path) -> None:
    """A sparse one, in which a forged manifest has a line, took as much memory."""
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.touch()
    os.truncate(checkpoint, 4 << 40)
    with disk.Folder(str(tmp_path)) as folder, pytest.raises(KdumpError) as raised:
        set_line(folder, "t-0", checkpoint.name, 5)
    assert raised.value.code is Codes.FILE_SIZE


@pytest.mark.parametrize("what", ["saved", "new"])
def test_the_holes_of_a_giant_log_are_not_read(tmp_path: Path, what: str) -> None:
    """To digest them takes hours, a copy of them fills the disk."""
    partition = build(tmp_path)
    repair(partition, RepairMode.LIKE_BROKER)
    giant = partition / f"{999:020}.log" if what == "new" else min(partition.glob(".kdump/*/old/*.from-*"))
    giant.touch()
    os.truncate(giant, 5 << 30)
    before = {path: path.stat().st_mtime_ns for path in partition.iterdir()}
    status, _, errors = undo(partition, "--replace-changed")
    assert status == UNREADABLE
    assert f"{giant}: has 5,368,70" in errors
    assert {path: path.stat().st_mtime_ns for path in partition.iterdir()} == before
    assert kept(partition) == {}


def test_a_log_of_which_the_start_is_gone_cannot_come_back(tmp_path: Path) -> None:
    partition = build(tmp_path)
    repair(partition, RepairMode.LIKE_BROKER)
    log = max(partition.glob("*.log"))
    log.write_bytes(b"x" + log.read_bytes()[1:])
    state = contents(tree(partition))
    for words in ((), ("--replace-changed",)):
        status, _, errors = undo(partition, *words)
        assert status == DAMAGE
        assert "bytes, which the backup does not hold, are gone" in errors
        assert contents(tree(partition)) == state


@pytest.mark.parametrize("since", ["nothing", "crash", "clean"])
def test_a_marker_that_the_repair_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: str) -> None:
    partition = build(tmp_path)
    before = contents(tree(partition))
    monkeypatch.setattr(starts, "_snapshot_at_end", lambda *words: None)
    for path in partition.glob("*.snapshot"):
        if path.stem != f"{448:020}":
            path.unlink()
            del before[f"{partition.name}/{path.name}"]
    options = RepairOptions(RepairMode.SALVAGE, in_place=True, decides_transactions=True, allow_worse_start=True)
    with Repair(options, on_error=print) as job:
        list(job.of(resolve(str(partition))))
    marker = partition.parent / MARKER
    assert not marker.exists()
    if since != "nothing":
        points = partition.parent / "recovery-point-offset-checkpoint"
        points.write_bytes(points.read_bytes())
    if since == "clean":
        marker.write_text("{}")
    status, text, _ = undo(partition)
    assert status == CLEAN
    lines = {
        "nothing": [],
        "crash": [f"{MARKER} is not put back: a broker ran since"],
        "clean": [f"{MARKER} stays as it is: a broker ran since, and was stopped cleanly"],
    }
    assert text.splitlines() == [f"{partition}: is as it was before the repair", *lines[since]]
    if since == "crash":
        del before[MARKER]
    elif since == "clean":
        before[MARKER] = b"{}"
    assert contents(tree(partition)) == before


def test_files_that_a_copy_of_links_shares_are_named_before_anything_changes(
    repaired: tuple[Path, dict[str, bytes]],
) -> None:
    """The end of a cut log and the times of files with the same content would change in the copy, too."""
    partition, before = repaired
    shutil.copytree(partition, partition.parent.parent / "copy", copy_function=os.link)
    (manifest,) = manifests(partition)
    state = tree(partition), manifest.read_bytes()
    status, _, errors = undo(partition)
    assert status == DAMAGE
    assert "has another name (a hard link) through which the change would show" in errors
    assert (tree(partition), manifest.read_bytes()) == state
    for name in re.findall(r"\d{20}\.\w+", errors):
        os.replace(shutil.copy2(partition / name, partition / "copied"), partition / name)
    assert undo(partition) == (CLEAN, f"{partition}: is as it was before the repair\n", "")
    assert contents(tree(partition)) == before


@pytest.mark.parametrize("backup", [None, "backup"])
def test_files_come_back_with_their_extended_attributes(tmp_path: Path, backup: str | None) -> None:
    """Logs, index files and snapshots that the repair changed. An ACL is one of the attributes."""
    partition = build(tmp_path)
    contents_before = {path: path.read_bytes() for path in partition.iterdir() if path.is_file()}
    for path in contents_before:
        set_acl(path, (USER_OF_FILE, 0o6), (NAMED["user"], 0o4), (GROUP_OF_FILE, 0), (MASK, 0o4), (OTHERS, 0))

    def attributes() -> dict[Path, dict[str, bytes]]:
        return {path: {name: os.getxattr(path, name) for name in os.listxattr(path)} for path in contents_before}

    before = attributes()
    options = RepairOptions(
        RepairMode.SALVAGE, in_place=True, decides_transactions=True, backup=backup and str(tmp_path / backup)
    )
    with Repair(options, on_error=pytest.fail) as job:
        list(job.of(resolve(str(partition))))
    (manifest,) = manifests(partition) or (tmp_path / "backup").glob("*/manifest.json")
    changed = {path for path, data in contents_before.items() if not path.exists() or path.read_bytes() != data}
    undo_repair(str(manifest))
    after = attributes()
    assert {path.suffix for path in changed} > {".log", ".index", ".timeindex"}
    assert [path for path in changed if after[path] != before[path]] == []


def test_a_manifest_of_an_earlier_version_names_what_is_newer(tmp_path: Path) -> None:
    """It does not say which other files there were."""
    partition = build(tmp_path)
    repair(partition, RepairMode.LIKE_BROKER)
    (manifest,) = manifests(partition)
    members = json.loads(manifest.read_bytes())
    for name in ("lines", "bystanders", "replaced"):
        del members[name]
    manifest.write_text(json.dumps(members))
    status, text, _ = undo(partition)
    assert (status, text) == (CLEAN, f"{partition}: is as it was before the repair\n")
    assert parse_manifest(manifest.read_bytes()).lines is None


@pytest.mark.parametrize("words", [["--replace-changed", "t-0"], ["--allow-worse-start", "t-0"]])
def test_usage(tmp_path: Path, words: list[str]) -> None:
    assert kdump("repair", *words, cwd=tmp_path).returncode == USAGE


@pytest.mark.parametrize("in_log_directory", [True, False])
def test_two_undo_one_repair_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_log_directory: bool
) -> None:
    """The second is refused while the first removes files, and changes nothing. Else each removes what the other made.

    The lock is that of the log directory, or of the partition where it lies in none.
    """
    partition = build(tmp_path)
    if not in_log_directory:
        partition = partition.rename(tmp_path / partition.name)
    before = contents(tree(partition))
    repair(partition, RepairMode.SALVAGE)
    (manifest,) = manifests(partition)
    is_stopped = False

    def second() -> None:
        with pytest.raises(KdumpError) as caught:
            undo_repair(str(manifest))
        assert caught.value.code is Codes.LOCK_HELD

    remove = disk.remove

    def stopped(entry: DirectoryEntry) -> None:
        nonlocal is_stopped
        if not is_stopped:
            is_stopped = True
            assert in_child(second) == 0
        remove(entry)

    monkeypatch.setattr(disk, "remove", stopped)
    undo_repair(str(manifest))
    assert is_stopped
    assert contents(tree(partition)) == before


@pytest.mark.parametrize("calls", [3, pytest.param(0, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", [RepairMode.LIKE_BROKER, pytest.param(RepairMode.SALVAGE, marks=pytest.mark.slow)])
def test_a_repair_without_one_of_its_files_is_finished_exactly_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: RepairMode, calls: int
) -> None:
    """A prepared file, a placed file or an original is gone. No last original is removed."""
    sound = build(tmp_path / "sound")
    repair(sound, mode)
    after = contents(tree(sound))
    begun = build(tmp_path / "begun")
    stop_after(monkeypatch, calls)
    with pytest.raises(KdumpError, match="stopped"):
        repair(begun, mode)
    monkeypatch.undo()
    named = {change["name"] for change in json.loads(manifests(begun)[0].read_text())["files"]}
    waiting = [path for path in begun.rglob("*") if path.is_file() and path.parent.name in ("new", "old")]
    placed = [path for path in begun.iterdir() if path.name.removesuffix(".swap") in named]
    refused = 0
    for number, path in enumerate((*waiting, *placed)):
        partition = shutil.copytree(begun.parent, tmp_path / str(number) / "logs") / begun.name
        lost = partition / path.relative_to(begun)
        lost.unlink()
        before = tree(partition)
        run = kdump("repair", "--finish", str(partition), cwd=tmp_path)
        if run.returncode:
            refused += 1
            assert (run.returncode, tree(partition)) == (DAMAGE, before)
            continue
        assert contents(tree(partition)) == after
        if path.parent.name == "old":
            name = f"{begun.name}/{path.name.partition('.from-')[0]}"
            assert contents(before).get(name) in (None, after.get(name))
    assert refused


def stop_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Let the steps of a repair end with OSError after so many that move or remove a file of the partition."""
    left = calls
    take = journal._take

    def counted(step: RepairStep, folders: Folders) -> None:
        nonlocal left
        if step.action in (Action.PLACE, Action.REMOVE):
            if not left:
                raise OSError("stopped")
            left -= 1
        take(step, folders)

    monkeypatch.setattr(journal, "_take", counted)
