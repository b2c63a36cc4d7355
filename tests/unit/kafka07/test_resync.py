"""A walk over a log of Kafka 0.7 that goes on after damage, and what it costs."""

from __future__ import annotations

import cProfile
import pstats
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import Codes
from kdump.kafka07.message import write_message
from kdump.kafka07.resync import ResyncWalk07
from kdump.log.gaps import Gap
from kdump.log.opening import open_source
from kdump.log.source import FileSource

BASE = 1000


def walked(data: bytes, path: Path, **options: int) -> tuple[list[tuple[int, int]], list[Gap]]:
    """The bounds of the entries, and the gaps."""
    file = path / f"{BASE:020}.kafka"
    file.write_bytes(data)
    entries: list[tuple[int, int]] = []
    gaps = []
    end = 0
    with open_source(str(file)) as source:
        for item in ResyncWalk07(source, BASE, **options).items():
            if isinstance(item, Gap):
                assert item.position == end
                gaps.append(item)
                end = item.end
            else:
                for start, stop in item.entries():
                    assert item.position + start == end
                    end = item.position + stop
                    entries.append((item.position + start, end))
    assert end == len(data)
    return entries, gaps


def messages(count: int) -> list[bytes]:
    return [write_message(b"payload %d" % number * (1 + number % 9), magic=number % 2) for number in range(count)]


def bounds(parts: list[bytes]) -> Iterator[tuple[int, int]]:
    position = 0
    for part in parts:
        yield position, position + len(part)
        position += len(part)


@pytest.mark.parametrize("chunk_size", [64, 1000, 1 << 20])
def test_a_clean_log_is_all_entries(chunk_size: int, tmp_path: Path) -> None:
    parts = messages(300)
    assert walked(b"".join(parts), tmp_path, chunk_size=chunk_size) == (list(bounds(parts)), [])


@pytest.mark.parametrize("seed", range(20))
def test_what_lies_between_damage_is_found(seed: int, tmp_path: Path) -> None:
    """Junk between good messages, wherever it lies, costs no message."""
    chance = random.Random(seed)
    parts = messages(200)
    places = sorted(chance.sample(range(200), 5))
    mixed = []
    for number, part in enumerate(parts):
        if number in places:
            mixed.append(chance.randbytes(chance.randrange(1, 400)))
        mixed.append(part)
    good = [bound for bound, part in zip(bounds(mixed), mixed, strict=True) if part in parts]
    entries, gaps = walked(b"".join(mixed), tmp_path)
    assert set(good) <= set(entries)
    assert len(gaps) >= 4
    for gap in gaps:
        assert gap.first_offset == BASE + gap.position
        assert gap.last_offset == BASE + gap.end - 1


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (0, Codes.LENGTH_TOO_SMALL),
        (-1, Codes.LENGTH_TOO_SMALL),
        (1 << 20, Codes.LENGTH_TOO_LARGE),
        (2**31 - 1, Codes.LENGTH_TOO_LARGE),
    ],
)
def test_a_wrong_length_costs_one_message(length: int, reason: Codes, tmp_path: Path) -> None:
    parts = messages(9)
    good = list(bounds(parts))
    parts[4] = length.to_bytes(4, "big", signed=True) + parts[4][4:]
    entries, (gap,) = walked(b"".join(parts), tmp_path)
    assert entries == good[:4] + good[5:]
    assert (gap.position, gap.end, gap.reason) == (*good[4], reason)
    assert gap.continue_at == BASE + good[5][0]


def test_a_length_that_takes_in_the_next_messages(tmp_path: Path) -> None:
    """The CRC proves where the message ends."""
    parts = messages(9)
    good = list(bounds(parts))
    parts[4] = (len(parts[4]) + len(parts[5]) + len(parts[6]) - 4).to_bytes(4, "big") + parts[4][4:]
    entries, (gap,) = walked(b"".join(parts), tmp_path)
    assert entries == good[:4] + good[5:]
    assert gap.reason is Codes.LENGTH_TOO_LARGE


def test_a_damaged_payload_with_a_log_in_it_stands(tmp_path: Path) -> None:
    inner = b"".join(messages(5))
    parts = [*messages(2), write_message(inner), *messages(2)]
    parts[2] = parts[2][:-1] + bytes([parts[2][-1] ^ 1])
    assert walked(b"".join(parts), tmp_path) == (list(bounds(parts)), [])


def test_zeros(tmp_path: Path) -> None:
    parts = messages(3)
    size = sum(map(len, parts))
    _, (gap,) = walked(b"".join(parts) + bytes(5000), tmp_path)
    assert (gap.position, gap.reason, gap.continue_at) == (size, Codes.ZERO_TAIL, None)
    _, (gap,) = walked(b"".join(parts) + bytes(5000) + parts[0], tmp_path)
    assert (gap.position, gap.reason, gap.continue_at) == (size, Codes.ZERO_FILL, BASE + size + 5000)


