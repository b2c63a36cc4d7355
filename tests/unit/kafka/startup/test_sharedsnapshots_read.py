"""Producer states that go on after their snapshot was read are those that its bytes hold."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kdump.format.batch import parse_header
from kdump.format.snapshot import ProducerEntry, write_snapshot
from kdump.kafka import producers
from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.producers import CompletedTxn, ProducerState
from kdump.kafka.startup import firstoffsets, sharedsnapshots
from kdump.kafka.startup.content import Content
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.loading import LoadSettings
from kdump.kafka.startup.names import file_name
from kdump.kafka.startup.sharedsnapshots import RecordedStates, SharedSnapshot
from kdump.kafka.startup.start import start
from tests.harness.batches import CONTROL, NOW, TRANSACTIONAL, plain_rows, v2_batch
from tests.harness.entrycounts import counted_entries

UNCLEAN = LoadSettings(False, max_index_size=1000, now=NOW)


def batch(offset: int, producer_id: int, timestamp: int = NOW, attributes: int = TRANSACTIONAL) -> bytes:
    header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "attributes": attributes}
    data = bytearray(v2_batch(plain_rows(1), base_timestamp=timestamp, **header))
    struct.pack_into(">q", data, 0, offset)
    return bytes(data)


def marker(offset: int, producer_id: int, timestamp: int = NOW, epoch: int = 0, is_commit: int = 0) -> bytes:
    row = replace(plain_rows(1)[0], key=struct.pack(">hh", 0, is_commit), value=struct.pack(">hi", 0, 0))
    header = {"producer_id": producer_id, "producer_epoch": epoch, "attributes": TRANSACTIONAL | CONTROL}
    return v2_batch([row], base_offset=offset, base_timestamp=timestamp, **header)


def entry(producer_id: int, first_offset: int, last_offset: int = 5, timestamp: int = NOW) -> ProducerEntry:
    return ProducerEntry(producer_id, 0, 0, last_offset, 0, timestamp, 0, first_offset)


def is_alive(entry: ProducerEntry) -> bool:
    return entry.current_txn_first_offset >= 0 or entry.timestamp >= NOW


class Pair:
    """States that are read from the bytes of each snapshot, and those that go on, which must be equal."""

    def __init__(self, data: bytes) -> None:
        self.read = RecordedStates.read(data, is_alive, 0)
        self.goes_on = RecordedStates.read(data, is_alive, 0)
        self.taken: list[tuple[bytes, bytes | SharedSnapshot]] = []

    def both(self, call: Callable[[RecordedStates], Any]) -> Any:
        """What both return."""
        first, second = call(self.read), call(self.goes_on)
        assert first == second
        return first

    def append(self, data: bytes) -> CompletedTxn | None:
        """Take in a batch."""
        view = memoryview(data)
        completed: CompletedTxn | None = self.both(lambda states: states.append(parse_header(view), view))
        return completed

    def complete(self, completed: CompletedTxn) -> bool:
        """End a transaction; False: recovery throws."""
        return bool(self.both(lambda states: is_completed(states, completed)))

    def take_and_read(self, times: int = 1) -> None:
        """Take a snapshot, which the next reader reads."""
        data, snapshot = self.read.snapshot(), self.goes_on.take_snapshot()
        self.taken.append((data, snapshot))
        assert snapshot[:] == data
        for _ in range(times):
            self.read = RecordedStates.read(data, is_alive, 0)
            states = snapshot.reopened(is_alive) if isinstance(snapshot, SharedSnapshot) else None
            self.goes_on = states or RecordedStates.read(data, is_alive, 0)
        self.both(lambda states: {**states.by_id})


def is_completed(states: RecordedStates, completed: CompletedTxn) -> bool:
    try:
        states.complete(completed)
    except KafkaFailureError:
        return False
    return True


def random_entries(chance: Random) -> list[ProducerEntry]:
    count = chance.choice((0, 5, 11, 12, 13, 24, 25))
    # Many of them lie in one bucket of a hash map.
    ids = [chance.choice((1, 32)) * number for number in chance.sample(range(100), count)]
    is_odd = chance.random() < 0.3
    if is_odd and ids:
        ids.append(chance.choice(ids))
    return [
        entry(
            number,
            chance.choice((-1, -1, 3, 3, 4, -7 if is_odd else 5)),
            chance.choice((-1 if is_odd else 5, 5, 5)),
            chance.choice((0, *[NOW] * 9)),
        )
        for number in ids
    ]


def run_segment(chance: Random, pair: Pair, offset: int) -> bool:
    """Take in some batches: transactions end at once, or as in a start after all batches. False: recovery throws."""
    ends_later = chance.random() < 0.5
    before: dict[int, ProducerState | None] = {}
    ended: list[CompletedTxn] = []
    for _ in range(chance.randrange(6)):
        known = [*pair.read.by_id]
        is_known = known and chance.random() < 0.7
        producer_id = chance.choice(known) if is_known else chance.choice((1, 32)) * chance.randrange(100)
        state = pair.read.by_id.get(producer_id)
        before.setdefault(producer_id, state)
        timestamp = chance.choice((0, *[NOW] * 4))
        match chance.randrange(6):
            case 0 | 1:
                data = marker(offset, producer_id, timestamp, chance.choice((0, 0, 0, 1)), chance.randrange(2))
            case 2 if state is None or state.txn_first_offset is None:
                data = batch(offset, producer_id, timestamp, attributes=0)
            case _:
                data = batch(chance.choice((offset, offset, offset, 3, 4, 5, -7, -1)), producer_id, timestamp)
        offset += chance.randrange(2)
        completed = pair.append(data)
        if completed is not None and ends_later:
            ended.append(completed)
        elif completed is not None:
            found = completed
            pair.both(lambda states, found=found: states.last_stable_offset(found))
            if not pair.complete(completed):
                return False
        if chance.random() < 0.3:
            pair.both(lambda states: {**states.ongoing})
    if ends_later:
        for producer_id, state in before.items():
            if state is not None:
                pair.both(lambda states, number=producer_id, state=state: states.restore_data(number, state))
        new = [producer_id for producer_id in reversed(before) if before[producer_id] is None]
        pair.both(lambda states: states.see_last(new))
    return all(map(pair.complete, ended))


@pytest.mark.parametrize("least", [0, 4])
@pytest.mark.parametrize("seed", range(200))
def test_states_that_go_on_are_those_that_are_read(seed: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where transactions begin at one offset or below 0, and where producers come, go and come again."""
    monkeypatch.setattr(sharedsnapshots, "_LEAST_SHARE", least)
    chance = Random(seed)
    pair = Pair(write_snapshot(random_entries(chance)))
    for number in range(chance.choice((3, 9, 30))):
        if not run_segment(chance, pair, 10 + 6 * number):
            break
        pair.take_and_read(chance.choice((1, 1, 2)))
        if chance.random() < 0.5:
            pair.both(lambda states: {**states.ongoing})
    pair.both(lambda states: [*states.entries()])
    for data, snapshot in pair.taken:
        assert snapshot[:] == data


