"""Manifests, links and owners that would lead a repair somewhere else: nothing outside of the partition changes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import resolve
from kdump.repair import begun, refusals
from kdump.repair.apply import disk, journal
from kdump.repair.apply.folders import Folders
from kdump.repair.apply.journal import HOME, unfinished
from kdump.repair.apply.manifest import MAX_SIZE
from kdump.repair.apply.manifestjson import parse_manifest
from kdump.repair.begun import finish_repairs, undo_repair
from kdump.repair.plan.location import PartitionLocation
from kdump.repair.plan.plan import RepairMode
from kdump.repair.run import Repair, RepairOptions
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump
from tests.harness.killedrepairs import build, contents, finish, manifests, repair, tree

Members = dict[str, Any]
PRECIOUS = b"precious"
CHECKPOINT = "recovery-point-offset-checkpoint"
OTHER_USER = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def begin(partition: Path, mode: RepairMode = RepairMode.LIKE_BROKER, backup: str | None = None) -> Path:
    """The manifest of a repair that was begun, and of which no step was taken."""
    options = RepairOptions(mode, in_place=True, decides_transactions=True, backup=backup)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "finish", interrupt)
        with pytest.raises(KeyboardInterrupt), Repair(options, on_error=pytest.fail) as job:
            list(job.of(resolve(str(partition))))
    (manifest,) = manifests(partition)
    return manifest


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Damaged, in a log directory, beside what must not change."""
    victim = tmp_path / "victim"
    (victim / "old" / "deep").mkdir(parents=True)
    (victim / "old" / "deep" / "file").write_bytes(PRECIOUS)
    (victim / "file").write_bytes(PRECIOUS)
    return build(tmp_path)


def victims(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and time of what must not change."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in (root / "victim").rglob("*")
        if path.is_file()
    }


def rewrite(manifest: Path, change: Callable[[Members], object]) -> None:
    members = json.loads(manifest.read_bytes())
    change(members)
    manifest.write_text(json.dumps(members))


def check_refused(partition: Path, manifest: Path, message: str, code: Codes | None = Codes.MANIFEST) -> None:
    """Neither way out follows it, and nothing changes."""
    root = partition.parent.parent
    before, untouched = tree(partition), victims(root)
    for follow in (lambda: finish(partition), lambda: undo_repair(str(manifest))):
        with pytest.raises(KdumpError, match=message) as error:
            follow()
        assert code is None or error.value.code is code
        assert tree(partition) == before
        assert victims(root) == untouched


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("victim")])
@pytest.mark.parametrize("name", [f"v2-txn-0/{105:020}.log.swap", f".{CHECKPOINT}.kdump-part"])
def test_names_of_a_moment_are_free(partition: Path, name: str, make: Callable[[Path], None]) -> None:
    """A directory there stopped the repair half way, its end and its undo; a pipe or a link was lost."""
    taken = partition.parent / name
    make(taken)
    before, kind = tree(partition), taken.lstat().st_mode
    mode = RepairMode.SALVAGE if name.endswith(".swap") else RepairMode.LIKE_BROKER
    with pytest.raises(KdumpError, match="move it away") as error:
        repair(partition, mode)
    assert (error.value.code, error.value.path) == (Codes.REPAIR_REFUSED, str(taken))
    assert (tree(partition), taken.lstat().st_mode) == (before, kind)
    assert not manifests(partition)


