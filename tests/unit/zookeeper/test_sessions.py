"""The sessions of a tree against a dict, and what they take."""

from __future__ import annotations

import random

import pytest

from kdump.zookeeper.sessions import SESSION, Sessions


def records(pairs: list[tuple[int, int]]) -> bytes:
    return b"".join(SESSION.pack(*pair) for pair in pairs)


@pytest.mark.parametrize("seed", range(10))
def test_sessions_are_as_those_of_a_dict(seed: int) -> None:
    """Some ids come twice in the snapshot, some sessions open again, some that close are not there."""
    chance = random.Random(seed)
    ids = [chance.randrange(-(1 << 63), 1 << 63) for _ in range(20)] + [-1, 0, 1, -(1 << 63), (1 << 63) - 1]
    pairs = [(chance.choice(ids), chance.randrange(-(1 << 31), 1 << 31)) for _ in range(chance.randrange(40))]
    expected, sessions = dict(pairs), Sessions(records(pairs))
    for _ in range(chance.randrange(60)):
        session = chance.choice(ids)
        if chance.random() < 0.5:
            expected[session] = sessions[session] = chance.randrange(100)
        else:
            expected.pop(session, None)
            sessions.close(session)
        assert len(sessions) == len(expected)
    assert list(sessions.items()) == sorted(expected.items())
