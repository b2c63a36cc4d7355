"""What-if: a sample of the batches, compressed with every codec and level."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.fast.entries import Entries
from kdump.format.batch import CODEC_NAMES, HEADER_SIZE, MAGIC
from kdump.stats.whatif.answer import Answer, Cell, than_now
from kdump.stats.whatif.sizes import as_batches, batch_bodies, first_of_each
from kdump.system.units import bytes_text, counted
from kdump.wire import compression
from kdump.wire.checksum import Buffer

SAMPLE_BYTES: Final = 1 << 20
"""Uncompressed bytes: enough for the ratios of a topic's batches, few enough for zstd's slowest levels."""
MOST_OF_A_BATCH: Final = 4 << 20
"""Bytes of a sampled batch that are compressed: over more, zstd's slowest levels take minutes and gigabytes."""
SEED: Final = 9
_FASTEST_ZSTD: Final = (-7, -5, -3, -1)
"""Some of zstd's 131072 negative levels."""
_DEFAULT_LEVELS: Final = {compression.GZIP: 6, compression.LZ4: 9, compression.ZSTD: 3}
_MEGABYTE: Final = 1e6
_LEAST_SECONDS: Final = 0.01


class Setting(NamedTuple):
    """``compression.type`` and its level; None: the codec has none."""

    codec: int
    level: int | None

    @property
    def is_default(self) -> bool:
        """Whether a producer uses it that sets only the codec."""
        return self.level == _DEFAULT_LEVELS.get(self.codec)

    def __str__(self) -> str:
        return CODEC_NAMES[self.codec] + ("" if self.level is None else f" level {self.level}")


def settings() -> Iterator[Setting]:
    """All settings that are tried."""
    yield Setting(compression.NONE, None)
    yield Setting(compression.SNAPPY, None)
    for codec, (lowest, highest) in compression.LEVELS.items():
        levels = range(lowest, highest + 1)
        yield from (Setting(codec, level) for level in (levels if lowest > 0 else (*_FASTEST_ZSTD, *levels[-highest:])))


class _Trial(NamedTuple):
    """The result of a setting: bytes of the sample, and CPU seconds to compress and to decompress it."""

    size: int
    compress_seconds: float
    decompress_seconds: float


