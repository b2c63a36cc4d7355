"""What a directory is: a log directory is never taken for a partition, whatever files somebody put there.

A broker does not start with a directory in its log directory that is no partition, so none is made there, and an undo
leaves none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.kafka.startup.logdirectory import sort_folders
from kdump.verify.logdir import check_directory_names
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, kdump
from tests.harness.killedrepairs import contents, manifests, tree

PARTITION = FIXTURES / "segments" / "v2-txn-0"
LOG = f"{105:020}.log"
COPIED = ["bootstrap.checkpoint", LOG, f"{105:020}.index", f"{105:020}.snapshot", "leader-epoch-checkpoint"]
"""Files that lie, or were copied, into a log directory."""
HOME = ".kdump"


def run(*words: str | Path, cwd: Path) -> tuple[int, str, str]:
    done = kdump(*map(str, words), cwd=cwd)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def put(directory: Path, names: list[str]) -> None:
    for name in names:
        if (PARTITION / name).exists():
            shutil.copy(PARTITION / name, directory)
        else:
            (directory / name).touch()


def damage(partition: Path) -> None:
    log = partition / LOG
    data = bytearray(log.read_bytes())
    data[5000] ^= 0x42
    log.write_bytes(data)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two log directories, ``bad`` and ``good``, with the same partition. Returns ``bad``."""
    for name in ("bad", "good"):
        shutil.copytree(PARTITION, tmp_path / name / PARTITION.name)
    return tmp_path / "bad"


def assert_starts(directory: Path) -> None:
    """No directory in it stops a broker."""
    assert sort_folders([path.name for path in directory.iterdir() if path.is_dir()]).unparsable == []


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, "") for name in COPIED),
        *(
            ("leader-epoch-checkpoint", f".0123456789abcdef0123456789abcdef-{form}")
            for form in ("delete", "future", "stray")
        ),
    ],
)
def test_no_repair_writes_into_a_log_directory(logs: Path, name: str, form: str) -> None:
    put(logs, [name])
    (logs / PARTITION.name).rename(logs / (PARTITION.name + form))
    if form:
        (logs.parent / "good" / PARTITION.name).rename(logs.parent / "good" / (PARTITION.name + form))
    before = contents(tree(logs))
    status, text, errors = run("repair", "--salvage", "--in-place", "--from", "good", "bad", cwd=logs.parent)
    assert text == f"bad/{PARTITION.name}{form}: nothing to repair\n"
    if name.endswith(".log"):
        expected = f"kdump: bad/{name}: lies in a log directory beside the partitions, and belongs to none of them"
        assert (status, errors) == (UNREADABLE, f"{expected}; name it to read it\n")
    else:
        assert (status, errors) == (CLEAN, "")
    assert {path: data for path, data in contents(tree(logs)).items() if Path(path).name != ".lock"} == before
    assert_starts(logs)


def test_the_partitions_of_a_log_directory_are_still_repaired(logs: Path) -> None:
    put(logs, COPIED)
    damage(logs / PARTITION.name)
    words = ("repair", "--salvage", "--in-place", "--from", "good", "bad")
    status, text, _ = run(*words, cwd=logs.parent)
    assert status == UNREADABLE
    assert f"bad/{PARTITION.name}/{LOG}: took offsets" in text
    assert (logs / PARTITION.name / LOG).read_bytes() == (PARTITION / LOG).read_bytes()
    assert not (logs / HOME).exists()
    (manifest,) = manifests(logs / PARTITION.name)
    assert run("repair", "--undo", manifest, cwd=logs.parent)[0] == CLEAN
    assert (logs / PARTITION.name / LOG).read_bytes() != (PARTITION / LOG).read_bytes()
    assert_starts(logs)


@pytest.mark.parametrize("command", ["dump", "verify", "stats"])
def test_files_of_no_partition_are_named_and_not_read(logs: Path, command: str) -> None:
    # With it the directory is a broker's, which lacks other files.
    put(logs, ["bootstrap.checkpoint"])
    alone = run(command, "bad", cwd=logs.parent)
    put(logs, [f"{105:020}.index", "leader-epoch-checkpoint"])
    without = run(command, "bad", cwd=logs.parent)
    assert without[0] == alone[0]
    assert command == "verify" or without == alone
    put(logs, [LOG])
    status, text, errors = run(command, "bad", cwd=logs.parent)
    assert (status, text) == (UNREADABLE, without[1])
    assert errors.startswith(f"kdump: bad/{LOG}: lies in a log directory beside the partitions")
    assert run(command, f"bad/{LOG}", cwd=logs.parent)[0] == CLEAN


