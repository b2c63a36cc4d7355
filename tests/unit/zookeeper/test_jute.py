"""The types of jute."""

from __future__ import annotations

import struct

import pytest

from kdump.codes import DamageError
from kdump.zookeeper.jute import MAX_BUFFER, NO_ACL, AccessRule, JuteReader, RefusedBytesError


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


def test_an_acl_of_the_file_is_read_again_each_time() -> None:
    reader = JuteReader(acl([(1, b"a", b"b")]) + struct.pack(">i", -1))
    rules, none = reader.acl(), reader.acl()
    assert list(rules) == list(rules) == [AccessRule(1, "a", "b")]
    assert AccessRule(1, "a", "b") in rules
    assert AccessRule(2, "a", "b") not in rules
    assert (list(none), len(none), bool(none), list(NO_ACL)) == ([], 0, False, [])


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
    for read in (JuteReader.acl, JuteReader.skip_acl):
        with pytest.raises(error) as caught:
            read(JuteReader(stored))
        assert type(caught.value) is error
