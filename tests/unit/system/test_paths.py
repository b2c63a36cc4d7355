"""``..`` in a path leads where the system finds it, also after a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kdump
from kdump.system.paths import absolute_path, name_with, normal_path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: ``link`` leads to ``a/b``, and ``x`` is here and in ``a``."""
    for name in ("a/b", "a/x", "x", "c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "a" / "last").symlink_to("x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "path",
    ["link/../x", "./link/../x", "link/../b/../x", "a/link/../../link/../x", "c/../x", "../{}/x", "link/..", ".."],
)
def test_the_system_finds_the_same(root: Path, path: str) -> None:
    (root / "a" / "link").symlink_to("b")
    path = path.format(root.name)
    for found in (absolute_path(path), normal_path(path), absolute_path(str(root / path))):
        assert os.path.samefile(found, path)
        assert os.pardir not in found.split(os.sep) or path.startswith(os.pardir)


def test_a_link_in_the_last_place_stays(root: Path) -> None:
    assert absolute_path("link/../last") == str(root / "a" / "last")
    assert absolute_path("link/../new/file") == str(root / "a" / "new" / "file")
    assert absolute_path("new/../x") == str(root / "x")


@pytest.mark.parametrize("path", ["x", "./x/", "link/./b//c", "../x", "x..", "a/..x", ""])
def test_other_paths_stay(root: Path, path: str) -> None:
    assert absolute_path(path) == os.path.abspath(path)
    assert normal_path(path) == os.path.normpath(path)


@pytest.mark.parametrize("path", ["a\0/../b", "\ud800/../b"])
def test_what_is_no_path(path: str) -> None:
    """What opens it says so; a link cannot be asked for it."""
    assert normal_path(path) == os.path.normpath(path)
    with pytest.raises(kdump.KdumpError):
        list(kdump.scan(path))


@pytest.mark.parametrize("letter", ["t", "ä", "\udcff"])
def test_long_names(tmp_path: Path, letter: str) -> None:
    names = [name_with(letter * count, "before-", "-after") for count in range(1, 256)]
    assert len(set(names)) == len(names)
    for count, name in enumerate(names, 1):
        plain = f"before-{letter * count}-after"
        assert name == plain if len(os.fsencode(plain)) <= 255 else len(os.fsencode(name)) == 255
        assert (name[:7], name[-6:]) == ("before-", "-after")
        (tmp_path / name).touch()


def test_nothing_else_makes_paths_absolute() -> None:
    package = Path(kdump.__file__).parent
    using = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(name in path.read_text() for name in ("os.path.abspath(", "os.path.normpath("))
    ]
    assert using == ["system/paths.py"]
