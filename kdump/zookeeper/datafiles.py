"""The files of a data directory, and their bytes.

Source: docs/spec/zookeeper.md#1-the-data-directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.log import files
from kdump.log.opening import open_source
from kdump.wire.compression import DEFAULT_LIMIT, GZIP, SNAPPY, decompress
from kdump.zookeeper.names import VERSION_DIRECTORY, ZooKeeperName, parse_zookeeper_name

_CODECS: Final = {"gz": GZIP, "snappy": SNAPPY}
_MOST_BYTES: Final = 1 << 30
"""Of a file, which is read whole. A log of 64 MiB is usual."""
_MAGICS: Final = {"gz": b"\x1f\x8b", "snappy": b"\x82SNAPPY\0"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A snapshot or a log. ``limit``: most bytes that come out of a compressed one."""

    path: str
    name: ZooKeeperName
    limit: int = DEFAULT_LIMIT

    @property
    def zxid(self) -> int:
        """The zxid in the name."""
        return self.name.zxid

    @property
    def file_name(self) -> str:
        """Last component of the path."""
        return os.path.basename(self.path)

    @property
    def size(self) -> int:
        """Bytes as they are stored. Raises as ``files.size``."""
        return files.size(self.path)

    def head(self, size: int) -> bytes:
        """The first bytes as they are stored. Raises as ``open_source``."""
        with open_source(self.path) as source:
            return source.read(0, size)

    def tail(self, size: int) -> bytes:
        """The last bytes as they are stored. Raises as ``open_source``."""
        with open_source(self.path) as source:
            length = source.size or 0
            return source.read(max(0, length - size), min(size, length))

    def content(self) -> bytes:
        """All bytes, decompressed.

        Raises:
            KdumpError: as ``open_source``; FILE_SIZE.
            DamageError: the file does not decompress, or to more than ``limit``.
        """
        with open_source(self.path) as source:
            size, most = source.size or 0, max(self.limit, _MOST_BYTES)
            if size > most:
                message = f"has {size:,} bytes, at most {most:,} are read (--max-decompressed-size)"
                raise KdumpError(Codes.FILE_SIZE, message, path=self.path)
            data = source.read(0, size)
        codec = _CODECS.get(self.name.codec)
        return data if codec is None else bytes(decompress(codec, data, magic=2, limit=self.limit))

    @property
    def has_magic(self) -> bool:
        """The file begins as its compression demands; always of one without."""
        magic = _MAGICS.get(self.name.codec, b"")
        return self.head(len(magic)) == magic


@dataclass(frozen=True, slots=True)
class DataSet:
    """The files of one server, each kind in the order of the zxids. ``path``: where they lie."""

    path: str
    snapshots: tuple[DataFile, ...]
    logs: tuple[DataFile, ...]

    @classmethod
    def of(cls, path: str, found: Iterable[DataFile]) -> DataSet:
        """The set of these files."""
        ordered = sorted(found, key=lambda file: (file.zxid, file.path))
        snapshots, logs = ([file for file in ordered if file.name.kind == kind] for kind in ("snapshot", "log"))
        return cls(path, tuple(snapshots), tuple(logs))

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Snapshots, then logs."""
        return self.snapshots + self.logs


def data_sets(paths: Iterable[str], limit: int = DEFAULT_LIMIT) -> list[DataSet]:
    """The sets of files that the PATHs mean, each a data directory or a file by its name.

    A directory with snapshots and logs is a set. All other files are one set: ZooKeeper can have its logs elsewhere.

    Raises:
        KdumpError: MISSING or UNREADABLE.
    """
    sets: list[DataSet] = []
    others: list[DataFile] = []
    place = ""
    for path in dict.fromkeys(paths):
        name = parse_zookeeper_name(path)
        if name is not None and not files.is_directory(path):
            if not files.exists(path):
                raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=path)
            others.append(DataFile(path, name, limit))
            place = place or path
            continue
        folder = _folder(path) or path
        found = DataSet.of(
            path,
            (
                DataFile(os.path.join(folder, entry.name), entry_name, limit)
                for entry in files.listing(folder)
                # What is no regular file is an error once it is opened: none is left out.
                if not entry.is_directory and (entry_name := parse_zookeeper_name(entry.name)) is not None
            ),
        )
        if found.snapshots and found.logs:
            sets.append(found)
        else:
            others += found.files
            place = place or path
    return sets + ([DataSet.of(place, others)] if place else [])


def _folder(path: str) -> str | None:
    """The directory with the files: the path or ``version-2`` in it; None where it has none."""
    entries = files.listing(path)
    if os.path.basename(files.absolute(path)) == VERSION_DIRECTORY or any(
        parse_zookeeper_name(entry.name) is not None and not entry.is_directory for entry in entries
    ):
        return path
    is_inside = any(entry.name == VERSION_DIRECTORY and entry.is_directory for entry in entries)
    return os.path.join(path, VERSION_DIRECTORY) if is_inside else None
