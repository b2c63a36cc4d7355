"""``kdump repair`` as a process: plans, copies, exit statuses, what it refuses."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from kdump.codes import KdumpError
from kdump.inputs import resolve
from kdump.repair.run import Repair, RepairOptions
from kdump.system.files import like_of
from tests.harness import batches
from tests.harness.acls import GROUP_OF_FILE, MASK, NAMED, OTHERS, USER_OF_FILE, set_acl
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import (
    BATCH,
    CLEAN,
    DAMAGE,
    DAMAGED_BATCH,
    NAME,
    UNREADABLE,
    USAGE,
    kdump,
    kdump_bound_by_modes,
    on_a_terminal,
)
from tests.harness.killedrepairs import build, contents, manifests, tree

SEGMENTS = FIXTURES / "segments"
REPLICA_FIRST = "when another in-sync replica exists, do not repair: move this directory away and let it be fetched"


def rows(offset: int, count: int = 3, **header: int) -> bytes:
    return batches.v2_batch(batches.plain_rows(count), base_offset=offset, **header)


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A segment whose last batch is cut off."""
    return log_of(tmp_path / "t-0", rows(0) + rows(3) + rows(6)[:-5])


@pytest.fixture
def holed(tmp_path: Path) -> Path:
    """A segment with a damaged batch between two good ones."""
    return log_of(tmp_path / "t-0", rows(0) + rows(3, crc=1) + rows(6))


def log_of(directory: Path, data: bytes) -> Path:
    directory.mkdir()
    path = directory / NAME
    path.write_bytes(data)
    return path


def _entry(*, is_07: bool) -> bytes:
    """One good entry."""
    return struct.pack(">ibbI", 7, 1, 0, zlib.crc32(b"v")) + b"v" if is_07 else BATCH


def repair(*words: str | Path, cwd: Path) -> tuple[int, str, str]:
    run = kdump("repair", *map(str, words), cwd=cwd)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


# The plan


def test_plan_of_a_torn_tail(torn: Path, tmp_path: Path) -> None:
    before = contents(tree(torn.parent))
    status, text, errors = repair("t-0", cwd=tmp_path)
    assert (status, errors) == (DAMAGE, "")
    size = len(rows(6)) - 5
    assert f"t-0/{NAME}: would cut {size} bytes at {2 * len(rows(0))}: what is left is no whole batch" in text
    assert "offsets 6..8 lost; would rebuild .index, .timeindex" in text
    assert contents(tree(torn.parent)) == before


def test_plan_shows_both_ways(holed: Path, tmp_path: Path) -> None:
    _, text, _ = repair(holed, cwd=tmp_path)
    table = text.partition("what each mode costs\n")[2].splitlines()
    assert [line.split() for line in table] == [
        ["like-broker", "salvage"],
        ["good", "records", "lost", "3", "0"],
        ["offsets", "lost", "3..8", "3..5"],
        ["segments", "lost", "0", "0"],
        ["bytes", "cut", str(2 * len(rows(3))), str(len(rows(3)))],
        ["log", "end", "offset", "3", "9"],
    ]


def test_plan_names_what_a_flipped_bit_explains(tmp_path: Path) -> None:
    damaged = bytearray(rows(3))
    damaged[-2] ^= 4
    log = log_of(tmp_path / "t-0", rows(0) + damaged + rows(6))
    hint = "--salvage --correct also restores 3 records of damaged batches"
    assert hint in repair(log, cwd=tmp_path)[1]
    assert hint in repair(log, "--salvage", cwd=tmp_path)[1]
    assert "also restores" not in repair(log, "--salvage", "--correct", cwd=tmp_path)[1]


def test_plan_as_json(holed: Path, tmp_path: Path) -> None:
    status, text, _ = repair(holed, "--output", "jsonl", cwd=tmp_path)
    plan = json.loads(text)
    assert status == DAMAGE
    assert (plan["type"], plan["path"], plan["way"], plan["isDone"]) == ("repair", str(holed), "like-broker", False)
    assert plan["losses"]["like-broker"]["offsets"] == [[3, 8]]
    assert plan["losses"]["salvage"] == {
        "bytesCut": len(rows(3)), "records": 0, "batches": 0, "offsets": [[3, 5]], "segments": 0, "endOffset": 9,
    }  # fmt: skip
    (log,) = plan["logs"]
    assert log["dropped"][0]["position"] == len(rows(0))
    holed.write_bytes(rows(0) + rows(2**31 + 5))
    (log,) = json.loads(repair(holed, "--output", "jsonl", cwd=tmp_path)[1])["logs"]
    assert log["failure"]["class"].endswith("LogSegmentOffsetOverflowException")


