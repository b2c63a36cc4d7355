"""The types of jute."""

from __future__ import annotations

import struct

import pytest

from kdump.codes import DamageError
from kdump.zookeeper.jute import MAX_BUFFER, AccessRule, JuteReader, RefusedBytesError


def acl(rules: list[tuple[int, bytes, bytes]]) -> bytes:
    texts = (
        struct.pack(">i", perms) + b"".join(struct.pack(">i", len(text)) + text for text in (scheme, name))
        for perms, scheme, name in rules
    )
    return struct.pack(">i", len(rules)) + b"".join(texts)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_rules_of_an_acl(count: int) -> None:
    rules = [(number, b"digest", b"user%d" % number) for number in range(count)]
    reader = JuteReader(acl(rules))
    assert list(reader.acl()) == [AccessRule(perms, scheme.decode(), name.decode()) for perms, scheme, name in rules]
    assert not reader.remaining
    with pytest.raises(DamageError):
        JuteReader(acl(rules)[:-1]).acl()


@pytest.mark.parametrize(
    ("stored", "error"),
    [
        (struct.pack(">iiii", 1, 31, -2, 0), RefusedBytesError),
        (struct.pack(">iiii", 1, 31, 0, 2 * MAX_BUFFER + 1), RefusedBytesError),
        (struct.pack(">iiii", 1, 31, 0, 1), DamageError),
        (struct.pack(">iiii", 2, 31, 0, 0), DamageError),
    ],
)
def test_an_acl_that_is_no_acl(stored: bytes, error: type[DamageError]) -> None:
    with pytest.raises(error) as caught:
        JuteReader(stored).acl()
    assert type(caught.value) is error
