"""Transactions of ZooKeeper 3.3 to 3.9.

Source: docs/spec/zookeeper.md#12-transaction-log, docs/spec/zookeeper.md#14-digest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from kdump.codes import Codes, DamageError
from kdump.zookeeper.jute import Acl, JuteReader, RefusedBytesError


class TxnType(IntEnum):
    """The types of transactions."""

    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1
    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21

    @property
    def label(self) -> str:
        """ZooKeeper's name: createSession."""
        first, *others = self.name.lower().split("_")
        return first + "".join(word.upper() if word in ("acl", "ttl") else word.capitalize() for word in others)


CREATES: Final = frozenset({TxnType.CREATE, TxnType.CREATE2, TxnType.CREATE_CONTAINER, TxnType.CREATE_TTL})
DELETES: Final = frozenset({TxnType.DELETE, TxnType.DELETE_CONTAINER})
WRITES: Final = frozenset({TxnType.SET_DATA, TxnType.RECONFIG})

CONTAINER_OWNER: Final = -1 << 63
"""The stored owner of a container."""
_TTL_MASK: Final = -1 << 40
_TTL_OWNER: Final = -1 << 56
"""The stored owner of a TTL node is this and the TTL in ms."""
_DIGEST_SIZE: Final = 12
_DIGEST_VERSION: Final = 2
"""The version whose digest is a number."""


def is_ttl_owner(owner: int) -> bool:
    """The stored owner is that of a TTL node. Session ids that begin with 0xff have other bits set after it."""
    return owner & _TTL_MASK == _TTL_OWNER


@dataclass(slots=True)
class TxnBody:
    """What a transaction does; members that its type does not have are None.

    ``version``: the new version of the data or the ACL, or the version that a check wants. ``parent_cversion``: None
    in a create of ZooKeeper 3.3. ``ephemeral``: the session of the transaction owns the node. ``ttl``, ``timeout``: ms.
    ``closed``: the ephemeral nodes of the session that is closed. ``parts``: the operations of a multi,
    none in one that is an operation itself.
    """

    type: TxnType
    path: str | None = None
    data: bytes | None = None
    acl: Acl | None = None
    version: int | None = None
    ephemeral: bool | None = None
    parent_cversion: int | None = None
    ttl: int | None = None
    timeout: int | None = None
    error: int | None = None
    closed: tuple[str, ...] | None = None
    parts: list[TxnBody] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """It is a multi of which nothing is applied."""
        return any(part.type is TxnType.ERROR for part in self.parts)


@dataclass(slots=True)
class Transaction:
    """One transaction. ``time``: ms since 1970. ``digest``: of the tree after it; None where it has none (3.6+)."""

    session: int
    cxid: int
    zxid: int
    time: int
    body: TxnBody
    digest: int | None = None


def parse_transaction(data: bytes, most: int) -> Transaction:
    """One transaction of its bytes between length and end mark.

    Args:
        data: the bytes.
        most: the bytes of the largest buffer.

    Raises:
        DamageError: ZOOKEEPER_LOG, the bytes are too few.
        RefusedBytesError: ZOOKEEPER_LOG, the type is unknown, or a length is impossible.
    """
    reader = JuteReader(data, code=Codes.ZOOKEEPER_LOG)
    reader.largest = most
    session, cxid = reader.integer(8), reader.integer(4)
    zxid, time = reader.integer(8), reader.integer(8)
    body = _body(reader.integer(4), reader)
    digest = None
    if reader.remaining == _DIGEST_SIZE and reader.integer(4) == _DIGEST_VERSION:
        digest = reader.integer(8)
    return Transaction(session, cxid, zxid, time, body, digest)


def _body(number: int, reader: JuteReader, *, is_part: bool = False) -> TxnBody:
    """``is_part``: of a multi. No server reads the operations of a multi that is one itself."""
    try:
        kind = TxnType(number)
    except ValueError:
        # The words of ZooKeeper.
        raise RefusedBytesError(Codes.ZOOKEEPER_LOG, f"Unsupported Txn with type=%d{number}") from None
    body = TxnBody(kind)
    if kind in CREATES:
        _read_create(body, reader)
    elif kind in DELETES:
        body.path = reader.text()
    elif kind in WRITES:
        body.path, body.data, body.version = reader.text(), reader.buffer_or_none(), reader.integer(4)
    elif kind is TxnType.SET_ACL:
        body.path, body.acl, body.version = reader.text(), reader.acl(), reader.integer(4)
    elif kind is TxnType.CHECK:
        body.path, body.version = reader.text(), reader.integer(4)
    elif kind is TxnType.CREATE_SESSION:
        body.timeout = reader.integer(4)
    elif kind is TxnType.CLOSE_SESSION:
        body.closed = _closed(reader)
    elif kind is TxnType.ERROR:
        body.error = reader.integer(4)
    elif kind is TxnType.MULTI and not is_part:
        for _ in range(reader.count()):
            number = reader.integer(4)
            part = JuteReader(reader.buffer_or_none() or b"", code=Codes.ZOOKEEPER_LOG)
            body.parts.append(_body(number, part, is_part=True))
    return body


def _read_create(body: TxnBody, reader: JuteReader) -> None:
    body.path, body.data, body.acl = reader.text(), reader.buffer_or_none(), reader.acl()
    if body.type in (TxnType.CREATE, TxnType.CREATE2):
        body.ephemeral = reader.boolean()
    # ZooKeeper 3.3 has no more after it.
    body.parent_cversion = reader.integer(4) if reader.remaining >= 4 else None
    if body.type is TxnType.CREATE_TTL:
        body.ttl = reader.integer(8)


def _closed(reader: JuteReader) -> tuple[str, ...] | None:
    """The paths of a closed session. Before 3.6 there are none: bytes that are no vector are a digest, or nothing."""
    start = reader.position
    try:
        return tuple(reader.text() for _ in range(reader.count()))
    except DamageError:
        reader.position = start
        return None
