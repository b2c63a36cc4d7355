"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kdump.system.files import (
    NewFile,
    discard,
    discard_others,
    give_to,
    like_of,
    make_directories,
    publish,
    remove_empty,
    written_by,
)
from tests.harness.acls import GROUP_OF_FILE, MASK, NAMED, OTHERS, USER_OF_FILE, set_acl


def test_nothing_is_in_place_before_it_is_published(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"before")
    file = NewFile(str(target))
    file.write(b"af")
    file.write(memoryview(bytearray(b"ter")))
    staged = file.finish()
    assert file.size == 5
    assert target.read_bytes() == b"before"
    assert Path(staged.temporary).parent == tmp_path
    assert Path(staged.temporary).name.startswith(".")
    publish([staged])
    assert target.read_bytes() == b"after"
    assert os.listdir(tmp_path) == ["x"]


def test_permissions_are_the_user_s(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        publish([NewFile(str(tmp_path / "x")).finish()])
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("named", "mode"),
    [({}, 0o604), ({"user": 0o7}, 0o604), ({"user": 0}, 0o600), ({"group": 0o2}, 0o600)],
    ids=["group", "more", "less", "another group"],
)
def test_a_copy_gives_nobody_more_than_the_acl_of_its_source(tmp_path: Path, named: dict[str, int], mode: int) -> None:
    """The mode of the source has the mask in the place of its group."""
    source = tmp_path / "source"
    source.touch()
    entries = [(USER_OF_FILE, 0o6), (GROUP_OF_FILE, 0), (MASK, 0o4), (OTHERS, 0o4)]
    set_acl(source, *entries, *((NAMED[kind], rights) for kind, rights in named.items()))
    status = source.stat()
    assert (status.st_mode & 0o777, like_of(str(source)).st_mode & 0o777) == (0o644, mode)
    assert like_of(str(source)).st_mtime_ns == status.st_mtime_ns
    publish([NewFile(str(tmp_path / "copy"), like_of(str(source))).finish()])
    assert (tmp_path / "copy").stat().st_mode & 0o777 == mode


def test_a_copy_takes_no_acl_from_its_directory(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.touch(0o640)
    entries = (USER_OF_FILE, 0o7), (NAMED["user"], 0o7), (GROUP_OF_FILE, 0o7), (MASK, 0o7), (OTHERS, 0)
    (tmp_path / "out").mkdir()
    set_acl(tmp_path / "out", *entries, is_default=True)
    publish([NewFile(str(tmp_path / "out" / "copy"), like_of(str(source))).finish()])
    assert not os.listxattr(tmp_path / "out" / "copy")
    publish([NewFile(str(tmp_path / "out" / "other")).finish()])
    assert os.listxattr(tmp_path / "out" / "other")


def test_discarding(tmp_path: Path) -> None:
    file = NewFile(str(tmp_path / "x"))
    file.write(b"data")
    file.discard()
    assert not os.listdir(tmp_path)
    staged = NewFile(str(tmp_path / "x")).finish()
    discard([staged])
    discard([staged])
    assert not os.listdir(tmp_path)


def test_what_a_run_has_left_goes(tmp_path: Path) -> None:
    with written_by("one"):
        kept, left = NewFile(str(tmp_path / "x")).finish(), NewFile(str(tmp_path / "x")).finish()
    with written_by("other"):
        other = NewFile(str(tmp_path / "x")).finish()
    plain = NewFile(str(tmp_path / "x.one.kdump-part")).finish()
    publish([plain])
    discard_others([str(tmp_path)], "one", [kept])
    names = {Path(file.temporary).name for file in (kept, other)} | {"x.one.kdump-part"}
    assert set(os.listdir(tmp_path)) == names
    assert Path(left.temporary).name not in names


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        NewFile(str(tmp_path / "no" / "x"))
    assert str(tmp_path / "no") in str(missing.value.filename)
    file = NewFile(str(tmp_path / "x"))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file.descriptor)
    os.close(full)
    with pytest.raises(OSError, match="No space left") as failed:
        file.write(b"data")
    assert failed.value.filename == str(tmp_path / "x")
    file.discard()


