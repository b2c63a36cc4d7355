"""A store without a network: a folder behind ``test://bucket`` whose requests are counted, and fail when told to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from kdump.log import stores

fs = pytest.importorskip("pyarrow.fs", reason="paths with a scheme need pyarrow")
pyarrow = pytest.importorskip("pyarrow")

BUCKET = "test://bucket"


class CountingStore(fs.FileSystemHandler):  # type: ignore[misc]
    """Requests as an object store sees them; the ways to change something are not there.

    ``ranges``: (position, bytes that came) of each read. ``listed``, ``opened``, ``asked``: names. ``before_read`` is
    called with a position and may raise.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.local = fs.LocalFileSystem()
        self.ranges: list[tuple[int, int]] = []
        self.listed: list[str] = []
        self.opened: list[str] = []
        self.asked: list[str] = []
        self.before_read: Callable[[int], None] = lambda position: None

    @property
    def bytes_read(self) -> int:
        return sum(count for _, count in self.ranges)

    def get_type_name(self) -> str:
        return "counting"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[Any]:
        self.asked += paths
        return [self._renamed(info) for info in self.local.get_file_info([str(self.root / path) for path in paths])]

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        self.listed.append(selector.base_dir)
        found = self.local.get_file_info(fs.FileSelector(str(self.root / selector.base_dir)))
        return [self._renamed(info) for info in found]

    def open_input_file(self, path: str) -> Any:
        self.opened.append(path)
        if not (self.root / path).is_file():
            raise FileNotFoundError(path)
        return pyarrow.PythonFile(_CountedFile(self, self.root / path), mode="r")

    def _renamed(self, info: Any) -> Any:
        return fs.FileInfo(str(Path(info.path).relative_to(self.root)), type=info.type, size=info.size)

    def _refuse(self, *_: object) -> None:
        raise AssertionError("nothing is ever written")

    move = copy_file = create_dir = delete_file = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    open_input_stream = open_output_stream = open_append_stream = _refuse


class _CountedFile:
    def __init__(self, store: CountingStore, path: Path) -> None:
        self._store = store
        self._path = path
        self._size = path.stat().st_size
        self._position = 0
        self.closed = False

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        self._position = position + (0, self._position, self._size)[whence]
        return self._position

    def read(self, count: int) -> bytes:
        self._store.before_read(self._position)
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read(count)
        self._store.ranges.append((self._position, len(data)))
        self._position += len(data)
        return data

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    """``test://bucket`` is ``tmp_path``."""
    handler = CountingStore(tmp_path)

    def from_uri(uri: str) -> tuple[Any, str]:
        return fs.PyFileSystem(handler), unquote(uri.partition("://")[2].partition("/")[2])

    module = SimpleNamespace(
        FileSystem=SimpleNamespace(from_uri=from_uri), FileSelector=fs.FileSelector, FileType=fs.FileType
    )
    monkeypatch.setattr(stores, "_pyarrow_fs", lambda path=None: module)
    monkeypatch.setattr(stores, "_stores", {})
    return handler
