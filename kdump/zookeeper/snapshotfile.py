"""Snapshots of the tree.

Source: docs/spec/zookeeper.md#13-snapshot, docs/spec/zookeeper.md#16-damaged-files.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from zlib import adler32

from kdump.codes import Codes, DamageError, KdumpError
from kdump.zookeeper.datafiles import DataFile
from kdump.zookeeper.jute import Acl, JuteReader
from kdump.zookeeper.tree import OPEN_ACL, ServerRelease, ZNode, ZNodeTree, parent_of

SNAPSHOT_MAGIC: Final = 0x5A4B534E
_SESSION: Final = struct.Struct(">qi")
"""A session: its id and its timeout in ms."""
_SEAL_END: Final = b"\0\0\0\1/"
_LEAST_SIZE: Final = 10
_OPEN_ACL_ID: Final = -1


@dataclass(slots=True)
class TreeSnapshot:
    """What a snapshot holds.

    ``digest``: zxid and digest of the tree when the writing ended (3.6+), None without. ``last_zxid``: the last zxid
    that was processed when the writing began (3.9), None without.
    """

    tree: ZNodeTree
    digest: tuple[int, int] | None = None
    last_zxid: int | None = None


def looks_complete(file: DataFile) -> bool:
    """A server takes the file for a snapshot when it looks for one. Raises as ``open_source``."""
    if file.name.codec:
        return file.has_magic
    tail = file.tail(_LEAST_SIZE)
    return len(tail) == _LEAST_SIZE and tail.endswith(_SEAL_END)


def read_snapshot(file: DataFile, release: ServerRelease) -> TreeSnapshot:
    """The snapshot in a file.

    Raises:
        KdumpError: as ``DataFile.content``; FILE_SIZE, it has more than kdump keeps.
        DamageError: ZOOKEEPER_SNAPSHOT, a server does not take it.
    """
    try:
        data = file.content()
    except DamageError as error:
        raise DamageError(Codes.ZOOKEEPER_SNAPSHOT, error.message) from None
    return parse_snapshot_content(data, release)


def parse_snapshot_content(data: bytes, release: ServerRelease) -> TreeSnapshot:
    """A snapshot of its uncompressed bytes. Raises as ``read_snapshot``."""
    reader = JuteReader(data, code=Codes.ZOOKEEPER_SNAPSHOT)
    magic = reader.integer(4)
    reader.take(12)
    if magic != SNAPSHOT_MAGIC:
        raise DamageError(Codes.ZOOKEEPER_SNAPSHOT, f"mismatching magic headers {magic:x} != {SNAPSHOT_MAGIC:x}")
    tree = ZNodeTree(release)
    tree.sessions = _read_sessions(reader)
    _read_nodes(reader, tree, _read_acls(reader))
    _check_seal(reader)
    found = TreeSnapshot(tree)
    if release >= ServerRelease.V36 and reader.remaining:
        found.digest = _read_digest(reader)
        if found.digest is not None:
            _check_seal(reader)
            found.last_zxid = _read_last_zxid(reader)
    return found


def _read_sessions(reader: JuteReader) -> dict[int, int]:
    """The timeouts (ms) of the sessions by their ids; the last one of an id counts."""
    count = reader.count()
    records = reader.view(count * _SESSION.size)
    reader.keep(count)
    return dict(_SESSION.iter_unpack(records))


def _read_acls(reader: JuteReader) -> dict[int, Acl]:
    """The ACLs by their numbers; the last one of a number counts."""
    acls: dict[int, Acl] = {_OPEN_ACL_ID: OPEN_ACL}
    for _ in range(reader.count()):
        number = reader.integer(8)
        acls[number] = reader.acl()
    return acls


def _read_nodes(reader: JuteReader, tree: ZNodeTree, acls: dict[int, Acl]) -> None:
    while (path := reader.text()) != "/":
        node = ZNode(reader.buffer_or_none(), acls.get(reader.integer(8)))
        node.czxid, node.mzxid = reader.integer(8), reader.integer(8)
        node.ctime, node.mtime = reader.integer(8), reader.integer(8)
        node.version, node.cversion, node.aversion = (reader.integer(4) for _ in range(3))
        node.owner, node.pzxid = reader.integer(8), reader.integer(8)
        if not tree.put(path or "/", node):
            what = f"Invalid Datatree, unable to find parent {parent_of(path)} of path {path}"
            raise DamageError(Codes.ZOOKEEPER_SNAPSHOT, what)


def _check_seal(reader: JuteReader) -> None:
    computed = adler32(memoryview(reader.buffer)[: reader.position])
    if reader.integer(8) != computed:
        raise DamageError(Codes.ZOOKEEPER_SNAPSHOT, "CRC corruption in snapshot")
    reader.text()


def _read_digest(reader: JuteReader) -> tuple[int, int] | None:
    """The digest after the first seal; None where the bytes are too few."""
    try:
        zxid, version = reader.integer(8), reader.integer(4)
        if version < 2:
            reader.text()
            return zxid, 0
        return zxid, reader.integer(8)
    except KdumpError:
        return None


def _read_last_zxid(reader: JuteReader) -> int | None:
    """The zxid after the second seal; None where none is there. Other bytes may follow, which older servers ignore."""
    try:
        zxid = reader.integer(8)
        _check_seal(reader)
    except KdumpError:
        return None
    return zxid