def test_directories(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    made = make_directories(str(inner))
    assert made == [str(inner), str(inner.parent), str(inner.parent.parent)]
    assert make_directories(str(inner)) == []
    (tmp_path / "a" / "kept").write_bytes(b"")
    remove_empty(made)
    assert os.listdir(tmp_path / "a") == ["kept"]
    with pytest.raises(OSError, match="Not a directory"):
        make_directories(str(tmp_path / "a" / "kept" / "x"))


@pytest.mark.parametrize(("like", "mode"), [(0o777, 0o755), (0o755, 0o755), (0o750, 0o700), (0o705, 0o705), (0, 0o700)])
def test_another_group_may_enter_what_all_others_may(tmp_path: Path, like: int, mode: int) -> None:
    before = os.umask(0o022)
    try:
        source = os.stat_result((like, 0, 0, 0, 0, os.stat(tmp_path).st_gid + 1, 0, 0, 0, 0))
        make_directories(str(tmp_path / "new"), source)
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o7777 == mode


def test_an_error_names_the_directory_whose_mode_cannot_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, mode: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(OSError, match="No space left") as caught:
        make_directories(str(tmp_path / "new"), os.stat(tmp_path))
    assert caught.value.filename == str(tmp_path / "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("failing", range(4))
@pytest.mark.parametrize("has_links", [True, False])
def test_a_rename_that_fails_takes_the_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, has_links: bool
) -> None:
    """What was there is there again, what was not is gone; the new files can still be discarded."""
    (tmp_path / "a").write_bytes(b"old a")
    (tmp_path / "stale").write_bytes(b"old stale")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    staged = []
    for name in ("a", "b", "c"):
        file = NewFile(str(tmp_path / name))
        file.write(b"new")
        staged.append(file.finish())
    replace, unlink, calls = os.replace, os.unlink, 0

    def fails(source: str) -> None:
        nonlocal calls
        calls += 1
        if calls == failing + 1:
            raise OSError(28, "No space left on device", source)

    def failing_replace(source: str, target: str) -> None:
        fails(source)
        replace(source, target)

    def failing_unlink(path: str) -> None:
        fails(path)
        unlink(path)

    def no_link(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing_replace)
        patch.setattr(os, "unlink", failing_unlink)
        if not has_links:
            patch.setattr(os, "link", no_link)
        if has_links or failing < 3:
            with pytest.raises(OSError, match="No space left"):
                publish(staged, [str(tmp_path / "stale")])
            discard(staged)
            expected = before
        else:
            publish(staged, [str(tmp_path / "stale")])
            expected = dict.fromkeys("abc", b"new")
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    if has_links or failing < 3:
        assert found == expected
    else:
        assert expected.items() <= found.items()


def test_what_is_replaced_or_removed_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "stale").write_bytes(b"old")
    publish([NewFile(str(tmp_path / "a")).finish()], [str(tmp_path / "stale"), str(tmp_path / "missing")])
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", ["directory", "pipe", "link to a device"])
def test_only_a_regular_file_is_replaced(kind: str, tmp_path: Path) -> None:
    """As root a device was replaced by a file, and a directory got a hidden name."""
    place = tmp_path / "x"
    if kind == "directory":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(os.devnull)
    before = place.lstat()
    with pytest.raises(OSError, match="Is a directory" if kind == "directory" else "is no regular file"):
        NewFile(str(place))
    assert os.listdir(tmp_path) == ["x"]
    after = place.lstat()
    # Not the time of access: it changes when a link is followed.
    assert (after.st_ino, after.st_mode, after.st_ctime_ns) == (before.st_ino, before.st_mode, before.st_ctime_ns)


def test_what_comes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    file = NewFile(str(tmp_path / "x"))
    staged = file.finish()
    (tmp_path / "x").mkdir()
    with pytest.raises(IsADirectoryError):
        publish([staged])
    assert (tmp_path / "x").is_dir()
    discard([staged])
    assert os.listdir(tmp_path) == ["x"]


def test_who_may_give_a_file_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    like = tmp_path.stat()

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with (tmp_path / "file").open("wb") as file:
        give_to(file.fileno(), like)
        monkeypatch.setattr(os, "fchown", refused)
        monkeypatch.setattr(os, "geteuid", lambda: 4_000_001)
        with pytest.raises(PermissionError, match=r"user 4000001 may not give it to user .*: run kdump as root, or as"):
            give_to(file.fileno(), like)
