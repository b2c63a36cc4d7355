"""What-if: the records in batches of other sizes, as a producer's ``batch.size`` would make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.entries import Entries
from kdump.fast.recordtable import RecordTable
from kdump.fast.writerecords import write_records
from kdump.format.batch import CODEC_NAMES, HEADER_SIZE, MAGIC
from kdump.stats.whatif.answer import Answer, than_now
from kdump.system.units import bytes_text, counted
from kdump.wire import compression

BATCH_SIZES: Final = (16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20)
"""From the default of producers to the default of max.message.bytes."""
_COMPRESSED_SAMPLE: Final = 16 << 20
"""So many bytes of records are compressed per codec and batch size. The ratio found is used for the others."""
_RATIO_MARGIN: Final = 1.05
"""The factor by which a producer overestimates a compressed batch (COMPRESSION_RATE_ESTIMATION_FACTOR)."""
_SAMPLED_SHARE: Final = 0.05
_RAW_LIMITS: Final = np.array([1 << 7 * width for width in range(1, 10)], np.uint64)
"""Raw varints below the n-th one take n bytes or fewer."""

_Compress: TypeAlias = Callable[[int, int], tuple[int, int]]
"""Returns the bytes of rows first to last (exclusive) as a batch's records, without and with compression."""


class BatchSizeQuestion:
    """A fold over entries.

    The records are batched in their order, as if one producer had sent them: the record that does not fit closes a
    batch. The size of a compressed batch is estimated with the ratio of the log so far, as a producer does it.
    Control batches stay as they are.
    """

    name = "batch-size"

    def __init__(self, sizes: tuple[int, ...] = BATCH_SIZES) -> None:
        self._sizes = sizes
        self._codecs: dict[int, _Codec] = {}
        self._now = 0
        self._batches_now = 0
        self._records = 0
        self._fixed = 0
        self._fixed_batches = 0

    def update(self, entries: Entries) -> None:
        """Add the next entries."""
        sizes, groups = entries.sizes, entries.groups
        self._now += int(sizes.sum())
        self._batches_now += groups.count
        self._records += int(groups.rows.sum())
        is_data = (groups.rows > 0) & ~groups.is_control
        self._fixed += int(sizes[~is_data].sum())
        self._fixed_batches += int(np.count_nonzero(~is_data))
        for codec in np.unique(groups.codec[is_data]).tolist():
            chosen = is_data & (groups.codec == codec)
            state = self._codecs.setdefault(codec, _Codec(codec, [_Batcher(size) for size in self._sizes]))
            stored = int(sizes[chosen].sum()) - HEADER_SIZE * int(chosen.sum())
            for part in entries.record_groups():
                table = part.select(chosen).table
                state.update(table, stored * table.rows // int(groups.rows[chosen].sum()))

    def answer(self) -> Answer:
        """The number and bytes of batches for each batch size."""
        answer = Answer(self.name)
        for number, batch_size in enumerate(self._sizes):
            size, batches, is_estimate = self._fixed, self._fixed_batches, False
            for codec in self._codecs.values():
                batcher = codec.batchers[number]
                batcher.finish()
                size += batcher.size
                batches += batcher.batches
                is_estimate |= codec.codec != compression.NONE
            answer.rows.append(
                {
                    "batchSize": batch_size,
                    "bytes": size,
                    "batches": batches,
                    "records": self._records,
                    "isEstimate": is_estimate,
                    "bytesNow": self._now,
                    "batchesNow": self._batches_now,
                }
            )
        answer.words.extend(self._words(answer))
        return answer

    def _words(self, answer: Answer) -> list[str]:
        each = self._now / self._batches_now if self._batches_now else 0
        words = [
            f"Now {counted(self._records, 'record')} are in {counted(self._batches_now, 'batch', 'batches')} of "
            f"{bytes_text(each)} on average, {bytes_text(self._now)} in all."
        ]
        for row in answer.rows:
            size, batch_size = int(row["bytes"] or 0), int(row["batchSize"] or 0)
            words.append(
                f"With batch.size={batch_size} ({bytes_text(batch_size)}): "
                f"{counted(int(row['batches'] or 0), 'batch', 'batches')}, {bytes_text(size)}, "
                f"{than_now(size, self._now)}."
            )
        compressed = [CODEC_NAMES[codec] for codec in self._codecs if codec]
        if compressed:
            words.append(f"The sizes of compressed batches ({', '.join(compressed)}) are estimated from a sample.")
        return words


@dataclass
class _Codec:
    """The records of one codec; ``plain`` and ``stored``: bytes of records so far, without and with compression."""

    codec: int
    batchers: list[_Batcher]
    plain: int = 0
    stored: int = 0

    def update(self, table: RecordTable, stored: int) -> None:
        """Add the next records; ``stored``: the bytes they take now, without batch headers."""
        zeros = np.zeros(table.rows, np.int64)
        bounds = write_records(table, zeros, zeros)[1]
        sizes: NDArray[np.int64] = np.diff(bounds)
        self.plain += int(bounds[-1])
        self.stored += stored
        ratio = 1.0 if self.codec == compression.NONE else self.stored / self.plain * _RATIO_MARGIN

        def compressed(first: int, last: int) -> tuple[int, int]:
            part = table.select(slice(first, last))
            data = write_records(part, np.arange(part.rows), part.timestamp - part.timestamp[0])[0]
            return data.size, len(compression.compress(self.codec, data.data, magic=MAGIC))

        for batcher in self.batchers:
            batcher.update(sizes, table.timestamp, ratio, None if self.codec == compression.NONE else compressed)


class _Batcher:
    """Puts records into batches of at most ``limit`` bytes. Records that do not fill a batch wait for the next ones."""

    def __init__(self, limit: int) -> None:
        self._room = limit - HEADER_SIZE
        self._waiting = _Records(np.empty(0, np.int64), np.empty(0, np.int64))
        self._plain = 0
        self._sampled = 0
        self._sampled_size = 0
        self.batches = 0

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        ratio = self._sampled_size / self._sampled if self._sampled else 1.0
        return HEADER_SIZE * self.batches + round(self._plain * ratio)

    def update(
        self, sizes: NDArray[np.int64], timestamps: NDArray[np.int64], ratio: float, compress: _Compress | None
    ) -> None:
        """Add the next records.

        Args:
            sizes: of each record, with an offset and a timestamp like those of its batch; shape (rows,).
            timestamps: in ms, shape (rows,).
            ratio: compressed bytes per uncompressed byte, as estimated.
            compress: compresses some of the records.
        """
        before = self._waiting.size.size
        records = _Records(np.append(self._waiting.size, sizes), np.append(self._waiting.timestamp, timestamps))
        ends = np.cumsum(records.size)
        room = max(1, int(self._room / ratio))
        first, before_sampled = 0, self._sampled
        while True:
            done = int(ends[first - 1]) if first else 0
            # As many records as fit if offsets and timestamps took a byte each, and one more that closes the batch.
            last = int(np.searchsorted(ends, done + room, side="right")) + 1
            grown = np.cumsum(records.between(first, last).in_a_batch())
            count = max(1, int(np.searchsorted(grown, room, side="right")))
            if count >= grown.size and last > records.size.size:
                break
            self._close(grown, count)
            if compress is not None and first >= before:
                self._try(first - before, first - before + count, compress)
            first += count
        self._waiting = records.between(first, records.size.size)
        if compress is not None and self._sampled == before_sampled and sizes.size:
            # There is no whole batch of these records: compress what there is.
            self._try(0, sizes.size, compress)

    def finish(self) -> None:
        """Close the last batch."""
        if self._waiting.size.size:
            grown = np.cumsum(self._waiting.in_a_batch())
            self._close(grown, grown.size)
            self._waiting = self._waiting.between(0, 0)

    def _close(self, grown: NDArray[np.int64], count: int) -> None:
        self.batches += 1
        self._plain += int(grown[count - 1])

    def _try(self, first: int, last: int, compress: _Compress) -> None:
        if self._sampled < max(_COMPRESSED_SAMPLE, _SAMPLED_SHARE * self._plain):
            plain, size = compress(first, last)
            self._sampled += plain
            self._sampled_size += size


@dataclass(frozen=True, slots=True)
class _Records:
    """Sizes and timestamps of records; shapes (rows,)."""

    size: NDArray[np.int64]
    timestamp: NDArray[np.int64]

    def between(self, first: int, last: int) -> _Records:
        return _Records(self.size[first:last], self.timestamp[first:last])

    def in_a_batch(self) -> NDArray[np.int64]:
        """Bytes of each record in a batch of just these records, which begins with the first one."""
        if not self.size.size:
            return self.size
        body = self.size - _length_width(self.size)
        body += _width(np.arange(self.size.size)) + _width(self.timestamp - self.timestamp[0]) - 2
        return body + _width(body)


def _width(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of each number as a zigzag varint."""
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    return 1 + np.searchsorted(_RAW_LIMITS, raw, side="right")


def _length_width(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of the length before each record; ``size`` includes that length."""
    width = np.ones(size.size, np.int64)
    for taken in range(1, 5):
        # A length of ``taken`` bytes is below 2^(7 * taken - 1).
        width += size - taken >= 1 << 7 * taken - 1
    return width
