"""Snapshots that a start takes and reads again: those that share their entries, and those that are written whole."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random

import pytest

from kdump.format.batch import MAX_INT32, parse_header
from kdump.format.snapshot import ProducerEntry, parse_snapshot
from kdump.kafka.startup import sharedsnapshots
from kdump.kafka.startup.content import Content
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.loading import LoadSettings
from kdump.kafka.startup.names import file_name
from kdump.kafka.startup.outcome import Start
from kdump.kafka.startup.sharedsnapshots import RecordedStates, SharedSnapshot
from kdump.kafka.startup.start import start
from tests.harness.batches import CONTROL, NOW, TRANSACTIONAL, plain_rows, v2_batch
from tests.harness.entrycounts import counted_entries

UNCLEAN = LoadSettings(False, max_index_size=1000, now=NOW)
DAY = 86_400_000
ALWAYS, NEVER = 0, 1 << 40
"""Values of _LEAST_SHARE: snapshots always share their entries, and never."""


def batch(offset: int, producer_id: int, timestamp: int = NOW, attributes: int = TRANSACTIONAL) -> bytes:
    header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "attributes": attributes}
    return v2_batch(plain_rows(1), base_offset=offset, base_timestamp=timestamp, **header)


def marker(offset: int, producer_id: int, timestamp: int, epoch: int) -> bytes:
    row = replace(plain_rows(1)[0], key=struct.pack(">hh", 0, 1), value=struct.pack(">hi", 0, 0))
    header = {"producer_id": producer_id, "producer_epoch": epoch, "attributes": TRANSACTIONAL | CONTROL}
    return v2_batch([row], base_offset=offset, base_timestamp=timestamp, **header)


def of_logs(logs: dict[int, bytes], *, are_indexed: bool = True) -> Directory:
    files = {file_name(base, ".log"): Content.of_bytes(data) for base, data in logs.items()}
    if are_indexed:
        files |= {file_name(base, ".index"): Content.of_bytes(b"") for base in logs}
    return Directory("t-0", files)


def started(chance: Random) -> tuple[Start, dict[str, bytes]]:
    """A start of a random partition: transactions of many producers, ended and open, some of them a day old."""
    logs: dict[int, bytes] = {}
    offset = 0
    for _ in range(chance.randrange(2, 9)):
        base, log = offset, b""
        for _ in range(chance.randrange(6)):
            # They lie in few buckets of a hash map.
            producer_id = 32 * chance.choice((chance.randrange(4), chance.randrange(60)))
            timestamp = NOW - chance.choice((0, 0, 0, 2 * DAY))
            kind = chance.randrange(8)
            if kind < 3:
                log += marker(offset, producer_id, timestamp, chance.randrange(2))
            else:
                log += batch(offset, producer_id, timestamp, TRANSACTIONAL if kind < 6 else 0)
            # Two batches of one offset: two transactions may begin there.
            offset += chance.choice((0, 1, 1, 1, 1, 5))
        logs[base] = log + bytes(chance.choice((0, 0, 0, 0, 0, 9)))
        offset += chance.choice((1, 2, 9))
    found = of_logs(logs, are_indexed=chance.random() < 0.5)
    point = chance.choice((0, 0, chance.randrange(offset)))
    result = start(found, UNCLEAN._replace(is_clean=chance.random() < 0.2, recovery_point=point))
    return result, {name: found.read(name) for name in found.names()}


@pytest.mark.parametrize("seed", range(150))
def test_a_start_leaves_the_same_files(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for least in (NEVER, ALWAYS, 4):
        monkeypatch.setattr(sharedsnapshots, "_LEAST_SHARE", least)
        results.append(started(Random(seed)))
    assert results[1] == results[0]
    assert results[2] == results[0]


@pytest.mark.parametrize("step", [1, MAX_INT32 + 1])
@pytest.mark.parametrize("dead", [range(0), range(50, 200)])
def test_snapshots_of_many_segments_cost_what_changed(dead: range, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment has a new producer; every snapshot had all of them, and each was read for the next segment.

    Those of ``dead`` are a day old, so that a reader leaves them out.
    """
    counts = counted_entries(monkeypatch)
    count = 200
    found = of_logs(
        {
            number * step: batch(number * step, number, *((NOW - DAY, 0) if number in dead else ()))
            for number in range(count)
        }
    )
    assert start(found, UNCLEAN).failure is None
    assert counts.total() < 4 * count
    monkeypatch.undo()
    last = found.read(file_name((count - 1) * step + 1, ".snapshot"))
    assert {entry.producer_id for entry in parse_snapshot(last)} - {*dead} == {*range(count)} - {*dead}
    middle = found.read(file_name(100 * step, ".snapshot"))
    assert {entry.producer_id for entry in parse_snapshot(middle)} - {*dead} == {*range(100)} - {*dead}


def states_of(count: int) -> RecordedStates:
    states = RecordedStates(count)
    for number in range(count):
        add(states, number, number)
    return states


def add(states: RecordedStates, offset: int, producer_id: int) -> None:
    data = memoryview(batch(offset, producer_id))
    states.append(parse_header(data), data)


def is_alive(_: ProducerEntry) -> bool:
    return True


def test_a_snapshot_stays_as_it_was_taken() -> None:
    states = states_of(20)
    whole = states.take_snapshot()
    assert isinstance(whole, bytes)
    add(states, 20, 20)
    shared = states.take_snapshot()
    assert isinstance(shared, SharedSnapshot)
    expected = states_of(21).snapshot()
    add(states, 21, 21)
    assert states.take_snapshot() != shared
    assert (shared[:], len(shared), shared[4:9]) == (expected, len(expected), expected[4:9])
    assert shared == expected
    assert shared != whole


def test_only_the_newest_snapshot_is_read_without_its_bytes() -> None:
    states = RecordedStates.read(states_of(20).snapshot(), is_alive, 20)
    add(states, 20, 20)
    shared = states.take_snapshot()
    assert isinstance(shared, SharedSnapshot)
    assert shared.reopened(is_alive) is states
    assert shared.reopened(lambda entry: entry.producer_id != 20) is states, "each entry is looked at once"
    add(states, 21, 21)
    assert shared.reopened(is_alive) is None
    newer = states.take_snapshot()
    assert isinstance(newer, SharedSnapshot)
    assert shared.reopened(is_alive) is None
    assert newer.reopened(is_alive) is states


def test_what_a_reader_leaves_out_is_forgotten() -> None:
    """But not what changed again and is alive now."""
    states = RecordedStates.read(states_of(20).snapshot(), is_alive, 20)
    for offset, producer_id in ((20, 20), (21, 21)):
        add(states, offset, producer_id)
    states.take_snapshot()
    add(states, 22, 21)
    shared = states.take_snapshot()
    assert isinstance(shared, SharedSnapshot)
    assert shared.reopened(lambda entry: entry.last_offset > 21) is states
    assert [*states.by_id] == [*range(20), 21]
    add(states, 23, 22)
    add(states, 24, 20)
    newer = states.take_snapshot()
    assert [*states.by_id] == [*range(20), 21, 22, 20]
    assert newer == states.snapshot()
    assert {entry.producer_id for entry in parse_snapshot(shared[:])} == set(range(22))


def test_what_was_written_whole_is_read_once() -> None:
    """Its reader may leave out a producer that did not change since."""
    states = states_of(20)
    states.take_snapshot()
    add(states, 20, 20)
    shared = states.take_snapshot()
    assert isinstance(shared, SharedSnapshot)
    assert shared.reopened(is_alive) is None