def test_the_last_producer_of_a_snapshot_has_a_shared_first_offset() -> None:
    pair = Pair(write_snapshot([entry(number, 3) for number in (9, 4, 1, *range(20, 30))]))
    assert pair.goes_on.ongoing == {3: 29}
    completed = pair.append(marker(10, 29))
    assert completed is not None
    assert pair.complete(completed)
    assert pair.goes_on.ongoing == {}
    pair.take_and_read()
    # Of 13 producers, 28 lies in the last bucket.
    assert pair.goes_on.ongoing == {3: 28}
    pair.append(batch(3, 40))
    assert pair.goes_on.ongoing == {3: 40}
    pair.take_and_read()
    assert pair.goes_on.ongoing == {3: 28}


def test_a_reader_keeps_no_first_offset_below_0() -> None:
    pair = Pair(write_snapshot([entry(number, 3) for number in range(20)]))
    before = pair.goes_on
    pair.append(batch(-7, 30))
    pair.take_and_read()
    assert pair.goes_on is before
    assert pair.goes_on.by_id[30].txn_first_offset is None
    assert pair.goes_on.ongoing == {3: 19}
    pair.append(batch(10, 31))
    pair.take_and_read()


def test_what_a_reader_would_write_otherwise_is_written_so() -> None:
    """A snapshot that shared it kept what the file had."""
    for odd in ([entry(1, -7)], [entry(1, -1, last_offset=-1)], [entry(1, 3), entry(1, 4)]):
        pair = Pair(write_snapshot([*odd, *(entry(number, -1) for number in range(10, 30))]))
        for number in range(3):
            pair.append(batch(10 + number, 40 + number))
            pair.take_and_read()
            pair.both(lambda states: {**states.ongoing})


