"""The types of jute."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from kdump.codes import DamageError
from kdump.zookeeper.jute import AccessRule, JuteReader


def acl(rules: list[tuple[int, bytes, bytes]]) -> bytes:
    texts = (
        struct.pack(">i", perms) + b"".join(struct.pack(">i", len(text)) + text for text in (scheme, name))
        for perms, scheme, name in rules
    )
    return struct.pack(">i", len(rules)) + b"".join(texts)


@pytest.mark.parametrize("count", [0, 1, 1024, 1025, 5000])
def test_rules_of_an_acl(count: int) -> None:
    rules = [(number, b"digest", b"user%d" % number) for number in range(count)]
    reader = JuteReader(acl(rules))
    assert list(reader.acl()) == [AccessRule(perms, scheme.decode(), name.decode()) for perms, scheme, name in rules]
    assert not reader.remaining
    with pytest.raises(DamageError):
        JuteReader(acl(rules)[:-1]).acl()


def test_many_rules_take_little_memory() -> None:
    """Each took 110 bytes, and 12 in the file."""
    count = 20_000
    reader = JuteReader(acl([(number + 1000, b"", b"") for number in range(count)]))
    tracemalloc.start()
    try:
        rules = reader.acl()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(rules) == count
    assert held < 50 * count