def test_plan_beside_an_unfinished_repair(torn: Path, tmp_path: Path) -> None:
    assert repair("t-0", "--in-place", cwd=tmp_path)[0] == CLEAN
    assert "was begun" not in repair("t-0", cwd=tmp_path)[1]
    (manifest,) = manifests(torn.parent)
    manifest.write_bytes(manifest.read_bytes().replace(b'"state": "done"', b'"state": "begun"'))
    status, text, _ = repair("t-0", cwd=tmp_path)
    assert status == DAMAGE
    assert re.search(rf"{manifest}: a repair of \w+ \(\d+ steps, 20[\dT:+-]+\) was begun and not finished", text)
    assert json.loads(repair("t-0", "--output", "jsonl", cwd=tmp_path)[1])["unfinished"] == [str(manifest)]
    status, text, errors = repair("t-0", "--in-place", cwd=tmp_path)
    assert (status, text) == (DAMAGE, "")
    assert "was begun and not finished; --finish finishes it, --undo takes it back" in errors
    assert repair("t-0", "--finish", cwd=tmp_path) == (CLEAN, f"t-0: finished what {manifest} began\n", "")
    assert repair("t-0", "--finish", cwd=tmp_path) == (CLEAN, "", "")
    over = torn.parent / ".kdump" / "20261120T120000.000000Z"
    (over / "new").mkdir(parents=True)
    assert repair("t-0", "--finish", cwd=tmp_path) == (CLEAN, "", "")
    assert not over.exists()
    assert json.loads(repair("t-0", "--output", "jsonl", cwd=tmp_path)[1])["unfinished"] == []


def test_plan_of_a_sound_partition(tmp_path: Path) -> None:
    assert repair(SEGMENTS / "v2-txn-0", cwd=tmp_path) == (CLEAN, f"{SEGMENTS / 'v2-txn-0'}: nothing to repair\n", "")


def test_plan_of_a_log_directory(tmp_path: Path) -> None:
    partition = build(tmp_path)
    status, text, _ = repair(partition, cwd=tmp_path)
    assert status == DAMAGE
    assert text.splitlines()[0] == f"{partition}: {REPLICA_FIRST}"
    assert "would remove the segment, which lies after the cut" in text
    assert ".kafka_cleanshutdown: stays; the next start loads the repaired log as it is" in text


def test_indexes_that_are_missing(tmp_path: Path) -> None:
    log_of(tmp_path / "t-0", BATCH)
    status, text, _ = repair("t-0", cwd=tmp_path)
    assert (status, text) == (
        DAMAGE,
        f"t-0/{NAME}: would rebuild .index, .timeindex\n"
        "t-0: the next start loses nothing, with or without the repair; log end offset 3\n",
    )
    assert repair("--in-place", "t-0", cwd=tmp_path)[0] == CLEAN
    assert repair("t-0", cwd=tmp_path)[0] == CLEAN


# Copies


def test_copy_of_a_file(torn: Path, tmp_path: Path) -> None:
    os.utime(torn, ns=(1, 2_000_000_000))
    torn.chmod(0o640)
    assert repair(torn, "-o", "a/b", cwd=tmp_path)[0] == CLEAN
    copy = tmp_path / "a" / "b" / NAME
    assert copy.read_bytes() == rows(0) + rows(3)
    assert (copy.stat().st_mtime_ns, copy.stat().st_mode & 0o777) == (2_000_000_000, 0o640)
    names = {path.name for path in copy.parent.iterdir()}
    assert names == {NAME, f"{0:020}.index", f"{0:020}.timeindex", f"kdump-{NAME}.json"}


def test_copy_of_a_partition(tmp_path: Path) -> None:
    partition = tmp_path / "v2-txn-0"
    shutil.copytree(SEGMENTS / "v2-txn-0", partition)
    assert repair("v2-txn-0", "-o", "out", cwd=tmp_path)[0] == CLEAN
    names = {path.name for path in partition.iterdir()}
    assert {path.name for path in (tmp_path / "out" / "v2-txn-0").iterdir()} == names
    account = json.loads((tmp_path / "out" / "kdump-v2-txn-0.json").read_text())
    assert [log["baseOffset"] for log in account["logs"]] == [0, 105, 201, 297, 397]
    assert all(log["sha256Before"] == log["sha256After"] for log in account["logs"])