class CodecQuestion:
    """A fold over entries. Control batches, which are never compressed, count as they are.

    Messages that are no wrappers are put into batches first. Batch headers are equal in all rows.
    """

    name = "codec"

    def __init__(self) -> None:
        self._sample = Sample(SAMPLE_BYTES, SEED)
        self._now = 0
        self._fixed = 0
        self._plain = 0
        self._batches = 0

    def update(self, entries: Entries) -> None:
        """Add the next entries."""
        sizes, groups = entries.sizes, entries.groups
        self._now += int(sizes.sum())
        if groups.headers is None:
            for part in entries.record_groups():
                batches = as_batches(part)
                data, bounds = batch_bodies(batches, *first_of_each(batches))
                self._take(data, bounds[:-1], bounds[1:])
            return
        is_fixed = groups.is_control | (groups.rows == 0)
        self._fixed += int(sizes[is_fixed].sum())
        self._take(entries.bodies, entries.body_start[~is_fixed], entries.body_end[~is_fixed])

    def _take(self, data: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
        self._fixed += HEADER_SIZE * start.size
        self._plain += int((end - start).sum())
        self._batches += start.size
        end = np.minimum(end, start + MOST_OF_A_BATCH)
        self._sample.offer(start.size, lambda number: data[start[number] : end[number]].data)

    def answer(self) -> Answer:
        """The size and speed of each setting, by codec and level."""
        answer = Answer(self.name)
        pieces = self._sample.pieces()
        sampled = sum(map(len, pieces))
        if not sampled:
            answer.words.append("There is no record to compress.")
            return answer
        for setting in sorted(settings(), key=lambda each: (each.codec, each.level is not None, each.level or 0)):
            trial = _try(setting, pieces)
            ratio = trial.size / sampled
            row: dict[str, Cell] = {
                "codec": CODEC_NAMES[setting.codec],
                "level": setting.level,
                "isDefault": setting.is_default,
                "bytes": round(self._fixed + ratio * self._plain),
                "ratio": round(1 / ratio, 3),
                "compressMBps": _speed(sampled, trial.compress_seconds),
                "decompressMBps": _speed(sampled, trial.decompress_seconds),
                "bytesNow": self._now,
                "sampledBatches": len(pieces),
                "sampledBytes": sampled,
            }
            answer.rows.append(row)
        answer.words.extend(self._words(answer.rows, len(pieces), sampled))
        return answer

    def _words(self, rows: list[dict[str, Cell]], pieces: int, sampled: int) -> Iterator[str]:
        yield (
            f"Of {counted(self._batches, 'batch', 'batches')} {pieces:,} were compressed anew, {bytes_text(sampled)} "
            f"of records; the sizes are those of the whole, scaled up. It is {bytes_text(self._now)} now. "
            "Speeds are of this machine, in MB of records a second of one core."
        )
        smallest = min(rows, key=lambda row: _number(row["bytes"]))
        defaults = [row for row in rows if row["isDefault"]]
        for title, row in (
            ("The smallest", smallest),
            ("The smallest of Kafka's defaults", min(defaults, key=lambda row: _number(row["bytes"]))),
            (
                "The fastest to write of those that compress",
                max(
                    (row for row in rows if row["codec"] != "none"),
                    key=lambda row: _number(row["compressMBps"]),
                ),
            ),
        ):
            level = "" if row["level"] is None else f" level {row['level']}"
            size = _number(row["bytes"])
            yield (
                f"{title}: {row['codec']}{level}, {bytes_text(size)}, {than_now(size, self._now)}, written at "
                f"{_number(row['compressMBps']):,.0f} MB/s and read at {_number(row['decompressMBps']):,.0f} MB/s."
            )


def _try(setting: Setting, pieces: list[bytes]) -> _Trial:
    """The fastest of several passes over the sample: a clock cannot measure one pass over a small sample."""
    if setting.codec == compression.NONE:
        return _Trial(sum(map(len, pieces)), 0.0, 0.0)
    # Import the library before the clock runs.
    compression.decompress(setting.codec, _compress(setting, b"kdump"), magic=MAGIC)
    compress_seconds, decompress_seconds, spent = [], [], 0.0
    while spent < _LEAST_SECONDS:
        begin = time.thread_time()
        made = [_compress(setting, piece) for piece in pieces]
        middle = time.thread_time()
        for piece in made:
            compression.decompress(setting.codec, piece, magic=MAGIC)
        end = time.thread_time()
        compress_seconds.append(middle - begin)
        decompress_seconds.append(end - middle)
        spent += end - begin
    return _Trial(sum(map(len, made)), min(compress_seconds), min(decompress_seconds))


def _compress(setting: Setting, piece: bytes) -> bytes:
    return compression.compress(setting.codec, piece, magic=MAGIC, level=setting.level)


def _speed(size: int, seconds: float) -> float | None:
    """Megabytes per second; None without work."""
    return round(size / _MEGABYTE / seconds, 1) if seconds > 0 else None


def _number(cell: Cell) -> float:
    return float(cell or 0)


_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class Sample:
    """The items with the smallest random numbers, as many as fit.

    Args:
        limit: bytes that are kept; one item is kept however large it is.
        seed: of the random numbers.
    """

    def __init__(self, limit: int, seed: int) -> None:
        self._limit = limit
        self._seed = np.uint64(seed)
        self._seen = 0
        self._size = 0
        # Ordered by the random number, the largest first.
        self._kept: list[tuple[int, int, bytes]] = []

    def offer(self, count: int, piece: Callable[[int], Buffer]) -> None:
        """Offer the next ``count`` items; ``piece`` returns the bytes of one of them, by its number from 0 on."""
        priority = self._priorities(count)
        wanted: NDArray[np.intp] = np.arange(count)
        if self._size >= self._limit:
            wanted = np.flatnonzero(priority < -self._kept[0][0])
        for number in wanted.tolist():
            if self._size >= self._limit and priority[number] >= -self._kept[0][0]:
                continue
            data = bytes(piece(number))
            heappush(self._kept, (-int(priority[number]), self._seen + number, data))
            self._size += len(data)
            while len(self._kept) > 1 and self._size - len(self._kept[0][2]) >= self._limit:
                self._size -= len(heappop(self._kept)[2])
        self._seen += count

    def pieces(self) -> list[bytes]:
        """The sample, in the order of the sequence."""
        return [data for _, _, data in sorted(self._kept, key=lambda kept: kept[1])]

    def _priorities(self, count: int) -> NDArray[np.uint64]:
        """Pseudorandom numbers of 63 bits (SplitMix64 of the position)."""
        value = (np.arange(self._seen + 1, self._seen + count + 1, dtype=np.uint64) + self._seed) * _STEP
        for shift, mixer in zip(_SHIFTS, _MIXERS, strict=False):
            value = (value ^ value >> shift) * mixer
        priority: NDArray[np.uint64] = (value ^ value >> _SHIFTS[2]) >> np.uint64(1)
        return priority
