"""Messages of magic 0 and 1 as columns: what is accepted is what the scalar reader reads, and damage is refused."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import DamageError
from kdump.fast import legacymessages
from kdump.fast.legacymessages import read_messages
from kdump.fast.recordtable import RecordGroups
from kdump.format import legacy
from kdump.verify.legacycontents import check_entry
from kdump.wire.compression import DEFAULT_LIMIT
from tests.harness.batches import CODECS, GZIP, LOG_APPEND_TIME, NOW, ZSTD, compress, message, wrapper
from tests.harness.examples import examples

CONTENT = st.none() | st.binary(max_size=30)


@dataclass(frozen=True)
class Seen:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def read(entries: list[bytes]) -> tuple[list[bool], list[list[Seen]], list[RecordGroups]]:
    """Which entries are accepted, the records of each, and the groups of the parts that were read."""
    bounds = np.cumsum([0, *map(len, entries)])
    parts = list(read_messages(memoryview(b"".join(entries)), bounds[:-1], bounds[1:], DEFAULT_LIMIT))
    assert [part.first for part in parts] == [0, *(part.last for part in parts[:-1])]
    assert parts[-1].last == len(entries)
    groups = [part.groups for part in parts]
    return (
        [accepted for part in parts for accepted in part.accepted.tolist()],
        [rows for group in groups for rows in seen(group)],
        groups,
    )


def seen(groups: RecordGroups) -> list[list[Seen]]:
    table = groups.table

    def content(start: int, size: int) -> bytes | None:
        return None if size < 0 else table.arena[start : start + size].tobytes()

    rows = [
        Seen(
            int(table.offset[row]),
            int(table.timestamp[row]),
            content(int(table.key_start[row]), int(table.key_size[row])),
            content(int(table.value_start[row]), int(table.value_size[row])),
        )
        for row in range(table.rows)
    ]
    return [rows[first:last] for first, last in pairwise(groups.bounds.tolist())]


def expected(entry: bytes) -> list[Seen]:
    parsed = legacy.parse_message(memoryview(entry))
    return [
        Seen(record.offset, record.timestamp, record.message.key(), record.message.value())
        for record in legacy.read_records(parsed)
    ]


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    """A plain message, or a wrapper that a producer or a broker writes."""
    magic = draw(st.sampled_from([0, 1]))
    attributes = LOG_APPEND_TIME if magic and draw(st.booleans()) else 0
    offset = draw(st.integers(0, 2**40))
    if draw(st.booleans()):
        return message(magic, offset, draw(CONTENT), draw(CONTENT), timestamp=NOW, attributes=attributes)
    gaps = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    relative = np.cumsum(gaps).tolist()
    base = 0 if magic else offset
    inner = [message(magic, base + at, draw(CONTENT), draw(CONTENT), timestamp=NOW + at) for at in relative]
    last = offset + relative[-1]
    codec = draw(st.sampled_from(CODECS[:3]))
    return wrapper(magic, last, inner, codec, timestamp=NOW + relative[-1], attributes=attributes)


@given(st.lists(entries(), min_size=1, max_size=60), st.sampled_from([1, 100, 300, 8 << 20]))
@examples(60)
def test_sound_entries(sound: list[bytes], arena: int) -> None:
    """In parts with the contents of wrappers up to so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(legacymessages, "_ARENA_SIZE", arena)
        accepted, found, groups = read(sound)
    assert all(accepted)
    assert (len(groups) > 1) >= (arena == 1 and sum(entry[17] & 7 > 0 for entry in sound) > 1)
    assert found == [expected(entry) for entry in sound]
    assert [magic for part in groups for magic in part.magic.tolist()] == [entry[16] for entry in sound]
    assert [codec for part in groups for codec in part.codec.tolist()] == [entry[17] & 7 for entry in sound]


def test_a_wrapper_with_much_in_it_is_left_to_the_scalar_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = message(1, 0, b"k", b"v" * 50)
    sound = [inner, wrapper(1, 0, [inner]), wrapper(1, 1, [inner, message(1, 1, b"k", b"v")])]
    monkeypatch.setattr(legacymessages, "_LARGEST_CONTENT", len(inner))
    assert read(sound)[0] == [True, True, False]


@given(entries(), st.data())
def test_damage_is_refused_or_harmless(entry: bytes, data: st.DataObject) -> None:
    """Damage that no CRC has told of: accepted entries are as the scalar reader has them."""
    at = data.draw(st.integers(16, len(entry) - 1))
    damaged = entry[:at] + bytes([data.draw(st.integers(0, 255))]) + entry[at + 1 :]
    (accepted,), (found,), _ = read([damaged])
    if accepted:
        assert found == expected(damaged)
    else:
        assert not found


MANY = [message(1, number, b"k", b"v" * (number % 7)) for number in range(200)]


@pytest.mark.parametrize("count", [1, 33, 80])
def test_wrappers_side_by_side(count: int) -> None:
    """In lockstep and alone; one broken wrapper does not touch the others."""
    sound = [wrapper(1, 1000 * number + 199 - number, MANY[: 200 - number]) for number in range(count)]
    broken = wrapper(1, 5, [MANY[0], MANY[1][:-1]])
    accepted, found, _ = read([*sound, broken])
    assert accepted == [True] * count + [False]
    assert found == [*map(expected, sound), []]


UNSOUND = {
    "inner crc": wrapper(1, 1, [message(1, 0, None, b"a", crc=1), message(1, 1, None, b"b")]),
    "inner magic": wrapper(1, 1, [message(0, 0, None, b"a"), message(1, 1, None, b"b")]),
    "inner codec": wrapper(1, 1, [message(1, 0, None, b"a", attributes=GZIP), message(1, 1, None, b"b")]),
    "inner offsets": wrapper(1, 1, [message(1, 1, None, b"a"), message(1, 1, None, b"b")]),
    "offset below the inner ones": wrapper(1, 1, [message(1, 7, None, b"a")]),
    "another last offset": wrapper(0, 9, [message(0, 7, None, b"a")]),
    "key of a wrapper": message(1, 0, b"", compress(GZIP, message(1, 0, None, b"a")), attributes=GZIP),
    "inner timestamp type": wrapper(1, 0, [message(1, 0, None, b"a", attributes=LOG_APPEND_TIME)]),
    "left over": wrapper(1, 0, [message(1, 0, None, b"a"), b"\0" * 5]),
    "nothing inside": wrapper(1, 0, []),
    "no payload": message(1, 0, None, b"no gzip", attributes=GZIP),
    "null payload": message(1, 0, None, None, attributes=GZIP),
    "zstd": wrapper(1, 0, [message(1, 0, None, b"a")], ZSTD),
    "size": message(1, 0, b"key", b"value")[:-1],
    "magic": message(1, 0, b"key", b"value")[:16] + b"\x03" + message(1, 0, b"key", b"value")[17:],
}


@pytest.mark.parametrize("entry", UNSOUND.values(), ids=UNSOUND.keys())
def test_refused(entry: bytes) -> None:
    sound = message(1, 0, None, b"sound")
    accepted, found, _ = read([sound, entry, sound])
    assert accepted == [True, False, True]
    assert not found[1]


def test_a_reader_that_is_stricter_than_kafka_has_its_reasons() -> None:
    """What Kafka reads and verify has something to say about goes to the scalar reader."""
    entry = UNSOUND["inner crc"]
    assert expected(entry)
    assert check_entry(memoryview(entry), 0, DEFAULT_LIMIT).findings
    with pytest.raises(DamageError):
        expected(UNSOUND["no payload"])