@pytest.mark.parametrize("rest", [0, 1, 2, 3, 4, 100])
def test_holes_of_a_sparse_log_are_not_read(rest: int, tmp_path: Path) -> None:
    """A terabyte of nothing takes minutes to read. What follows it is found wherever it begins in a block."""
    parts, size = messages(20), (1 << 40) + rest
    path = tmp_path / f"{0:020}.kafka"
    path.write_bytes(b"".join(parts))
    begin = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size)
        file.write(b"".join(parts))
        file.truncate(2 * size)
    with open_source(str(path)) as source:
        gaps = [item for item in ResyncWalk07(source, 0).items() if isinstance(item, Gap)]
    assert [(gap.position, gap.position + gap.length, gap.reason) for gap in gaps] == [
        (begin, size, Codes.ZERO_FILL),
        (size + begin, 2 * size, Codes.ZERO_TAIL),
    ]


def to_the_end(count: int, missing: int) -> bytes:
    """Pairs of a valid message and one whose length reaches the end of the log, or ``missing`` bytes beyond it."""
    good, bad = write_message(b"ok"), write_message(b"x" * 1000)
    size = count * len(good + bad)
    ends = [size - len(good + bad) * number for number in range(count)]
    return b"".join(good + (end - len(good) - 4 + missing).to_bytes(4, "big") + bad[4:] for end in ends)


@pytest.mark.parametrize("missing", [0, 1])
def test_lengths_that_reach_the_end_cost_linear_time(
    missing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was read to the end of the log."""
    monkeypatch.setattr("kdump.kafka07.resync._LARGEST", 1 << 16)
    monkeypatch.setattr("kdump.kafka07.resync._SPENT_FOR_A_BYTE", 4)
    looked_at = 0

    def counted(method: Callable[..., Any], bytes_of: Callable[..., int]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal looked_at
            looked_at += bytes_of(*arguments[1:])
            return method(*arguments)

        return call

    monkeypatch.setattr(FileSource, "read_into", counted(FileSource.read_into, lambda view, _: len(view)))
    monkeypatch.setattr(ResyncWalk07, "_heads", counted(ResyncWalk07._heads, lambda data, _: len(data)))

    def cost(count: int) -> int:
        nonlocal looked_at
        looked_at = 0
        data = to_the_end(count, missing)
        entries, gaps = walked(data, tmp_path)
        pairs = list(bounds([data[:12], data[12 : len(data) // count]] * count))
        assert entries[:count] == pairs[::2]
        assert [(gap.position, gap.end) for gap in gaps[: count - 1]] == pairs[1:-1:2]
        assert {gap.reason for gap in gaps[: count - 1]} == {Codes.LENGTH_TOO_LARGE}
        return looked_at

    assert cost(400) < 3 * cost(200)


def test_large_messages_with_a_right_crc_count_also_in_a_forged_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.kafka07.resync._LARGEST", 1 << 20)
    monkeypatch.setattr("kdump.kafka07.resync._SPENT_FOR_A_BYTE", 4)
    forged = to_the_end(300, 0)
    parts = [*messages(2), *[write_message(bytes(100_000))] * 3, *messages(2)]
    rest = b"".join(parts)
    # The lengths reach to the end of what is forged, where a message follows.
    entries, _ = walked(forged + rest, tmp_path)
    assert entries[-len(parts) :] == [(len(forged) + start, len(forged) + end) for start, end in bounds(parts)]


def hostile(kind: str, count: int) -> bytes:
    fake = b"\x00\x80\x00\x00\x01\x00abcd"
    match kind:
        case "heads":
            return b"\x00\x00\x20\x00\x01" * count
        case "large heads":
            return (b"\x00\x00\x00\x01" + fake + write_message(b"hello")) * count
        case "damage":
            return (b"\x00\x00\x00\x01" + write_message(b"hello")) * count
    return bytes(range(256)) * count


@pytest.mark.parametrize("kind", ["heads", "large heads", "damage", "bytes"])
@pytest.mark.slow
def test_hostile_bytes_cost_linear_work(kind: str, tmp_path: Path) -> None:
    def calls(count: int) -> int:
        profile = cProfile.Profile()
        profile.runcall(walked, hostile(kind, count), tmp_path)
        return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]

    # The first run imports modules and fills caches.
    _, one, two, four = map(calls, (2000, 2000, 4000, 8000))
    assert four - two < 2.3 * (two - one)