def test_copy_of_a_cut_partition_leaves_out_what_is_after(tmp_path: Path) -> None:
    partition = build(tmp_path)
    assert repair(partition, "-o", "out", cwd=tmp_path)[0] == CLEAN
    names = {path.name for path in (tmp_path / "out" / partition.name).iterdir()}
    assert not {name for name in names if name.startswith((f"{201:020}", f"{297:020}", f"{448:020}"))}
    assert (tmp_path / "out" / partition.name / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_nothing_is_written_over(torn: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / NAME).write_bytes(b"mine")
    status, _, errors = repair(torn, "-o", "out", cwd=tmp_path)
    assert status == DAMAGE
    assert errors == f"kdump: out/{NAME}: is there already; give another directory, or --overwrite\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [NAME]
    assert (tmp_path / "out" / NAME).read_bytes() == b"mine"


def test_overwrite_replaces_copies(torn: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / NAME).write_bytes(b"mine")
    (tmp_path / "out" / f"{NAME.removesuffix('.log')}.index").write_bytes(b"mine")
    assert repair(torn, "-o", "out", "--overwrite", cwd=tmp_path)[0] == CLEAN
    assert repair(torn, "-o", "other", cwd=tmp_path)[0] == CLEAN
    for path in (tmp_path / "other").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    assert repair(torn, "-o", "out", "--overwrite", cwd=tmp_path)[0] == CLEAN
    assert repair(torn.parent, "-o", "new", cwd=tmp_path)[0] == CLEAN
    assert repair(torn.parent, "-o", "new", "--overwrite", cwd=tmp_path)[0] == DAMAGE
    assert repair(torn, "--overwrite", cwd=tmp_path)[0] == USAGE


@pytest.mark.parametrize("is_07", [False, True])
def test_a_copy_never_takes_the_place_of_another_copy(tmp_path: Path, *, is_07: bool) -> None:
    """With ``--overwrite`` the copy of the second log replaced that of the first one, with status 0."""
    logs = [tmp_path / folder / ("00000000000000000000.kafka" if is_07 else NAME) for folder in ("a-0", "b-0")]
    for log in logs:
        log.parent.mkdir()
        log.write_bytes(_entry(is_07=is_07) + b"torn")
    logs[1].write_bytes(_entry(is_07=is_07) * 2)
    status, _, errors = repair("--like-broker", *logs, "-o", "out", "--overwrite", cwd=tmp_path)
    assert status == DAMAGE
    assert errors.endswith(": is a copy that this run has made; give another directory\n")
    assert (tmp_path / "out" / logs[0].name).read_bytes() == _entry(is_07=is_07)
    assert repair("--like-broker", logs[1], "-o", "out", "--overwrite", cwd=tmp_path)[0] == CLEAN


@pytest.mark.parametrize("is_07", [False, True])
def test_the_command_that_undoes_quotes_its_path(tmp_path: Path, *, is_07: bool) -> None:
    """A shell takes the name of a directory for a name, whatever it is."""
    log = tmp_path / "a$(id);b c-0" / ("00000000000000000000.kafka" if is_07 else NAME)
    log.parent.mkdir()
    log.write_bytes(_entry(is_07=is_07) + b"torn")
    status, text, _ = repair("--in-place", "--like-broker", log.parent, cwd=tmp_path)
    assert status == CLEAN
    command = text.partition("kdump repair --undo ")[2].partition(" takes it back")[0]
    (path,) = shlex.split(command)
    assert Path(path).is_relative_to(log.parent)
    assert Path(path).is_file()


@pytest.mark.parametrize("is_07", [False, True])
@pytest.mark.parametrize("place", ["", "by-a-link"])
def test_a_copy_never_takes_the_place_of_its_source(tmp_path: Path, place: str, *, is_07: bool) -> None:
    log = tmp_path / "t-0" / ("00000000000000000000.kafka" if is_07 else NAME)
    log.parent.mkdir()
    log.write_bytes(_entry(is_07=is_07) + b"torn")
    (tmp_path / "by-a-link").symlink_to(log.parent)
    before = log.read_bytes()
    output = str(tmp_path / (place or log.parent.name))
    status, _, errors = repair(log, "-o", output, "--overwrite", cwd=tmp_path)
    assert status == DAMAGE
    assert errors == f"kdump: {output}: is a directory of the source; give another one for the copies\n"
    assert log.read_bytes() == before
    assert [path.name for path in log.parent.iterdir()] == [log.name]


def test_a_copy_never_takes_the_place_of_a_replica(torn: Path, tmp_path: Path) -> None:
    replica = tmp_path / "replica"
    replica.mkdir()
    (replica / NAME).write_bytes(torn.read_bytes() + b"more")
    before = (replica / NAME).read_bytes()
    status, _, errors = repair(torn, "--salvage", "--from", "replica", "-o", "replica", "--overwrite", cwd=tmp_path)
    assert status == DAMAGE
    assert "is a directory of the source" in errors
    assert (replica / NAME).read_bytes() == before


def test_an_old_index_beside_a_new_log_goes(torn: Path, tmp_path: Path) -> None:
    stale = tmp_path / "out" / f"{NAME.removesuffix('.log')}.txnindex"
    stale.parent.mkdir()
    stale.write_bytes(b"mine")
    status, _, errors = repair(torn, "-o", "out", cwd=tmp_path)
    assert (status, list(stale.parent.iterdir())) == (DAMAGE, [stale])
    assert errors == f"kdump: out/{stale.name}: is there already; give another directory, or --overwrite\n"
    assert repair(torn, "-o", "out", "--overwrite", cwd=tmp_path)[0] == CLEAN
    assert not stale.exists()


@pytest.mark.parametrize("failing_at", [2, 3])
def test_copies_are_taken_back_when_one_cannot_be_placed(
    torn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_at: int
) -> None:
    """What was there is there again."""
    there = {NAME: b"mine", f"{NAME.removesuffix('.log')}.txnindex": b"stale"}
    (tmp_path / "out").mkdir()
    for name, data in there.items():
        (tmp_path / "out" / name).write_bytes(data)
    replace, placed = os.replace, 0

    def failing(source: str, target: str) -> None:
        nonlocal placed
        placed += 1
        if placed == failing_at:
            raise OSError(errno.ENOSPC, "full", target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    options = RepairOptions(output=str(tmp_path / "out"), overwrites=True)
    with Repair(options, on_error=pytest.fail) as job, pytest.raises(KdumpError, match="full"):
        list(job.of(resolve(str(torn))))
    assert placed > failing_at
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == there


@pytest.mark.parametrize("output", ["new/", "new/./deeper", "new//deeper//", "./new/../other/"])
def test_a_new_directory_by_any_path(torn: Path, tmp_path: Path, output: str) -> None:
    assert repair(torn, "-o", output, cwd=tmp_path)[0] == CLEAN
    assert (tmp_path / output.replace("new/..", ".") / NAME).is_file()
    assert not list(tmp_path.rglob(".kdump-*"))


@pytest.mark.parametrize("place", [".", "new/deeper"])
def test_no_copies_in_a_log_directory(tmp_path: Path, place: str) -> None:
    partition = build(tmp_path)
    before = tree(partition)
    status, _, errors = repair(partition, "-o", partition.parent / place, cwd=tmp_path)
    assert status == DAMAGE
    assert "is the log directory of a broker" in errors
    assert tree(partition) == before


def test_recovery_that_fails(tmp_path: Path) -> None:
    log_of(tmp_path / "t-0", rows(0) + rows(2**31 + 5))
    status, text, _ = repair("t-0", "-o", "out", cwd=tmp_path)
    assert status == DAMAGE
    assert "LogSegmentOffsetOverflowException" in text
    assert "use --salvage" in text
    assert list((tmp_path / "out").iterdir()) == []
    assert repair("t-0", "--in-place", cwd=tmp_path)[0] == DAMAGE


def test_salvaged_copy(holed: Path, tmp_path: Path) -> None:
    assert repair(holed.parent, "--salvage", "-o", "out", cwd=tmp_path)[0] == CLEAN
    run = kdump("verify", "out/t-0", cwd=tmp_path)
    assert run.returncode == CLEAN
    account = json.loads((tmp_path / "out" / "kdump-t-0.json").read_text())
    (log,) = account["logs"]
    assert [piece["origin"] for piece in log["pieces"]] == ["kept", "held", "kept"]
    assert log["lost"] == [{"firstOffset": 3, "lastOffset": 5, "isHeld": True}]
    data = (tmp_path / "out" / "t-0" / NAME).read_bytes()
    assert data.startswith(rows(0))
    assert data.endswith(rows(6))


def test_names_stay(torn: Path, tmp_path: Path) -> None:
    """Of leftovers and of tiered storage; what a broker is about to remove is not repaired in place."""
    left = torn.rename(torn.with_name(f"{NAME}.deleted"))
    assert repair(left, "-o", "out", cwd=tmp_path)[0] == CLEAN
    assert (tmp_path / "out" / NAME).read_bytes() == rows(0) + rows(3)
    status, _, errors = repair(left, "--in-place", cwd=tmp_path)
    assert status == DAMAGE
    assert "about to remove" in errors
    tiered = left.rename(torn.with_name(f"{0:020}-{'A' * 22}.log"))
    for way in ("--like-broker", "--salvage"):
        assert repair(tiered, way, "-o", way, cwd=tmp_path)[0] == CLEAN
        assert (tmp_path / way / tiered.name).read_bytes().startswith(rows(0) + rows(3))


# In place


def test_good_batches_after_damage_ask_for_a_decision(holed: Path, tmp_path: Path) -> None:
    before = contents(tree(holed.parent))
    status, _, errors = repair(holed.parent, "--in-place", cwd=tmp_path)
    assert status == DAMAGE
    assert "good data lie after the damage (3 records, batches: 1); --like-broker cuts them off, --salvage" in errors
    assert contents(tree(holed.parent)) == before
    assert not list(holed.parent.glob(".kdump/*/*"))


def test_a_torn_tail_needs_no_decision(torn: Path, tmp_path: Path) -> None:
    os.utime(torn, ns=(1, 2_000_000_000))
    status, text, _ = repair("t-0", "--in-place", cwd=tmp_path)
    assert status == CLEAN
    assert torn.read_bytes() == rows(0) + rows(3)
    assert torn.stat().st_mtime_ns == 2_000_000_000
    (manifest,) = manifests(torn.parent)
    assert f"to undo: kdump repair --undo {manifest}" in text
    assert repair("t-0", "--in-place", cwd=tmp_path)[:2] == (CLEAN, "t-0: nothing to repair\n")
    assert manifests(torn.parent) == [manifest]


@pytest.mark.parametrize("way", ["--like-broker", "--salvage"])
def test_one_segment_of_several(tmp_path: Path, way: str) -> None:
    partition = build(tmp_path)
    before = tree(partition)
    assert repair(partition / f"{105:020}.log", way, "--in-place", cwd=tmp_path)[0] == CLEAN
    after = contents(tree(partition))
    snapshots = {name for name in after if name.endswith(".snapshot")}
    assert snapshots == {f"v2-txn-0/{offset:020}.snapshot" for offset in (105, 448)}
    assert after["v2-txn-0/leader-epoch-checkpoint"] == before["v2-txn-0/leader-epoch-checkpoint"][0]
    logs = {name for name in after if name.endswith(".log")}
    assert {name for name in logs if after[name] != before[name][0]} == {f"v2-txn-0/{105:020}.log"}
    assert repair("--undo", manifests(partition)[0], cwd=tmp_path)[0] == CLEAN
    assert tree(partition) == before


@pytest.mark.parametrize("way", [["--like-broker"], ["--salvage", "--txn", "leave"]])
def test_undo(tmp_path: Path, way: list[str]) -> None:
    partition = build(tmp_path)
    before = tree(partition)
    assert repair(partition, *way, "--in-place", cwd=tmp_path)[0] == CLEAN
    assert tree(partition) != before
    status, text, _ = repair("--undo", manifests(partition)[0], cwd=tmp_path)
    assert (status, text) == (CLEAN, f"{partition}: is as it was before the repair\n")
    assert tree(partition) == before
    assert repair("--undo", manifests(partition)[0], cwd=tmp_path)[0] == CLEAN


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")
def test_the_manifest_belongs_to_the_broker(torn: Path, tmp_path: Path) -> None:
    for path in (torn.parent, torn):
        os.chown(path, 1234, 2345)
    torn.chmod(0o640)
    assert repair("t-0", "--in-place", cwd=tmp_path)[0] == CLEAN
    (manifest,) = manifests(torn.parent)
    assert (manifest.stat().st_uid, manifest.stat().st_gid, manifest.stat().st_mode & 0o777) == (1234, 2345, 0o640)


def test_undo_is_refused_where_something_was_written(torn: Path, tmp_path: Path) -> None:
    assert repair("t-0", "--in-place", cwd=tmp_path)[0] == CLEAN
    with torn.open("ab") as log:
        log.write(rows(6))
    state = torn.read_bytes()
    status, _, errors = repair("--undo", manifests(torn.parent)[0], cwd=tmp_path)
    assert status == DAMAGE
    assert "was written to since" in errors
    assert torn.read_bytes() == state


def test_symbolic_links_are_not_written_through(torn: Path, tmp_path: Path) -> None:
    state = torn.read_bytes()
    (tmp_path / "u-0").symlink_to(torn.parent)
    (tmp_path / "v-0").mkdir()
    (tmp_path / "v-0" / NAME).symlink_to(torn)
    for name in ("u-0", "v-0"):
        status, _, errors = repair(name, "--in-place", cwd=tmp_path)
        assert status == DAMAGE
        assert "symbolic link" in errors
    assert torn.read_bytes() == state


def test_another_name_of_the_log_keeps_its_end(torn: Path, tmp_path: Path) -> None:
    state = torn.read_bytes()
    os.link(torn, tmp_path / "backup.log")
    assert repair("t-0", "--in-place", cwd=tmp_path)[0] == CLEAN
    assert torn.read_bytes() == rows(0) + rows(3)
    assert (tmp_path / "backup.log").read_bytes() == state


@pytest.mark.parametrize(("source", "made"), [(0o700, 0o700), (0o750, 0o750), (0o777, 0o755), (0o555, 0o755)])
@pytest.mark.parametrize("name", ["t-0", f"t-0/{NAME}"])
def test_directories_of_copies_are_no_more_open_than_the_source(
    torn: Path, tmp_path: Path, name: str, source: int, made: int
) -> None:
    """Files that everybody may read can be protected by their directory alone."""
    os.chown(torn.parent, -1, os.stat(tmp_path).st_gid)
    torn.parent.chmod(source)
    before = os.umask(0o022)
    try:
        assert repair(name, "-o", "new/out", cwd=tmp_path)[0] == CLEAN
    finally:
        os.umask(before)
    (copy,) = (tmp_path / "new").rglob(NAME)
    above = [folder for folder in copy.parents if folder.is_relative_to(tmp_path / "new")]
    assert [folder.stat().st_mode & 0o7777 for folder in above] == [made] * (3 if name == "t-0" else 2)


def test_a_log_that_may_not_be_written_is_replaced(torn: Path, tmp_path: Path) -> None:
    """A repair that could not cut it was begun, and could not be finished."""
    torn.chmod(0o400)
    before = tree(torn.parent)
    assert kdump_bound_by_modes("repair", "t-0", "--in-place", cwd=tmp_path).returncode == CLEAN
    assert (torn.read_bytes(), torn.stat().st_mode & 0o777) == (rows(0) + rows(3), 0o400)
    (manifest,) = manifests(torn.parent)
    assert kdump_bound_by_modes("repair", "--undo", str(manifest), cwd=tmp_path).returncode == CLEAN
    assert tree(torn.parent) == before


def test_backup_elsewhere(tmp_path: Path) -> None:
    partition = build(tmp_path)
    before = tree(partition)
    assert repair(partition, "--salvage", "--in-place", "--backup-dir", "kept", cwd=tmp_path)[0] == CLEAN
    assert not manifests(partition)
    (manifest,) = (tmp_path / "kept").glob("*/manifest.json")
    assert repair("--undo", manifest, cwd=tmp_path)[0] == CLEAN
    assert tree(partition) == before


def test_indexes_of_good_logs_only(tmp_path: Path) -> None:
    partition = build(tmp_path)
    before = contents(tree(partition))
    status, text, _ = repair(partition, "--indexes", "--in-place", cwd=tmp_path)
    assert status == DAMAGE
    assert f"{105:020}.log: the log is damaged: its index files are left as they are" in text
    after = contents(tree(partition))
    changed = {name for name in before if before[name] != after[name]}
    assert changed
    assert all(name.endswith((".index", ".timeindex", ".txnindex")) for name in changed)
    assert not {name for name in changed if f"{105:020}" in name}
    assert (partition.parent / ".kafka_cleanshutdown").exists()


def test_a_name_that_another_segment_has(tmp_path: Path) -> None:
    first = log_of(tmp_path / "t-0", rows(0))
    (first.parent / f"{50:020}.log").write_bytes(rows(50))
    (first.parent / f"{100:020}.log").write_bytes(rows(51) + rows(54))
    before = contents(tree(first.parent))
    assert "refused until one of them is moved away" in repair("t-0", "--salvage", cwd=tmp_path)[1]
    for words in (["--in-place"], ["-o", "out"]):
        status, _, errors = repair("t-0", "--salvage", *words, cwd=tmp_path)
        assert status == DAMAGE
        assert f"would have to be written as {51:020}.log" in errors
    status, _, _ = repair(f"t-0/{100:020}.log", "--salvage", "--in-place", cwd=tmp_path)
    assert status == DAMAGE
    assert contents(tree(first.parent)) == before
    assert repair(f"t-0/{100:020}.log", "--salvage", "-o", "out", cwd=tmp_path)[0] == CLEAN
    assert (tmp_path / "out" / f"{51:020}.log").exists()


@pytest.mark.parametrize("suffix", [".log.swap", ".index.cleaned"])
def test_what_a_broker_was_replacing(torn: Path, tmp_path: Path, suffix: str) -> None:
    """Taking its place would lose it, or a broker would remove what waits beside it."""
    left = torn.with_name(f"{0:020}{suffix}")
    left.write_bytes(rows(0))
    before = contents(tree(torn.parent))
    status, _, errors = repair("t-0", "--salvage", "--in-place", cwd=tmp_path)
    assert status == DAMAGE
    assert f"{left.name}: a broker was replacing segments" in errors
    assert contents(tree(torn.parent)) == before
    assert repair("t-0", "-o", "out", cwd=tmp_path)[0] == CLEAN


@pytest.mark.parametrize("words", [("--in-place",), ("-o", "out"), ("-o", "out", "--salvage")])
def test_two_logs_that_share_a_name(torn: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """They would have the same index files; ``-o`` named a hidden file that existed."""
    torn.with_name(f"{0:020}.a.log").write_bytes(torn.read_bytes())
    before = contents(tree(torn.parent))
    status, _, errors = repair("t-0", *words, cwd=tmp_path)
    assert status == DAMAGE
    assert "up to the dot: move one of them away" in errors
    assert contents(tree(torn.parent)) == before
    assert not (tmp_path / "out").exists()


def test_no_backup_among_the_partitions_of_a_broker(tmp_path: Path) -> None:
    """A directory there that is no partition stops the broker."""
    partition = build(tmp_path)
    before = tree(partition)
    (tmp_path / "link").symlink_to(partition.parent)
    for place in (partition.parent, partition.parent / "kept", tmp_path / "link" / "kept"):
        status, _, errors = repair(partition, "--salvage", "--in-place", "--backup-dir", place, cwd=tmp_path)
        assert status == DAMAGE
        assert "is the log directory of a broker" in errors
    assert tree(partition) == before
    assert {path.name for path in partition.parent.iterdir() if path.is_dir()} == {partition.name}


def test_index_files_that_are_links(torn: Path, tmp_path: Path) -> None:
    index = torn.with_suffix(".index")
    index.symlink_to(tmp_path / "elsewhere")
    status, _, errors = repair("t-0", "--in-place", cwd=tmp_path)
    assert status == DAMAGE
    assert f"{index.name}: is a symbolic link" in errors
    assert index.is_symlink()


def test_rubbish_alone_loses_no_offset(tmp_path: Path) -> None:
    log_of(tmp_path / "t-0", bytes(17))
    text = repair("t-0", cwd=tmp_path)[1]
    assert "would cut 17 bytes at 0" in text
    assert "lost; " not in text
    assert ["offsets", "lost", "none", "none"] in [line.split() for line in text.splitlines()]


# The metadata of a cluster


@pytest.mark.parametrize(("first", "checkpoint", "lost"), [(6, "0 6", False), (8, "1 6", False), (6, "1 6", True)])
def test_empty_segments_of_a_compacted_log(tmp_path: Path, first: int, checkpoint: str, lost: bool) -> None:
    """The log cleaner leaves them: its checkpoint tells, or a next segment that does not begin where its name says."""
    partition = log_of(tmp_path / "t-0", b"").parent
    (partition / f"{3:020}.log").write_bytes(b"")
    (partition / f"{6:020}.log").write_bytes(rows(first))
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\nt {checkpoint}\n")
    text = repair("--salvage", partition, cwd=tmp_path)[1]
    assert ("offsets 0..2 lost" in text) == lost, text
    assert ("offsets 3..5 lost" in text) == lost, text


def test_metadata_are_planned_and_copied_only(tmp_path: Path) -> None:
    log_of(tmp_path / "__cluster_metadata-0", rows(0) + DAMAGED_BATCH)
    status, text, _ = repair("__cluster_metadata-0", cwd=tmp_path)
    assert status == DAMAGE
    assert "fetch them from the other voters, or start from the newest good .checkpoint" in text
    for words in (["--in-place"], ["--salvage"], ["--salvage", "-o", "out"]):
        status, _, errors = repair("__cluster_metadata-0", *words, cwd=tmp_path)
        assert status == DAMAGE
        assert "neither salvaged nor repaired in place" in errors
    assert repair("__cluster_metadata-0", "-o", "out", cwd=tmp_path)[0] == CLEAN


def test_sound_metadata_are_in_nobodys_way(tmp_path: Path) -> None:
    log = log_of(tmp_path / "__cluster_metadata-0", rows(0))
    assert repair(log, "--first-segment", "-o", "out", cwd=tmp_path)[0] == CLEAN
    for index in (tmp_path / "out").glob("*index"):
        shutil.copy(index, log.parent)
    status, text, _ = repair(".", "--salvage", "--output", "jsonl", cwd=tmp_path)
    (piece,) = json.loads(text)["logs"][0]["pieces"]
    assert (status, piece["length"]) == (CLEAN, log.stat().st_size)
    assert repair(".", "--salvage", "--in-place", cwd=tmp_path)[:2] == (
        CLEAN,
        "./__cluster_metadata-0: nothing to repair\n",
    )


def test_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000115-0000000001.checkpoint"
    path.write_bytes(rows(0) + rows(3)[:-1])
    assert repair(path.name, "-o", "out", cwd=tmp_path)[0] == CLEAN
    assert (tmp_path / "out" / path.name).read_bytes() == rows(0)
    assert not list((tmp_path / "out").glob("*index"))
    assert repair(path.name, "--in-place", cwd=tmp_path)[0] == DAMAGE


# The command line


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--unknown", "t-0"],
        ["-o", "out", "--in-place", "t-0"],
        ["--undo", "m", "t-0"],
        ["--undo", "m", "--txn", "leave"],
        ["--undo", "m", "--first-segment"],
        ["--finish", "--undo", "m"],
        ["--finish", "t-0", "--salvage"],
        ["--txn", "maybe", "t-0"],
        ["--backup-dir", "b", "t-0"],
        ["--like-broker", "--correct", "t-0"],
        ["--like-broker", "--salvage", "t-0"],
        ["--indexes", "--hold-offsets", "t-0"],
        ["-o", "", "t-0"],
    ],
)
def test_usage(torn: Path, tmp_path: Path, words: list[str]) -> None:
    assert repair(*words, cwd=tmp_path)[0] == USAGE


def test_several_paths(torn: Path, tmp_path: Path) -> None:
    status, text, errors = repair("missing", "t-0", cwd=tmp_path)
    assert status == UNREADABLE
    assert "would cut" in text
    assert "missing: no such file or directory" in errors
    assert repair("-", cwd=tmp_path)[0] == UNREADABLE


@pytest.mark.slow
def test_on_a_terminal(torn: Path, tmp_path: Path) -> None:
    os.rename(torn.parent, tmp_path / "t\x1b[31m-0")
    shown = on_a_terminal("repair", "t\x1b[31m-0", cwd=tmp_path)
    assert b"\x1b[31m" not in shown
    assert b"would cut" in shown


# A second run, and what no run mends


@pytest.mark.parametrize(("file", "data"), [("leader-epoch-checkpoint", "0\n2\n0 0\n"), ("partition.metadata", "?\n")])
def test_a_text_file_that_a_broker_refuses_stays_and_is_told(torn: Path, tmp_path: Path, file: str, data: str) -> None:
    (torn.parent / file).write_text(data)
    for words in (("-o", "copy"), ("--in-place",), ("--in-place",), ()):
        status, text, errors = repair("t-0", *words, cwd=tmp_path)
        assert (status, errors) == (DAMAGE, "")
        assert f"t-0/{file}: error KD319 text-file" in text
        assert f"t-0/{file}: stays, and no broker loads the partition with it: put the file of another replica" in text
        assert ("move it away" in text) == (file == "leader-epoch-checkpoint")
        assert "nothing to repair" not in text
    assert (torn.parent / file).read_text() == (tmp_path / "copy" / "t-0" / file).read_text() == data
    (left,) = json.loads(repair("t-0", "--output", "jsonl", cwd=tmp_path)[1])["left"]
    assert (os.path.basename(left["path"]), left["code"]) == (file, "KD319")
    assert repair(f"t-0/{NAME}", cwd=tmp_path)[0] == CLEAN
    (torn.parent / file).unlink()
    assert repair("t-0", cwd=tmp_path) == (CLEAN, "t-0: nothing to repair\n", "")


def test_one_salvage_makes_every_txn_index(tmp_path: Path) -> None:
    """The .txnindex of a segment after a repaired one is what the repaired log makes it, at once."""
    shutil.copytree(SEGMENTS / "v2-txn-0", tmp_path / "t-0")
    (tmp_path / "t-0" / "00000000000000000297.log").unlink()
    status, text, _ = repair("t-0", "--in-place", "--salvage", "--txn", "leave", cwd=tmp_path)
    assert status == CLEAN
    assert "00000000000000000397.log: rebuilt .txnindex" in text
    assert repair("t-0", "--in-place", "--salvage", cwd=tmp_path) == (CLEAN, "t-0: nothing to repair\n", "")


@pytest.mark.parametrize("number", [0, 1])
def test_what_the_cleaner_took_after_a_batch_is_not_lost(tmp_path: Path, number: int) -> None:
    """The segment shows nothing of it, the one beside it does."""
    for delta in (2, 7):
        directory = tmp_path / f"t-{delta}"
        directory.mkdir()
        cleaned = [rows(0), rows(10)]
        cleaned[1 - number] = rows(10 * (1 - number), last_offset_delta=delta)
        for base, data in zip((0, 10), cleaned, strict=True):
            (directory / f"{base:020}.log").write_bytes(data)
        (directory / f"{20:020}.log").write_bytes(rows(20))
    lost = (f"{base:020}.log: offsets {base + 3}..{base + 9} lost" for base in (0, 10))
    assert all(line in repair("t-2", "--salvage", cwd=tmp_path)[1] for line in lost)
    assert "lost; held" not in repair("t-7", "--salvage", cwd=tmp_path)[1]


@pytest.mark.parametrize(
    "words",
    [
        ("repair", "--in-place", "--salvage", "--txn", "leave", "logs/v2-txn-0"),
        ("repair", "--in-place", "--like-broker", "--allow-worse-start", "logs/v2-txn-0"),
        ("repair", "logs/v2-txn-0", "-o", "out"),
        ("convert", f"logs/v2-txn-0/{0:020}.log", "-o", "out.log", "--codec", "zstd"),
    ],
    ids=["salvage", "like-broker", "copy", "convert"],
)
def test_nobody_reads_a_copy_whom_an_acl_keeps_from_its_source(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The mode of each source is 640, where the 4 is for another user: the group itself may not read."""
    partition = build(tmp_path)
    sources = [path for path in partition.iterdir() if path.is_file()]
    for path in sources:
        set_acl(path, (USER_OF_FILE, 0o6), (NAMED["user"], 0o4), (GROUP_OF_FILE, 0), (MASK, 0o4), (OTHERS, 0))
    numbers = {path.stat().st_ino for path in sources}
    assert kdump(*words, cwd=tmp_path).returncode == CLEAN
    files = [
        path for path in (*tmp_path.glob("out*"), *tmp_path.glob("out/**/*"), *partition.rglob("*")) if path.is_file()
    ]
    made = [path for path in files if path.stat().st_ino not in numbers and not path.name.startswith("kdump-")]
    assert made
    assert [path for path in made if like_of(str(path)).st_mode & 0o077] == []