STATE = {"size": 0, "sha256": "0" * 64, "mode": 0, "uid": 0, "gid": 0, "modified": 0}
NAMES = ("../victim/file", "../../victim/file", "/victim", "..", ".", "", "a/b", "a\0b", ".kdump", "\ud800", "x" * 300)
LOG = f"{105:020}.log"
PLACES: dict[str, Callable[[Members, str], object]] = {
    "file": lambda manifest, name: manifest["files"].append(
        {"name": name, "before": None, "after": STATE, "saved": None, "kept": 0}
    ),
    "saved": lambda manifest, name: manifest["files"][0].update(saved=f"old/{name}"),
    "bystander": lambda manifest, name: manifest["bystanders"].append(
        {"name": name, "size": 0, "modified": 0, "sha256": None}
    ),
    "kept": lambda manifest, name: manifest.update(replaced=name),
    "remove": lambda manifest, name: manifest["steps"].append({"action": "remove", "target": name}),
    "cut": lambda manifest, name: manifest["steps"].append(
        {"action": "cut", "target": name, "position": 0, "modified": 0}
    ),
    "place": lambda manifest, name: manifest["steps"].append(
        {"action": "place", "target": name, "source": ".kdump/x/new/y"}
    ),
    "source": lambda manifest, name: manifest["steps"].append({"action": "place", "target": LOG, "source": name}),
    "prepared": lambda manifest, name: manifest["steps"].append(
        {"action": "place", "target": LOG, "source": f".kdump/x/new/{name}"}
    ),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A manifest of a repair that was begun."""
    return begin(build(tmp_path_factory.mktemp("sound"))).read_bytes()


def is_refused(sound: bytes, change: Callable[[Members], object]) -> bool:
    parse_manifest(sound)
    members = json.loads(sound)
    change(members)
    try:
        parse_manifest(json.dumps(members).encode())
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("place", PLACES)
def test_a_name_is_one_part_of_a_path(sound: bytes, place: str) -> None:
    assert [name for name in NAMES if not is_refused(sound, partial(PLACES[place], name=name))] == []


def test_a_name_that_leads_elsewhere_is_not_followed(partition: Path) -> None:
    manifest = begin(partition)
    rewrite(manifest, lambda members: PLACES["remove"](members, NAMES[0]))
    check_refused(partition, manifest, "no manifest of a repair")


def set_step(**members: object) -> Callable[[Members], object]:
    return lambda manifest: manifest["steps"].append(members)


def set_member(name: str, value: object) -> Callable[[Members], object]:
    return lambda manifest: manifest.update({name: value})


def set_in(folder: str, **values: object) -> Callable[[Members], object]:
    return lambda manifest: manifest[folder][0].update(values)


FALSE: dict[str, Callable[[Members], object]] = {
    "a file that is not listed goes": set_step(action="remove", target="partition.metadata"),
    "a file that stays goes": set_step(action="remove", target="00000000000000000000.log"),
    "a file that stays is replaced": set_step(
        action="place", target="00000000000000000000.log", source=".kdump/x/new/00000000000000000000.log"
    ),
    "a source of another name": set_step(action="place", target="00000000000000000105.index", source="evil"),
    "cut elsewhere": set_step(action="cut", target="00000000000000000105.log", position=3, modified=0),
    "the marker is placed": set_step(action="place", target="../.kafka_cleanshutdown", source=".kdump/x/new/y"),
    "another file above": set_step(action="remove", target="../meta.properties"),
    "sync elsewhere": set_step(action="sync", target="/"),
    "a line of no checkpoint": set_step(action="line", target="meta.properties", position=1),
    "a line that is not listed": set_step(action="line", target="cleaner-offset-checkpoint", position=1),
    "a line twice": lambda manifest: manifest.update(
        lines=[{"name": CHECKPOINT, "before": 1, "after": 0}],
        steps=[{"action": "line", "target": CHECKPOINT, "position": 0}] * 2,
    ),
    "an unknown action": set_step(action="run", target="x"),
    "an action of another type": set_step(action=["remove"], target="x"),
    "a target of another type": set_step(action="remove", target=5),
    "an unknown member": set_member("more", 1),
    "no list": set_member("steps", {"0": 1}),
    "steps are text": set_member("steps", ["remove"]),
    "files are null": set_member("files", None),
    "a backup of another type": set_member("backup", 5),
    "a directory of another type": set_member("directory", ["/"]),
    "no time": set_member("created", "yesterday\x1b[31m"),
    "another format": set_member("format", 2),
    "a boolean format": set_member("format", True),
    "a state of another type": set_member("state", {}),
    "accounts are numbers": set_member("logs", [1]),
    "saved elsewhere": set_in("files", saved="old/evil"),
    "a negative size": set_in("files", kept=-1),
    "a huge size": set_in("files", kept=2**63),
    "a fraction": set_in("files", kept=0.5),
    "listed twice": lambda manifest: manifest["files"].append(manifest["files"][0]),
    "no digest": lambda manifest: manifest["files"][-1]["before"].update(sha256="../x"),
    "a mode beyond all": lambda manifest: manifest["files"][-1]["before"].update(mode=2**40),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_manifest_is_checked_as_a_whole(sound: bytes, what: str) -> None:
    assert is_refused(sound, FALSE[what])


@pytest.mark.parametrize(
    "data",
    [b"[1]", b"null", b"", b"{", b"[" * 200_000, b'{"format":' + b"9" * 5000 + b"}", b"\xff", b'{"a":' * 50 + b"1"],
    ids=["list", "null", "empty", "torn", "deep", "huge", "bytes", "deeper"],
)
def test_what_is_no_manifest(partition: Path, data: bytes) -> None:
    manifest = begin(partition)
    manifest.write_bytes(data)
    check_refused(partition, manifest, "no manifest of a repair")
    assert kdump("repair", str(partition), cwd=partition).returncode == DAMAGE


def test_json_that_parses_and_is_deep() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        parse_manifest(b'{"logs":' + b"[" * 50 + b"]" * 50 + b"}")


def test_a_manifest_has_a_bound(partition: Path) -> None:
    manifest = begin(partition)
    os.truncate(manifest, MAX_SIZE + 1)
    check_refused(partition, manifest, "more than 25,165,824 bytes")


def test_a_directory_that_did_not_change_is_not_synced_again(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = begin(partition)
    rewrite(manifest, lambda members: members["steps"].extend([{"action": "sync", "target": "."}] * 1000))
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_directory", lambda folder: synced.append(folder.path))
    finish(partition)
    assert len(synced) < 100


def test_a_pipe_in_the_place_of_a_manifest(partition: Path) -> None:
    manifest = begin(partition)
    manifest.unlink()
    os.mkfifo(manifest)
    check_refused(partition, manifest, "no regular file")


@pytest.mark.parametrize("name", ["", "x", "x/new", "x/old", "x/manifest.json"])
def test_a_link_in_the_place_of_a_directory(partition: Path, tmp_path: Path, name: str) -> None:
    """What it leads to is all that the repair needs; it is not followed."""
    manifest = begin(partition)
    part = partition / HOME / name.replace("x", manifest.parent.name)
    elsewhere = tmp_path / "elsewhere"
    part.rename(elsewhere)
    part.symlink_to(elsewhere)
    before = contents(tree(partition)), victims(tmp_path)
    with pytest.raises(KdumpError, match="symbolic link"):
        undo_repair(str(manifest))
    with contextlib.suppress(KdumpError):
        finish(partition)
    assert (contents(tree(partition)), victims(tmp_path)) == before


@pytest.mark.parametrize("what", ["target", "source", "original"])
@pytest.mark.parametrize("kind", ["symbolic", "hard", "pipe"])
def test_a_link_in_the_place_of_a_file(partition: Path, tmp_path: Path, what: str, kind: str) -> None:
    manifest = begin(partition)
    members = json.loads(manifest.read_bytes())
    change = next(change for change in members["files"] if change["before"] and change["after"])
    victim = tmp_path / "victim" / "file"
    path = {
        "target": partition / change["name"],
        "source": manifest.parent / "new" / change["name"],
        "original": manifest.parent / change["saved"],
    }[what]
    if what == "target" and kind != "pipe":
        victim.write_bytes(path.read_bytes())
    if path.exists():
        path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "hard":
        os.link(victim, path)
    else:
        path.symlink_to(victim)
    before = victims(tmp_path)
    for follow in (lambda: finish(partition), lambda: undo_repair(str(manifest))):
        with contextlib.suppress(KdumpError):
            follow()
        assert victims(tmp_path) == before


def test_a_log_with_another_name_is_not_cut(partition: Path, tmp_path: Path) -> None:
    """It had none when the repair was prepared."""
    manifest = begin(partition)
    members = json.loads(manifest.read_bytes())
    (name,) = [step["target"] for step in members["steps"] if step["action"] == "cut"]
    os.link(partition / name, tmp_path / "victim" / "log")
    before = victims(tmp_path)
    with pytest.raises(KdumpError, match="has another name"):
        finish(partition)
    assert victims(tmp_path) == before
    (tmp_path / "victim" / "log").unlink()
    finish(partition)


def test_a_link_in_the_place_of_a_checkpoint(partition: Path, tmp_path: Path) -> None:
    begin(partition)
    checkpoint = partition.parent / "recovery-point-offset-checkpoint"
    victim = tmp_path / "victim" / "checkpoint"
    checkpoint.rename(victim)
    checkpoint.symlink_to(victim)
    before = victims(tmp_path)
    with pytest.raises(KdumpError, match="symbolic link"):
        finish(partition)
    assert victims(tmp_path) == before


@pytest.mark.parametrize(
    ("form", "is_live", "has_own"),
    [
        ("delete", True, False),
        ("stray", True, False),
        ("future", True, False),
        ("delete", False, False),
        ("future", False, True),
    ],
)
def test_lines_of_another_directory_of_the_partition(partition: Path, form: str, is_live: bool, has_own: bool) -> None:
    """Only a future log has lines of its own, in a log directory where the partition itself is not."""
    checkpoint = partition.parent / CHECKPOINT
    other = partition.rename(partition.with_name(f"{partition.name}.{'ab' * 16}-{form}"))
    if is_live:
        partition.mkdir()
    data = bytearray((other / f"{105:020}.log").read_bytes())
    data[20] ^= 1
    (other / f"{105:020}.log").write_bytes(data)
    words = ("--in-place", "--like-broker", "--allow-worse-start", str(other))
    assert kdump("repair", *words, cwd=other).returncode == CLEAN
    assert checkpoint.read_text() == f"0\n2\nother 0 9\nv2-txn 0 {105 if has_own else 448}\n"
    checkpoint.write_text("0\n1\nv2-txn 0 7\n")
    (manifest,) = manifests(other)
    if not has_own:
        rewrite(manifest, set_member("lines", [{"name": CHECKPOINT, "before": 448, "after": 105}]))
    undo_repair(str(manifest))
    assert checkpoint.read_text() == f"0\n1\nv2-txn 0 {448 if has_own else 7}\n"


def test_prepared_files_are_the_ones_that_were_prepared(partition: Path) -> None:
    manifest = begin(partition)
    before = tree(partition)
    prepared = max((manifest.parent / "new").iterdir())
    prepared.write_bytes(b"evil")
    with pytest.raises(KdumpError, match="was prepared with other content"):
        finish(partition)
    assert tree(partition) == before
    undo_repair(str(manifest))
    assert tree(partition) == before


# Who wrote it.


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_manifest_that_others_may_write(partition: Path, mode: int) -> None:
    manifest = begin(partition)
    manifest.chmod(mode)
    check_refused(partition, manifest, f"other users may have written it .mode {mode:o}.")
    manifest.chmod(0o600)
    finish(partition)


@as_root
def test_a_manifest_of_another_user(partition: Path) -> None:
    manifest = begin(partition)
    os.chown(manifest, OTHER_USER, OTHER_USER)
    check_refused(partition, manifest, f"belongs to {OTHER_USER}")


@as_root
def test_root_follows_a_manifest_of_the_partition_s_owner(partition: Path) -> None:
    before = contents(tree(partition))
    for path in (partition, *partition.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER)
    manifest = begin(partition)
    assert manifest.stat().st_uid == OTHER_USER
    rewrite(manifest, set_step(action="remove", target="../../victim/file"))
    check_refused(partition, manifest, "no manifest of a repair")
    rewrite(manifest, lambda members: members["steps"].pop())
    finish(partition)
    undo_repair(str(manifest))
    assert contents(tree(partition)) == before
    assert manifest.stat().st_uid == OTHER_USER


@as_root
def test_root_repairs_files_of_another_user_in_its_own_directory(partition: Path) -> None:
    before = contents(tree(partition))
    for path in partition.iterdir():
        os.chown(path, OTHER_USER, OTHER_USER)
    manifest = begin(partition)
    finish(partition)
    undo_repair(str(manifest))
    assert contents(tree(partition)) == before
    assert {path.stat().st_uid for path in partition.glob("0*")} == {OTHER_USER}


# Which directories.


def test_what_it_says_of_its_directory_is_not_followed(partition: Path, tmp_path: Path) -> None:
    manifest = begin(partition)
    before = contents(tree(partition))
    rewrite(manifest, set_member("directory", str(tmp_path / "victim")))
    untouched = victims(tmp_path)
    finish(partition)
    undo_repair(str(manifest))
    assert contents(tree(partition)) == before
    assert victims(tmp_path) == untouched


def test_another_backup_has_to_be_named(partition: Path, tmp_path: Path) -> None:
    manifest = begin(partition)
    rewrite(manifest, set_member("backup", str(tmp_path / "victim")))
    check_refused(partition, manifest, "--backup-dir has to name")


@pytest.mark.parametrize("backup", [".", "/", "/x/..", ""])
def test_a_backup_without_a_name(partition: Path, tmp_path: Path, backup: str) -> None:
    manifest = begin(partition)
    rewrite(manifest, set_member("backup", backup))
    with pytest.raises(KdumpError, match="not followed"):
        undo_repair(str(manifest), backup=str(tmp_path))


@pytest.mark.parametrize("is_link", [False, True])
def test_a_backup_in_the_place_of_journals_is_refused(partition: Path, tmp_path: Path, is_link: bool) -> None:
    """Its manifest would look like the journal of the directory that it lies in."""
    other = tmp_path / "other" / HOME
    other.mkdir(parents=True)
    named = tmp_path / "named"
    named.symlink_to(other)
    before = contents(tree(partition))
    errors: list[KdumpError] = []
    options = RepairOptions(RepairMode.LIKE_BROKER, in_place=True, backup=str(named if is_link else other))
    with Repair(options, on_error=errors.append) as job:
        assert not list(job.of(resolve(str(partition))))
    (error,) = errors
    assert (error.code, ".kdump is the name for the journals" in error.message) == (Codes.REPAIR_REFUSED, True)
    assert contents(tree(partition)) == before
    assert not list(other.iterdir())


def test_a_backup_that_was_moved_among_journals_is_not_followed(partition: Path, tmp_path: Path) -> None:
    """The directory that it then lies in is another one."""
    other = tmp_path / "other"
    options = RepairOptions(RepairMode.LIKE_BROKER, in_place=True, backup=str(other))
    with Repair(options, on_error=pytest.fail) as job:
        list(job.of(resolve(str(partition))))
    (kept,) = other.iterdir()
    (tmp_path / "victim" / HOME).mkdir()
    moved = kept.rename(tmp_path / "victim" / HOME / kept.name)
    untouched = victims(tmp_path)
    with pytest.raises(KdumpError, match="is no name of a journal") as caught:
        undo_repair(str(moved / "manifest.json"))
    assert caught.value.code is Codes.MANIFEST
    assert victims(tmp_path) == untouched


@pytest.mark.parametrize("year", [1, 1900, 2262, 2300, 2446])
def test_times_that_nanoseconds_of_64_bits_do_not_reach(partition: Path, year: int) -> None:
    seconds = int(datetime(year, 12, 31, tzinfo=UTC).timestamp())
    for path in partition.iterdir():
        os.utime(path, (seconds, seconds))
    times = {path.name: path.stat().st_mtime_ns for path in partition.iterdir()}
    before = contents(tree(partition))
    begin(partition)
    finish(partition)
    (manifest,) = manifests(partition)
    undo_repair(str(manifest))
    assert contents(tree(partition)) == before
    assert {path.name: path.stat().st_mtime_ns for path in partition.iterdir() if path.name in times} == times


def test_nothing_is_begun_that_could_not_be_read_again(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes) -> None:
        raise ValueError("somehow")

    monkeypatch.setattr(journal, "parse_manifest", refuse)
    before = contents(tree(partition))
    errors: list[KdumpError] = []
    with Repair(RepairOptions(RepairMode.LIKE_BROKER, in_place=True), on_error=errors.append) as job:
        assert not list(job.of(resolve(str(partition))))
    assert [error.message for error in errors] == ["its manifest could not be read again: somehow"]
    assert contents(tree(partition)) == before


@pytest.mark.parametrize("mode", [RepairMode.LIKE_BROKER, RepairMode.SALVAGE])
def test_finish_and_undo_with_another_backup(partition: Path, tmp_path: Path, mode: RepairMode) -> None:
    before = contents(tree(partition))
    other = tmp_path / "other"
    manifest = begin(partition, mode, str(other))
    run = kdump("repair", "--finish", "--backup-dir", str(other), str(partition.parent), cwd=tmp_path)
    assert run.returncode == CLEAN
    assert not manifest.exists()
    (kept,) = other.glob("*/manifest.json")
    assert run.stdout.decode() == f"{partition}: finished what {kept} began\n"
    undo_repair(str(kept))
    assert contents(tree(partition)) == before
    manifest = begin(partition, mode, str(other))
    assert kdump("repair", "--undo", str(manifest), cwd=tmp_path).returncode == DAMAGE
    undo_repair(str(manifest), backup=str(other))
    assert contents(tree(partition)) == before


@pytest.mark.parametrize("word", ["link/../v2-txn-0", f"link/../v2-txn-0/{105:020}.log", "link/../v2-txn-0/."])
def test_a_link_before_the_directory_above(partition: Path, tmp_path: Path, word: str) -> None:
    """What is read is what is changed, and where the originals go is where they are found."""
    before, other = contents(tree(partition)), tmp_path / "v2-txn-0"
    shutil.copytree(partition, other)
    (other / f"{297:020}.log").unlink()
    (partition.parent / "deep").mkdir()
    (tmp_path / "link").symlink_to("logs/deep")
    untouched = {path: path.read_bytes() for path in other.iterdir()}
    how = ("--salvage", "--txn", "leave", "--allow-worse-start", "--backup-dir", "link/../../link/../../kept")
    run = kdump("repair", "--in-place", *how, word, cwd=tmp_path)
    assert run.returncode == CLEAN
    assert contents(tree(partition)) != before
    (manifest,) = (tmp_path / "kept").glob("*/manifest.json")
    assert json.loads(manifest.read_bytes())["directory"] == str(partition)
    name = manifest.relative_to(tmp_path)
    assert kdump("repair", "--undo", f"link/../../{name}", cwd=tmp_path).returncode == CLEAN
    assert contents(tree(partition)) == before
    assert {path: path.read_bytes() for path in other.iterdir()} == untouched


def test_an_interrupted_undo_with_another_backup(partition: Path, tmp_path: Path) -> None:
    """The partition tells of it, and what goes on finds the backup."""
    before, other = contents(tree(partition)), tmp_path / "other"
    words = ("--in-place", "--like-broker", "--allow-worse-start", "--backup-dir", str(other), str(partition))
    assert kdump("repair", *words, cwd=tmp_path).returncode == CLEAN
    (kept,) = other.glob("*/manifest.json")
    for way_on in ("finish", "undo"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "rewrite_end", interrupt)
            with pytest.raises(KeyboardInterrupt):
                undo_repair(str(kept))
        assert contents(tree(partition)) != before
        (begun,) = unfinished(str(partition))
        assert begun.is_undone
        run = kdump("repair", *words, cwd=tmp_path)
        assert run.returncode == DAMAGE
        assert b"undoing a repair" in run.stderr
        assert b"--backup-dir has to name" in kdump("repair", "--finish", str(partition), cwd=tmp_path).stderr
        if way_on == "undo":
            undo_repair(str(kept))
        else:
            run = kdump("repair", "--finish", "--backup-dir", str(other), str(partition.parent), cwd=tmp_path)
            assert (run.returncode, run.stdout.decode()) == (CLEAN, f"{partition}: finished what {kept} began\n")
            assert contents(tree(partition)) == before
            shutil.rmtree(other)
            assert kdump("repair", *words, cwd=tmp_path).returncode == CLEAN
            (kept,) = other.glob("*/manifest.json")
    assert contents(tree(partition)) == before
    assert manifests(partition) == []


def test_the_longest_name_of_a_topic(partition: Path, tmp_path: Path) -> None:
    partition = partition.rename(partition.with_name(f"{'t' * 249}-0"))
    before, other = contents(tree(partition)), tmp_path / "other"
    manifest = begin(partition, backup=str(other))
    finished = kdump("repair", "--finish", "--backup-dir", str(other), str(partition), cwd=tmp_path)
    assert (finished.returncode, manifest.exists()) == (CLEAN, False)
    (kept,) = other.glob("*/manifest.json")
    undo_repair(str(kept))
    assert contents(tree(partition)) == before
    assert kdump("repair", "--like-broker", "-o", "out", str(partition), cwd=tmp_path).returncode == CLEAN
    assert (tmp_path / "out" / partition.name).is_dir()
    assert len(list((tmp_path / "out").glob("kdump-t*.json"))) == 1


@as_root
def test_a_backup_elsewhere_is_of_a_directory_of_its_owner(partition: Path, tmp_path: Path) -> None:
    """A user who may write a backup of his own leads root into no directory of somebody else."""
    other = tmp_path / "other"
    manifest = begin(partition, backup=str(other))
    list(finish_repairs(str(partition), on_error=pytest.fail, backup=str(other)))
    (manifest,) = other.glob("*/manifest.json")
    os.chown(manifest, OTHER_USER, OTHER_USER)
    before = tree(partition)
    with pytest.raises(KdumpError, match=f"belongs to {OTHER_USER}"):
        undo_repair(str(manifest))
    assert tree(partition) == before


@pytest.mark.parametrize("state", ["begun", "undoing", "done"])
@pytest.mark.parametrize("is_named_alike", [False, True])
def test_a_backup_of_another_partition(partition: Path, tmp_path: Path, state: str, is_named_alike: bool) -> None:
    """The directory that the command line names has backups of others, too. A manifest leads only to its own."""
    other = tmp_path / "other"
    manifest = begin(partition)
    name = f"{'x-' if is_named_alike else ''}{partition.name}-{'' if is_named_alike else 'x'}{manifest.parent.name}"
    foreign = other / name
    (foreign / "old").mkdir(parents=True)
    (foreign / "old" / "file").write_bytes(PRECIOUS)
    rewrite(manifest, lambda members: members.update(state=state, backup=str(foreign), files=[], steps=[]))
    errors: list[KdumpError] = []
    list(finish_repairs(str(partition), on_error=errors.append, backup=str(other)))
    with pytest.raises(KdumpError, match="is no backup of this repair"):
        undo_repair(str(manifest), backup=str(other))
    assert [path.name for path in foreign.rglob("*")] == ["old", "file"]
    assert [error.code for error in errors] == ([] if state == "done" else [Codes.MANIFEST])


@as_root
@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_backup_of_a_namesake_of_another_owner(partition: Path, tmp_path: Path, is_prepared: bool) -> None:
    """Two partitions have one name. The owner of one gives his journal the name of the other one's."""
    other = tmp_path / "other"
    for path in (partition, *partition.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER)
    manifest = begin(partition, backup=str(other))
    (foreign,) = other.iterdir()
    originals = contents(tree(foreign))
    os.chown(foreign, 0, 0)
    if not is_prepared:
        manifest.unlink()
    before = tree(partition)
    errors: list[KdumpError] = []
    list(finish_repairs(str(partition), on_error=errors.append, backup=str(other)))
    assert [error.code for error in errors] == [Codes.REPAIR_REFUSED]
    assert (contents(tree(foreign)), tree(partition)) == (originals, before)
    os.chown(foreign, OTHER_USER, OTHER_USER)
    list(finish_repairs(str(partition), on_error=pytest.fail, backup=str(other)))


# Nothing is finished unasked.


@pytest.mark.parametrize("mode", [RepairMode.LIKE_BROKER, RepairMode.SALVAGE])
def test_a_repair_that_was_begun_is_named(partition: Path, tmp_path: Path, mode: RepairMode) -> None:
    manifest = begin(partition, mode)
    before = tree(partition)
    for words in (["--in-place", f"--{mode.value}"], []):
        run = kdump("repair", *words, "--output", "jsonl", str(partition.parent), cwd=tmp_path)
        assert run.returncode == DAMAGE
        assert tree(partition) == before
    assert json.loads(run.stdout)["unfinished"] == [str(manifest)]
    finished = kdump("repair", "--finish", "--output", "jsonl", str(partition), cwd=tmp_path)
    assert finished.returncode == CLEAN
    assert json.loads(finished.stdout) == {"type": "finished", "path": str(partition), "manifests": [str(manifest)]}
    assert tree(partition) != before


def test_finish_of_what_is_no_directory(partition: Path, tmp_path: Path) -> None:
    assert kdump("repair", "--finish", str(next(partition.glob("*.log"))), cwd=tmp_path).returncode == DAMAGE
    assert kdump("repair", "--finish", "--in-place", str(partition), cwd=tmp_path).returncode == USAGE
    assert kdump("repair", "--finish", cwd=tmp_path).returncode == USAGE


def test_a_link_in_the_place_of_a_snapshot_that_stays(tmp_path: Path) -> None:
    """Salvage gives the snapshots that stay a second name for a moment."""
    partition = tmp_path / "logs" / "t-0"
    partition.mkdir(parents=True)
    for first in (0, 7, 14):
        good = [v2_batch(plain_rows(1), base_offset=first + number) for number in (0, 6)]
        (partition / f"{first:020}.log").write_bytes((bytes(30) if first == 7 else b"").join(good))
    snapshot = partition / f"{7:020}.snapshot"
    snapshot.symlink_to(tmp_path / "file")
    (tmp_path / "file").write_bytes(PRECIOUS)
    before = contents(tree(partition))
    result = kdump("repair", "--in-place", "--salvage", str(partition), cwd=tmp_path)
    assert f"{snapshot}: is a symbolic link".encode() in result.stderr
    assert contents(tree(partition)) == before
    assert (tmp_path / "file").read_bytes() == PRECIOUS


def test_what_was_prepared_goes_and_nothing_else(partition: Path, tmp_path: Path) -> None:
    """Only files in directories that a preparation made."""
    home = partition / HOME
    journal = home / "20260101T000000.000000Z"
    (journal / "new" / "mine").mkdir(parents=True)
    (journal / "new" / "00000000000000000000.index").write_bytes(b"made")
    (journal / "old").symlink_to(tmp_path / "victim")
    (home / "mine").mkdir()
    (home / "mine" / "notes").write_bytes(b"mine")
    before = victims(tmp_path)
    with pytest.raises(KdumpError, match="symbolic link"):
        repair(partition, RepairMode.LIKE_BROKER)
    assert victims(tmp_path) == before
    (journal / "old").unlink()
    repair(partition, RepairMode.LIKE_BROKER)
    assert (home / "mine" / "notes").exists()
    assert [path.name for path in journal.rglob("*")] == ["new", "mine"]


def test_a_repair_that_another_run_takes_back_before_the_lock(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is read again under the lock: the steps would remove the logs that came back."""
    before = tree(partition)
    manifest = begin(partition)
    locked = begun.locked

    def locked_late(directory: str, *, is_forced: bool) -> contextlib.AbstractContextManager[None]:
        monkeypatch.setattr(begun, "locked", locked)
        undo_repair(str(manifest))
        return locked(directory, is_forced=is_forced)

    monkeypatch.setattr(begun, "locked", locked_late)
    finish(partition)
    assert tree(partition) == before
    assert json.loads(manifest.read_bytes())["state"] == "undone"


def test_a_repair_that_another_run_begins_before_the_lock(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other repair is made on top of it."""
    before = tree(partition)
    take = refusals.LockHolder.take_lock

    def take_late(locks: refusals.LockHolder, place: PartitionLocation) -> None:
        monkeypatch.setattr(refusals.LockHolder, "take_lock", take)
        begin(partition)
        take(locks, place)

    monkeypatch.setattr(refusals.LockHolder, "take_lock", take_late)
    with pytest.raises(KdumpError, match="was begun and not finished"):
        repair(partition, RepairMode.LIKE_BROKER)
    (manifest,) = manifests(partition)
    undo_repair(str(manifest))
    assert tree(partition) == before


@pytest.mark.parametrize("name", ["new", "old"])
def test_a_directory_of_the_journal_that_goes_at_once(
    partition: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = tree(partition)
    opened = Folders.open

    def open_late(directory: str, journal: str, backup: str | None) -> Folders:
        (partition / HOME / journal / name).rmdir()
        return opened(directory, journal, backup)

    monkeypatch.setattr(Folders, "open", open_late)
    with pytest.raises(KdumpError) as error:
        repair(partition, RepairMode.LIKE_BROKER)
    assert error.value.code is Codes.REPAIR_REFUSED
    assert tree(partition) == before


@pytest.mark.parametrize("kind", ["missing", "directory", "link"])
def test_a_backup_directory_that_is_exchanged_for_a_link(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What was opened once is not looked up by its name again."""
    other, real, elsewhere = tmp_path / "other", tmp_path / "real", tmp_path / "elsewhere"
    if kind == "link":
        real.mkdir()
        other.symlink_to(real)
    elif kind == "directory":
        other.mkdir()
    opened = Folders.open

    def open_late(*places: Any) -> Folders:
        if kind == "link":
            other.unlink()
        else:
            other.rename(real)
        shutil.copytree(real, elsewhere)
        other.symlink_to(elsewhere)
        return opened(*places)

    with monkeypatch.context() as patch:
        patch.setattr(Folders, "open", open_late)
        options = RepairOptions(RepairMode.LIKE_BROKER, in_place=True, backup=str(other))
        with Repair(options, on_error=pytest.fail) as job:
            list(job.of(resolve(str(partition))))
    assert not [path for path in elsewhere.rglob("*") if path.is_file()]
    (manifest,) = real.glob("*/manifest.json")
    assert any(manifest.parent.glob("old/*"))


def test_a_backup_directory_that_is_exchanged_as_soon_as_it_is_made(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(partition)
    other, elsewhere = tmp_path / "other", tmp_path / "elsewhere"
    elsewhere.mkdir()
    make_directory = disk.make_directory

    def make(where: disk.Where, like: os.stat_result | None = None) -> None:
        make_directory(where, like)
        if where == str(other):
            other.rmdir()
            other.symlink_to(elsewhere)

    monkeypatch.setattr(disk, "make_directory", make)
    options = RepairOptions(RepairMode.LIKE_BROKER, in_place=True, backup=str(other))
    errors: list[KdumpError] = []
    with Repair(options, on_error=errors.append) as job:
        list(job.of(resolve(str(partition))))
    assert [error.code for error in errors] == [Codes.REPAIR_REFUSED]
    assert not list(elsewhere.iterdir())
    assert tree(partition) == before


def test_a_plan_is_shown_where_no_start_can_be_predicted(partition: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("0\n0\n")
    checkpoint = partition.parent / "recovery-point-offset-checkpoint"
    checkpoint.unlink(missing_ok=True)
    checkpoint.symlink_to(tmp_path / "secret")
    shown = kdump("repair", partition.name, cwd=partition.parent)
    assert shown.returncode == UNREADABLE
    assert b"would cut" in shown.stdout
    assert shown.stderr.count(b"recovery-point-offset-checkpoint: a link to ") == 1
    checkpoint.unlink()
    shown = kdump("repair", partition.name, cwd=partition.parent)
    assert shown.returncode == DAMAGE
    assert b"would cut" in shown.stdout
