"""Snapshots of the tree.

Source: docs/spec/zookeeper.md#13-snapshot, docs/spec/zookeeper.md#16-damaged-files.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final
from zlib import adler32

from kdump.codes import Codes, DamageError, KdumpError
from kdump.zookeeper.datafiles import DataFile
from kdump.zookeeper.jute import Acl, JuteReader
from kdump.zookeeper.sessions import SESSION, Sessions
from kdump.zookeeper.tree import OPEN_ACL, ServerRelease, ZNode, ZNodeTree, parent_of

SNAPSHOT_MAGIC: Final = 0x5A4B534E
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
        KdumpError: as ``DataFile.content``.
        DamageError: ZOOKEEPER_SNAPSHOT, a server does not take it.
    """
    try:
        data = file.content()
    except DamageError as error:
        raise DamageError(Codes.ZOOKEEPER_SNAPSHOT, error.message) from None
    return parse_snapshot_content(data, release)


def parse_snapshot_content(data: bytes, release: ServerRelease) -> TreeSnapshot:
    """A snapshot of its uncompressed bytes; DamageError as ``read_snapshot``."""
    reader = JuteReader(data, code=Codes.ZOOKEEPER_SNAPSHOT)
    magic = reader.integer(4)
    reader.take(12)
    if magic != SNAPSHOT_MAGIC:
        raise DamageError(Codes.ZOOKEEPER_SNAPSHOT, f"mismatching magic headers {magic:x} != {SNAPSHOT_MAGIC:x}")
    tree = ZNodeTree(release)
    tree.sessions = Sessions(reader.view(reader.count() * SESSION.size))
    acls = _StoredAcls(reader)
    _read_nodes(reader, tree, acls)
    _check_seal(reader)
    found = TreeSnapshot(tree)
    if release >= ServerRelease.V36 and reader.remaining:
        found.digest = _read_digest(reader)
        if found.digest is not None:
            _check_seal(reader)
            found.last_zxid = _read_last_zxid(reader)
    return found


class _StoredAcls:
    """The ACLs of a snapshot: their numbers, and where they lie. There may be millions that no node has.

    Args:
        reader: is moved over them.
    """

    def __init__(self, reader: JuteReader) -> None:
        self._buffer = reader.buffer
        self._numbers, self._starts, self._ends = array("q"), array("q"), array("q")
        for _ in range(reader.count()):
            self._numbers.append(reader.integer(8))
            self._starts.append(reader.position)
            reader.skip_acl()
            self._ends.append(reader.position)

    def of(self, wanted: frozenset[int]) -> dict[int, Acl]:
        """Those of these numbers that are there. The last one of a number counts."""
        places = {
            number: (start, end)
            for number, start, end in zip(self._numbers, self._starts, self._ends, strict=True)
            if number in wanted
        }
        found = {number: Acl(bytes(self._buffer[start:end])) for number, (start, end) in places.items()}
        return {_OPEN_ACL_ID: OPEN_ACL} | found


def _read_nodes(reader: JuteReader, tree: ZNodeTree, acls: _StoredAcls) -> None:
    nodes: list[ZNode] = []
    numbers = array("q")
    while (path := reader.text()) != "/":
        node = ZNode(reader.buffer_or_none(), None)
        nodes.append(node)
        numbers.append(reader.integer(8))
        node.czxid, node.mzxid = reader.integer(8), reader.integer(8)
        node.ctime, node.mtime = reader.integer(8), reader.integer(8)
        node.version, node.cversion, node.aversion = (reader.integer(4) for _ in range(3))
        node.owner, node.pzxid = reader.integer(8), reader.integer(8)
        if not tree.put(path or "/", node):
            what = f"Invalid Datatree, unable to find parent {parent_of(path)} of path {path}"
            raise DamageError(Codes.ZOOKEEPER_SNAPSHOT, what)
    found = acls.of(frozenset(numbers))
    for node, number in zip(nodes, numbers, strict=True):
        node.acl = found.get(number)


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