def test_a_log_directory_with_the_name_of_a_partition(tmp_path: Path) -> None:
    """Its meta.properties says what it is, also before there are partitions."""
    logs = tmp_path / "data-0"
    logs.mkdir()
    (logs / "meta.properties").write_text("version=1\nnode.id=1\n")
    put(logs, [LOG])
    status, _, errors = run("verify", "data-0", cwd=tmp_path)
    assert status == UNREADABLE
    assert "lies in a log directory" in errors
    (logs / "meta.properties").unlink()
    assert run("verify", "data-0", cwd=tmp_path)[0] == CLEAN


def test_a_copy_is_the_partition_of_that_name_only(tmp_path: Path, logs: Path) -> None:
    """Another partition of the log directory is no copy, and says nothing of what is lost."""
    damage(logs / PARTITION.name)
    (tmp_path / "good" / PARTITION.name).rename(tmp_path / "good" / "other-0")
    before = contents(tree(logs))
    status, _, errors = run("repair", "--salvage", "--in-place", "--from", "good", "bad", cwd=tmp_path)
    assert status == DAMAGE
    assert f"bad/{PARTITION.name}: no directory of --from has a copy of it" in errors
    assert contents(tree(logs)) == before
    status, text, _ = run("repair", "--salvage", "--in-place", "--from", "good/other-0", "bad", cwd=tmp_path)
    assert status == CLEAN
    assert "took offsets" in text


def test_a_log_in_a_log_directory_is_not_repaired_in_place(logs: Path) -> None:
    put(logs, [LOG])
    damage(logs)
    before = contents(tree(logs))
    for backup in ((), ("--backup-dir", "saved")):
        words = ("repair", "--salvage", "--in-place", *backup, f"bad/{LOG}")
        status, _, errors = run(*words, cwd=logs.parent)
        assert status == DAMAGE
        assert f"bad: is a log directory, in which a broker refuses a directory {HOME}" in errors
    assert contents(tree(logs)) == before
    assert not (logs.parent / "saved").exists()
    assert run("repair", "--salvage", "-o", "out", f"bad/{LOG}", cwd=logs.parent)[0] == CLEAN
    assert (logs.parent / "out" / LOG).exists()


def test_a_log_of_kafka_0_7_in_a_log_directory(tmp_path: Path) -> None:
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "logs" / f"{0:020}.kafka").write_bytes(bytes(40))
    status, _, errors = run("repair", "--in-place", "--like-broker", f"logs/{0:020}.kafka", cwd=tmp_path)
    assert status == DAMAGE
    assert "is a log directory" in errors
    assert not (tmp_path / "logs" / HOME).exists()


@pytest.mark.parametrize("way", ["undo", "undo with a backup elsewhere", "undo again", "finish", "finish what began"])
def test_what_earlier_versions_left_in_a_log_directory(tmp_path: Path, logs: Path, way: str) -> None:
    """They repaired the files of a log directory as if it were a partition."""
    taken = tmp_path / "taken"
    shutil.copytree(PARTITION, taken)
    damage(taken)
    backup = ("--backup-dir", "saved") if "backup" in way else ()
    before = {path.name: path.read_bytes() for path in taken.iterdir()}
    assert run("repair", "--salvage", "--in-place", *backup, "taken", cwd=tmp_path)[0] == CLEAN
    if backup:
        (manifest,) = (tmp_path / "saved").glob("*/manifest.json")
        manifest.write_text(manifest.read_text().replace(f'"{taken}"', f'"{logs}"'))
    else:
        (journal,) = manifests(taken)
        manifest = logs / journal.relative_to(taken)
    if way in ("undo again", "finish"):
        assert run("repair", "--undo", journal, cwd=tmp_path)[0] == CLEAN
        assert (taken / HOME).exists()
    if way == "finish what began":
        journal.write_text(journal.read_text().replace('"done"', '"begun"'))
    shutil.copytree(taken, logs, dirs_exist_ok=True)
    assert [finding.path for finding in check_directory_names([HOME])] == [HOME]
    if way == "finish what began":
        status, _, errors = run("repair", "--finish", "bad", cwd=tmp_path)
        assert status == DAMAGE
        assert "can only be undone (--undo)" in errors
    words = ("--finish", "bad") if way == "finish" else ("--undo", manifest, *backup)
    status, _, errors = run("repair", *words, cwd=tmp_path)
    assert (status, errors) == (CLEAN, "")
    assert not (logs / HOME).exists()
    assert_starts(logs)
    assert {name: (logs / name).read_bytes() for name in before} == before


def test_an_undo_keeps_nothing_in_a_log_directory(tmp_path: Path, logs: Path) -> None:
    taken = tmp_path / "taken"
    shutil.copytree(PARTITION, taken)
    damage(taken)
    assert run("repair", "--salvage", "--in-place", "taken", cwd=tmp_path)[0] == CLEAN
    (journal,) = manifests(taken)
    manifest = logs / journal.relative_to(taken)
    shutil.copytree(taken, logs, dirs_exist_ok=True)
    with (logs / LOG).open("ab") as log:
        log.write(b"more")
    status, _, errors = run("repair", "--undo", manifest, "--replace-changed", cwd=tmp_path)
    assert status == DAMAGE
    assert "nothing is kept in a log directory: move it away" in errors
    (logs / LOG).unlink()
    assert run("repair", "--undo", manifest, cwd=tmp_path)[0] == CLEAN
    assert not (logs / HOME).exists()