def test_the_order_of_a_snapshot_is_that_of_the_larger_map_before_it() -> None:
    """Of 13 producers, 32 lies before 16; of 12 they lie in one bucket."""
    pair = Pair(write_snapshot([entry(number, -1) for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)]))
    for offset, (producer_id, timestamp) in enumerate(((16, NOW), (32, NOW), (40, 0)), 10):
        pair.append(batch(offset, producer_id, timestamp, attributes=0))
    pair.take_and_read()
    pair.append(batch(20, 1, attributes=0))
    pair.take_and_read()
    assert [entry.producer_id for entry in pair.goes_on.entries()][:2] == [32, 16]


COUNT = 384
"""The most of 512 buckets."""


def of_snapshot(entries: list[ProducerEntry], logs: list[bytes]) -> Directory:
    """A partition of these segments, two offsets each, and a snapshot before them."""
    files = {file_name(100, ".snapshot"): Content.of_bytes(write_snapshot(entries))}
    files |= {file_name(100 + 2 * number, ".log"): Content.of_bytes(log) for number, log in enumerate(logs)}
    files |= {file_name(100 + 2 * number, ".index"): Content.of_bytes(b"") for number in range(len(logs))}
    return Directory("t-0", files)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(lambda number: batch(100 + 2 * number, 1000 + number, attributes=0), id="no marker"),
        pytest.param(lambda number: marker(100 + 2 * number, COUNT - 1 - number), id="the last one ends"),
        pytest.param(
            lambda number: (
                marker(100 + 2 * number, COUNT - 1 - number)
                + (batch(101 + 2 * number, 1000 + number, 0, attributes=0) if number % 2 else b"")
            ),
            id="larger and smaller map in turn",
        ),
        pytest.param(lambda number: batch(100 + 2 * number, 1000 + number, 0, attributes=0), id="each one is dead"),
    ],
)
@pytest.mark.parametrize(
    "further",
    [
        pytest.param([], id=""),
        pytest.param([entry(500, -1, timestamp=0)], id="one is dead before"),
        pytest.param([entry(1, -1)], id="one is there twice"),
        pytest.param([entry(COUNT - 1, -7)], id="one is there twice, and below 0"),
    ],
)
def test_shared_first_offsets_cost_what_changed(
    further: list[ProducerEntry], log: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each segment, all producers of a snapshot were written, read and kept."""
    steps = counted_entries(monkeypatch)
    bucket = producers.map_bucket

    def counted_bucket(key: int, capacity: int) -> int:
        steps["placed"] += 1
        return bucket(key, capacity)

    monkeypatch.setattr(producers, "map_bucket", counted_bucket)
    monkeypatch.setattr(firstoffsets, "map_bucket", counted_bucket)
    entries = [entry(number, 3 if number > 100 else -1) for number in range(COUNT)]
    found = of_snapshot([*entries, *further], [log(number) for number in range(100)])
    result = start(found, UNCLEAN)
    assert steps.total() < 9 * COUNT
    assert result.failure is None
