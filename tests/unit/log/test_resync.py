"""log.resync: what is sound is found after every kind of damage, and nothing else is taken for it."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, KdumpError
from kdump.format.batch import HEADER_SIZE, LOG_OVERHEAD
from kdump.log import source as sources
from kdump.log.evidence import Evidence
from kdump.log.gaps import Gap
from kdump.log.heads import LARGEST_ENTRY
from kdump.log.opening import open_source
from kdump.log.resync import ResyncWalk
from kdump.log.source import Source
from kdump.log.walk import Walk
from tests.harness.batches import MAX_INT64, NOW, ZSTD, message, plain_rows, v2_batch, wrapper
from tests.harness.captures import Captures
from tests.harness.memory import MemorySource

TAILS = {Codes.HEADER_CUT, Codes.TRUNCATED, Codes.TRAILING_BYTES, Codes.ZERO_FILL, Codes.ZERO_TAIL}
Entry = tuple[int, bytes, bool]
"""File position, bytes, whether the CRC is right."""


def walked(source: Source, chunk_size: int = 1 << 20, **options: int) -> list[Entry | Gap]:
    """All entries and gaps; they lie side by side."""
    found: list[Entry | Gap] = []
    position = options.get("start", 0)
    for item in ResyncWalk(source, chunk_size=chunk_size, **options).items():
        if isinstance(item, Gap):
            assert (item.end if item.overlaps else item.position) == position
            assert item.length > 0
            found.append(item)
            position = item.position if item.overlaps else item.end
            continue
        assert item.position + item.starts[0] == position
        damaged = set(item.damaged)
        for index, (start, end) in enumerate(item.entries()):
            found.append((item.position + start, bytes(item.data[start:end]), index not in damaged))
        position = item.position + item.end
    return found


def as_in_stream(found: list[Entry | Gap]) -> list[Entry | Gap]:
    """A stream cannot be read again to see what its tail is."""
    last = found[-1] if found else None
    if not isinstance(last, Gap) or last.reason not in TAILS:
        return found
    return [*found[:-1], last._replace(reason=Codes.TRAILING_BYTES)]


def walk(data: bytes) -> list[Entry | Gap]:
    """The same from a file and from a stream, in large chunks and in small ones; it covers all of ``data``."""
    found = walked(MemorySource(data))
    assert walked(MemorySource(data), 1) == found
    for chunk_size in (1 << 20, 1):
        assert as_in_stream(walked(MemorySource(data, sized=False), chunk_size)) == as_in_stream(found)
    lengths = [
        (-item.length if item.overlaps else item.length) if isinstance(item, Gap) else len(item[1]) for item in found
    ]
    assert sum(lengths) == len(data)
    return found


def entries(found: list[Entry | Gap]) -> list[Entry]:
    return [item for item in found if not isinstance(item, Gap)]


def gaps(found: list[Entry | Gap]) -> list[Gap]:
    return [item for item in found if isinstance(item, Gap)]


def batch(offset: int, count: int = 3, size: int = 40, **header: int) -> bytes:
    return v2_batch(plain_rows(count, size), base_offset=offset, **header)


LOG = [batch(3 * number, size=40 + number) for number in range(8)]
STARTS = [sum(map(len, LOG[:number])) for number in range(9)]


def log_with(number: int, replacement: bytes) -> bytes:
    return b"".join([*LOG[:number], replacement, *LOG[number + 1 :]])


def with_length(entry: bytes, length: int) -> bytes:
    return entry[:8] + struct.pack(">i", length) + entry[12:]


def assert_others_found(found: list[Entry | Gap], damaged: int) -> None:
    sound = [data for _, data, is_sound in entries(found) if is_sound]
    assert sound == [*LOG[:damaged], *LOG[damaged + 1 :]]


def test_clean_log_is_all_entries() -> None:
    assert walk(b"".join(LOG)) == [(start, data, True) for start, data in zip(STARTS, LOG, strict=False)]
    assert walk(b"") == []


@pytest.mark.parametrize("number", [0, 3, 7])
@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (lambda right: -1, Codes.LENGTH_TOO_SMALL),
        (lambda right: 13, Codes.LENGTH_TOO_SMALL),
        (lambda right: 48, Codes.LENGTH_TOO_SMALL),
        (lambda right: right - 1, Codes.LENGTH_TOO_SMALL),
        (lambda right: right - 100, Codes.LENGTH_TOO_SMALL),
        (lambda right: right + 1, Codes.LENGTH_TOO_LARGE),
        (lambda right: right + 300, Codes.LENGTH_TOO_LARGE),
        (lambda right: 1 << 20, Codes.LENGTH_TOO_LARGE),
        (lambda right: 1 << 30, Codes.LENGTH_TOO_LARGE),
    ],
)
def test_wrong_length(number: int, length: Callable[[int], int], reason: Codes) -> None:
    right = len(LOG[number]) - 12
    found = walk(log_with(number, with_length(LOG[number], length(right))))
    assert_others_found(found, number)
    if number == 7 and reason is Codes.LENGTH_TOO_LARGE:
        reason = Codes.TRUNCATED
    first = 3 * number if number else None
    last, after = (None, None) if number == 7 else (3 * number + 2 if number else None, 3 * number + 3)
    assert gaps(found) == [Gap(STARTS[number], len(LOG[number]), reason, first, last, after)]


def test_two_batches_under_one_length() -> None:
    merged = with_length(LOG[3], len(LOG[3]) + len(LOG[4]) - 12)
    found = walk(log_with(3, merged))
    assert_others_found(found, 3)
    assert gaps(found)[0].reason is Codes.LENGTH_TOO_LARGE


def test_damaged_batch_whose_length_takes_in_the_next() -> None:
    merged = with_length(LOG[3], len(LOG[3]) + len(LOG[4]) - 12)
    found = walk(log_with(3, merged[:-1] + b"\7"))
    assert_others_found(found, 3)
    assert gaps(found)[0].reason is Codes.BATCH_CRC


def test_right_crc_over_the_start_of_the_next_batch() -> None:
    body = LOG[3][61:] + LOG[4][:30]
    swallowing = v2_batch(body=body, base_offset=9, record_count=3, last_offset_delta=2)
    data = b"".join([*LOG[:3], swallowing, LOG[4][30:], *LOG[5:]])
    found = walk(data)
    assert [entry for _, entry, _ in entries(found)] == [*LOG[:3], swallowing, *LOG[4:]]
    assert gaps(found) == [Gap(STARTS[4], 30, Codes.LENGTH_TOO_LARGE, overlaps=True)]


def test_wrong_crc_alone_is_no_gap() -> None:
    flipped = LOG[3][:-1] + bytes([LOG[3][-1] ^ 1])
    found = walk(log_with(3, flipped))
    assert gaps(found) == []
    assert [data for _, data, is_sound in entries(found) if not is_sound] == [flipped]
    assert_others_found(found, 3)


def test_every_crc_wrong() -> None:
    data = b"".join(entry[:-1] + bytes([entry[-1] ^ 1]) for entry in LOG)
    found = walk(data)
    assert [start for start, _, _ in entries(found)] == STARTS[:8]
    assert not any(is_sound for *_, is_sound in entries(found))


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_flipped_magic_leaves_the_framing(magic: int) -> None:
    found = walk(log_with(3, LOG[3][:16] + bytes([magic]) + LOG[3][17:]))
    assert gaps(found) == []
    assert [start for start, _, _ in entries(found)] == STARTS[:8]


def test_negative_magic() -> None:
    found = walk(log_with(3, LOG[3][:16] + b"\x82" + LOG[3][17:]))
    assert gaps(found) == [Gap(STARTS[3], len(LOG[3]), Codes.MAGIC, 9, 11, 12)]


def test_zeros_over_the_end_of_a_batch_and_the_next_header() -> None:
    data = bytearray(b"".join(LOG))
    data[STARTS[4] - 20 : STARTS[4] + 80] = bytes(100)
    found = walk(bytes(data))
    assert [start for start, _, _ in entries(found)] == [*STARTS[:4], *STARTS[5:8]]
    assert gaps(found) == [Gap(STARTS[4], len(LOG[4]), Codes.ZERO_FILL, 9, 14, 15)]


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (bytes(10), Codes.ZERO_TAIL),
        (bytes(5000), Codes.ZERO_TAIL),
        (bytes(20) + b"\x01", Codes.ZERO_FILL),
        (b"\x01" * 10, Codes.TRAILING_BYTES),
        (b"\x01" * 13, Codes.TRAILING_BYTES),
        (batch(24)[:13], Codes.HEADER_CUT),
        (message(0, 24, b"k", b"value")[:25], Codes.HEADER_CUT),
        (message(0, 24, b"k", b"value")[:26], Codes.TRUNCATED),
        (message(1, 24, b"k", b"value")[:33], Codes.HEADER_CUT),
        (message(1, 24, b"k", b"value")[:34], Codes.TRUNCATED),
        (batch(24)[:17], Codes.HEADER_CUT),
        (batch(24)[:40], Codes.HEADER_CUT),
        (batch(24)[:-1], Codes.TRUNCATED),
        (b"\xff" * 300, Codes.LENGTH_TOO_SMALL),
    ],
)
def test_tail(tail: bytes, reason: Codes) -> None:
    found = walk(b"".join(LOG) + tail)
    assert [data for _, data, _ in entries(found)] == LOG
    assert gaps(found) == [Gap(STARTS[8], len(tail), reason, 24)]


@pytest.mark.parametrize(
    ("offset", "first"), [(MAX_INT64 - 3, MAX_INT64), (MAX_INT64 - 2, None), (MAX_INT64 - 1, -MAX_INT64)]
)
def test_what_is_lost_after_the_largest_offset(offset: int, first: int | None) -> None:
    """Nothing. Beyond it offsets wrap, as in DefaultRecordBatch.lastOffset."""
    good = batch(offset)
    assert gaps(walk(good + b"\x01" * 10)) == [Gap(len(good), 10, Codes.TRAILING_BYTES, first)]


def test_entries_cut_by_the_limit_are_no_gap() -> None:
    data = b"".join(LOG)
    for limit in (STARTS[2], STARTS[2] + 1, STARTS[2] + 30, STARTS[3] - 1):
        found = walked(MemorySource(data), limit=limit)
        assert [item[0] for item in entries(found)] == STARTS[:2]
        assert gaps(found) == []


def test_start() -> None:
    found = walked(MemorySource(b"".join(LOG)), start=STARTS[5])
    assert [item[0] for item in entries(found)] == STARTS[5:8]


def kafka_in_kafka(offset: int, **header: int) -> bytes:
    """A batch whose three values are whole batches."""
    inner = [batch(1000 + number) for number in range(3)]
    rows = [row.__class__(0, number, None, inner[number]) for number, row in enumerate(plain_rows(3))]
    return v2_batch(rows, base_offset=offset, **header)


def test_batches_in_a_payload_are_payload() -> None:
    sound = kafka_in_kafka(9)
    assert [data for _, data, _ in entries(walk(log_with(3, sound)))] == [*LOG[:3], sound, *LOG[4:]]
    damaged = kafka_in_kafka(9, crc=1)
    found = walk(log_with(3, damaged))
    assert gaps(found) == []
    assert_others_found(found, 3)
    for length in (50, len(sound) - 13, len(sound) + 20, 1 << 29):
        found = walk(log_with(3, with_length(sound, length)))
        assert_others_found(found, 3)
    found = walk(b"".join(LOG) + kafka_in_kafka(24)[:-2])
    assert [data for _, data, _ in entries(found)] == LOG


LEGACY = [
    message(1, 0, b"k", bytes(50)),
    wrapper(1, 3, [message(1, number, b"key", b"value" * 20) for number in range(3)]),
    message(0, 4, None, bytes(80)),
    wrapper(0, 8, [message(0, number, None, b"value" * 20) for number in range(5, 9)], ZSTD - 1),
    message(1, 9, b"k", None, timestamp=NOW),
]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("damage", [-1, 20, 1 << 25, None])
def test_legacy(number: int, damage: int | None) -> None:
    entry = LEGACY[number]
    broken = entry[: len(entry) // 2] if damage is None else with_length(entry, damage)
    found = walk(b"".join([*LEGACY[:number], broken, *LEGACY[number + 1 :]]))
    sound = [data for _, data, is_sound in entries(found) if is_sound]
    assert sound == [*LEGACY[:number], *LEGACY[number + 1 :]]


def test_long_garbage_and_small_chunks() -> None:
    garbage = Random(1).randbytes(3 << 20)
    found = walked(MemorySource(LOG[0] + garbage + LOG[1], sized=False), 1)
    assert [data for _, data, _ in entries(found)] == LOG[:2]
    assert len(gaps(found)) == 1


def test_unreadable_blocks() -> None:
    data = b"".join(batch(3 * number, size=200) for number in range(60))
    size = len(data) // 60
    for bad in (range(5000, 5001), range(8192, 8193), range(4096, 20000), range(0, 1), range(30000, len(data))):
        found = walked(MemorySource(data, bad=bad))
        resumed = min(-(-bad.stop // 4096) * 4096, len(data))
        expected = [start for start in range(0, len(data), size) if start + size <= bad.start or start >= resumed]
        assert [start for start, _, _ in entries(found)] == expected
        assert [gap.reason for gap in gaps(found)] == [Codes.UNREADABLE]


def test_unreadable_block_inside_a_large_batch() -> None:
    inner = b"".join(batch(5000 + number) for number in range(200))
    large = v2_batch(body=inner, base_offset=3, record_count=1)
    data = LOG[0] + large + LOG[2]
    found = walked(MemorySource(data, bad=range(9000, 9100)))
    assert [entry for _, entry, _ in entries(found)] == [LOG[0], LOG[2]]
    assert gaps(found) == [Gap(len(LOG[0]), len(large), Codes.UNREADABLE, 3, 5, 6)]


def test_unreadable_stream_is_an_error() -> None:
    with pytest.raises(KdumpError):
        walked(MemorySource(b"".join(LOG), sized=False, bad=range(10, 11)))


def test_length_that_lies_on_a_stream_asks_for_no_gigabytes() -> None:
    data = with_length(LOG[0], 1 << 30) + b"".join(LOG[1:]) + bytes(4 * LARGEST_ENTRY)
    source = MemorySource(data, sized=False)
    found = walked(source)
    assert [entry for _, entry, _ in entries(found)] == LOG[1:]
    assert source.largest_read <= 3 * LARGEST_ENTRY


def test_large_batches_of_a_file_are_taken_when_sound() -> None:
    large = v2_batch(body=bytes(LARGEST_ENTRY), base_offset=24, record_count=1)
    data = b"".join(LOG) + large + batch(25)
    assert len(entries(walked(MemorySource(data)))) == 10
    found = walked(MemorySource(b"".join(LOG) + large[:-1] + b"\1" + batch(25)))
    assert len(entries(found)) == 9
    assert gaps(found)[0].reason is Codes.LENGTH_TOO_LARGE


def damaged_copies(data: bytes, bounds: list[tuple[int, int]], random: Random) -> list[tuple[bytes, range, int]]:
    """Damaged copies of ``data``: the copy, the damaged range of the original, and how much what follows has moved."""
    copies = []
    for _ in range(6):
        start = random.randrange(len(data))
        end = min(len(data), start + random.choice((1, 4, 40, 600)))
        header = random.choice(bounds)[0] + random.randrange(17)
        copies += [
            (data[:start] + bytes(end - start) + data[end:], range(start, end), 0),
            (data[:start] + random.randbytes(end - start) + data[end:], range(start, end), 0),
            (data[:start] + data[end:], range(start, end), start - end),
            (data[:start] + random.randbytes(50) + data[start:], range(start, start), 50),
            (
                data[:header] + bytes([data[header] ^ 1 << random.randrange(8)]) + data[header + 1 :],
                range(header, header + 1),
                0,
            ),
        ]
    return copies


@pytest.mark.slow
def test_damaged_captures(captures: Captures) -> None:
    random = Random(4)
    for path in captures.files(".log", 400_000):
        data = path.read_bytes()
        bounds = [
            (chunk.position + start, chunk.position + end)
            for chunk in Walk(MemorySource(data)).chunks()
            for start, end in chunk.entries()
        ]
        if not bounds:
            continue
        assert [item[0] for item in entries(walked(MemorySource(data)))] == [start for start, _ in bounds]
        for copy, damage, moved in damaged_copies(data, bounds, random):
            untouched = Counter(data[start:end] for start, end in bounds if end <= damage.start or start >= damage.stop)
            found = Counter(entry for _, entry, _ in entries(walked(MemorySource(copy), sized_chunk(random))))
            assert not untouched - found, f"{path} {damage} {moved}"


def sized_chunk(random: Random) -> int:
    return random.choice((1, 1 << 16, 1 << 20))


@given(st.lists(st.sampled_from(LOG + LEGACY), max_size=6), st.binary(max_size=200), st.integers(0, 2000))
def test_any_bytes_are_covered(parts: list[bytes], noise: bytes, at: int) -> None:
    data = b"".join(parts)
    walk(data[:at] + noise + data[at:])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_valid_entry_that_a_sparse_file_does_not_store(
    is_sparse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its CRC over gigabytes of zeros may be right. The walk from entry to entry does not read it either."""
    monkeypatch.setattr(sources, "LARGEST_HOLLOW", 1 << 20)
    large = v2_batch(body=bytes(LARGEST_ENTRY), base_offset=3)
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(batch(0) + large[:HEADER_SIZE])
        if is_sparse:
            file.seek(len(batch(0) + large))
        else:
            file.write(large[HEADER_SIZE:])
        file.write(batch(4))
    with open_source(str(path)) as source:
        found = walked(source)
    assert [position for position, _, _ in entries(found)] == [
        0,
        *([] if is_sparse else [len(batch(0))]),
        len(batch(0) + large),
    ]
    assert [(gap.position, gap.reason, gap.continue_at) for gap in gaps(found)] == (
        [(len(batch(0)), Codes.LENGTH_TOO_LARGE, 4)] if is_sparse else []
    )


def test_an_entry_as_large_as_the_allowance_is_checked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = v2_batch(plain_rows(3))

    def search(*_: object) -> None:
        pytest.fail("entries are searched for")

    monkeypatch.setattr(Evidence, "allowance", len(data) - LOG_OVERHEAD)
    monkeypatch.setattr(Evidence, "region", search)
    assert walked(MemorySource(data)) == [(0, data, True)]


@pytest.mark.parametrize("count", [-1, 0, 4, 77, 2**31 - 1])
def test_a_batch_with_a_right_crc_and_a_wrong_count_is_found_after_damage(count: int) -> None:
    """It was written so; verify says what is wrong with it."""
    odd = v2_batch(plain_rows(3), base_offset=24, record_count=count)
    found = walk(b"".join(LOG) + b"\1" * 50 + odd + batch(27))
    assert [item[1] for item in entries(found)][-2:] == [odd, batch(27)]
    assert [(gap.position, gap.length) for gap in gaps(found)] == [(STARTS[8], 50)]
