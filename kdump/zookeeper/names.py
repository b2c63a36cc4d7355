"""The names of the files in a data directory of ZooKeeper.

Source: docs/spec/zookeeper.md#1-the-data-directory.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from kdump.codes import KdumpError
from kdump.log import files
from kdump.log.names import is_uri, parse_partition_directory

VERSION_DIRECTORY: Final = "version-2"
"""The directory in a data directory that holds the files."""
_KINDS: Final = ("log", "snapshot")
_CODECS: Final = ("", "gz", "snappy")
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class ZooKeeperName(NamedTuple):
    """What a name says.

    ``kind``: log or snapshot. ``zxid``: the first one in a log, the last one before a snapshot. ``codec``: '', 'gz' or
    'snappy'.
    """

    kind: str
    zxid: int
    codec: str


def is_own(path: str) -> bool:
    """By its name a snapshot or a log, or a directory of this machine that holds some; see ``world_of_path``.

    A directory with the name of a partition is not looked into.
    """
    name = os.path.basename(path)
    if name == VERSION_DIRECTORY or parse_zookeeper_name(name) is not None:
        return True
    if is_uri(path) or parse_partition_directory(name) is not None or not os.path.isdir(path):
        return False
    try:
        entries = files.listing(path)
    except KdumpError:
        return False
    return any(
        entry.name == VERSION_DIRECTORY or (not entry.is_directory and parse_zookeeper_name(entry.name) is not None)
        for entry in entries
    )


def parse_zookeeper_name(path: str) -> ZooKeeperName | None:
    """What the name of a file says; None where ZooKeeper does not take the file."""
    kind, _, rest = os.path.basename(path).partition(".")
    if kind not in _KINDS:
        return None
    number, _, codec = rest.partition(".")
    if codec not in _CODECS or not 0 < len(number) <= 16 or not _HEX.issuperset(number):
        return None
    return ZooKeeperName(kind, int(number, 16), codec)