@pytest.mark.parametrize("marker", ["meta.properties", "bootstrap.checkpoint", ".kafka_cleanshutdown"])
def test_copies_do_not_go_into_a_log_directory(tmp_path: Path, logs: Path, marker: str) -> None:
    (logs / marker).touch()
    before = contents(tree(logs))
    for target in ("bad", "bad/out", f"bad/{PARTITION.name}/out"):
        for source in (f"good/{PARTITION.name}", f"good/{PARTITION.name}/{LOG}"):
            status, _, errors = run("repair", "--salvage", "-o", target, source, cwd=tmp_path)
            assert status == DAMAGE
            assert f"{logs} is the log directory of a broker" in errors
    for target, expected in (("bad/out/", UNREADABLE), ("bad/a/b/", UNREADABLE), ("bad/t-5/", CLEAN)):
        source = f"good/{PARTITION.name}/{LOG}"
        status, _, errors = run("convert", "--to-magic", "2", source, "-o", target, cwd=tmp_path)
        assert status == expected
        assert ("a broker does not start with a directory" in errors) is (expected is UNREADABLE)
    assert {Path(path).parent.name for path in contents(tree(logs)).keys() - before.keys()} == {"t-5"}
    assert_starts(logs)


def test_backups_do_not_go_into_a_log_directory(tmp_path: Path, logs: Path) -> None:
    """Nor into one that the partition does not lie in, nor under the name of a partition into the partition itself."""
    damage(logs / PARTITION.name)
    (tmp_path / "good" / "meta.properties").touch()
    for backup, said in (
        ("good/saved", "is the log directory of a broker"),
        (f"bad/{PARTITION.name}/saved-1", "saved-1 is the name of a partition directory"),
    ):
        words = ("repair", "--salvage", "--in-place", "--backup-dir", backup, f"bad/{PARTITION.name}")
        status, _, errors = run(*words, cwd=tmp_path)
        assert (status, said in errors) == (DAMAGE, True)
    assert_starts(tmp_path / "good")
    words = ("repair", "--salvage", "--in-place", "--backup-dir", f"bad/{PARTITION.name}/saved")
    assert run(*words, f"bad/{PARTITION.name}", cwd=tmp_path)[0] == CLEAN
    assert run("verify", f"bad/{PARTITION.name}", cwd=tmp_path)[0] in (CLEAN, DAMAGE)


def test_diff_takes_a_log_directory_for_one(logs: Path) -> None:
    put(logs, ["bootstrap.checkpoint", f"{105:020}.index", "leader-epoch-checkpoint"])
    status, text, errors = run("diff", "bad", "good", cwd=logs.parent)
    assert (status, errors) == (CLEAN, "")
    assert PARTITION.name in text


def test_a_log_directory_that_holds_a_log_can_be_restored_to(tmp_path: Path, logs: Path) -> None:
    """Only a partition directory is refused."""
    put(logs, [LOG])
    words = ("restore", f"good/{PARTITION.name}", "--topic", "again", "--partition", "0")
    words = (*words, "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--open-transactions", "abort")
    status, _, errors = run(*words, "-o", f"bad/{PARTITION.name}", cwd=tmp_path)
    assert (status, "is a partition directory" in errors) == (DAMAGE, True)
    status, _, errors = run(*words, "-o", "bad", cwd=tmp_path)
    assert (status, errors) == (CLEAN, "")
    assert_starts(logs)


def test_nothing_is_restored_into_a_directory_of_a_log_directory(tmp_path: Path, logs: Path) -> None:
    (logs / "meta.properties").touch()
    before = contents(tree(logs))
    words = ("restore", f"good/{PARTITION.name}", "--topic", "again", "--partition", "0")
    words = (*words, "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--open-transactions", "abort")
    for target in ("bad/nested", f"bad/{PARTITION.name}/nested"):
        status, _, errors = run(*words, "-o", target, cwd=tmp_path)
        assert (status, "lies in the log directory" in errors) == (DAMAGE, True)
    assert contents(tree(logs)) == before
    assert run(*words, "-o", "beside", cwd=tmp_path)[0] == CLEAN


def test_nothing_is_converted_into_what_a_broker_deletes(tmp_path: Path, logs: Path) -> None:
    (logs / "meta.properties").touch()
    target = f"bad/t-5.{'a' * 32}-delete/"
    words = ("convert", "--to-magic", "2", f"good/{PARTITION.name}/{LOG}", "-o")
    status, _, errors = run(*words, target, cwd=tmp_path)
    assert (status, "a broker deletes a directory" in errors) == (UNREADABLE, True)
    assert not (tmp_path / target).exists()
