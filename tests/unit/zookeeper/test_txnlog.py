"""Transactions after damage: each byte of a log is looked at a few times only, whatever the bytes claim."""

from __future__ import annotations

import struct
from zlib import adler32

import pytest

from kdump.wire import rangeadler
from kdump.zookeeper import txnlog
from kdump.zookeeper.transactions import TxnType
from kdump.zookeeper.tree import ServerRelease
from kdump.zookeeper.txnlog import EndKind, TxnLog

HEAD = struct.pack(">iiq", txnlog.LOG_MAGIC, 2, 0)


def entry(content: bytes) -> bytes:
    return struct.pack(">qi", adler32(content), len(content)) + content + b"B"


def create_session(zxid: int) -> bytes:
    return entry(struct.pack(">qiqqii", 1, 0, zxid, 0, -10, 1000))


def later(log: TxnLog) -> list[int]:
    assert [one.transaction.zxid for one in log.entries()] == [1]
    assert log.end.kind is not EndKind.COMPLETE
    return [one.transaction.zxid for one in log.later_entries()]


def test_transactions_after_damage_are_found() -> None:
    unknown = entry(struct.pack(">qiqqi", 1, 0, 3, 0, 99) + create_session(7))
    data = HEAD + create_session(1) + b"damage" + create_session(2) + unknown + create_session(4) + bytes(50)
    # What lies within a transaction of an unknown type is its content.
    assert later(TxnLog(data, ServerRelease.V36)) == [2, 4]


def test_a_multi_in_a_multi_is_not_looked_into() -> None:
    """Thousands of them, each in another one, ended in a RecursionError."""
    body = b""
    for _ in range(3000):
        body = struct.pack(">iii", 1, 14, len(body)) + body
    (one,) = TxnLog(HEAD + entry(struct.pack(">qiqqi", 1, 0, 5, 0, 14) + body), ServerRelease.V36).entries()
    (part,) = one.transaction.body.parts
    assert part.type is TxnType.MULTI
    assert not part.parts


def test_lengths_that_lie_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each 12 bytes claim a transaction of 100,000 bytes with a right end mark."""
    hashed = 0

    def counted(data: memoryview) -> int:
        nonlocal hashed
        hashed += len(data)
        return adler32(data)

    monkeypatch.setattr(rangeadler, "adler32", counted)
    monkeypatch.setattr(txnlog, "adler32", counted)
    claim = struct.pack(">q4s", 0x42424242, struct.pack(">i", 100_000 // 12 * 12 - 8))
    data = HEAD + create_session(1) + b"damage" + claim * 20_000 + create_session(5)
    assert data[len(HEAD) + 49 + 6 + 12 + 100_000 // 12 * 12 - 8] == 0x42
    assert later(TxnLog(data, ServerRelease.V36)) == [5]
    assert hashed < 3 * 1024 * 20_000
