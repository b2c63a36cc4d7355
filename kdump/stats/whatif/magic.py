"""What-if: the records in each of the three formats."""

from __future__ import annotations

from typing import Final

import numpy as np

from kdump.fast.entries import Entries
from kdump.fast.recordtable import RecordGroups
from kdump.format.batch import HEADER_SIZE, MAGIC
from kdump.stats.whatif.answer import Answer, than_now
from kdump.stats.whatif.sizes import as_batches, body_sizes, first_of_each, message_bytes
from kdump.system.units import bytes_text, counted
from kdump.wire import compression

_FORMATS: Final = {0: "brokers up to 0.9", 1: "brokers 0.10", 2: "brokers from 0.11 on"}


class MagicQuestion:
    """A fold over entries.

    Entries keep their codec, at Kafka's default level if they are rewritten. An entry of the wanted format counts
    as it is. Messages that are no wrappers are batched as by a producer with a batch.size of 16 KiB. Markers and
    batches without records exist in magic 2 only. Each piece of an entry that is read in pieces counts as a wrapper
    or batch of its own in another format.
    """

    name = "magic"

    def __init__(self) -> None:
        self._bytes = dict.fromkeys(_FORMATS, 0)
        self._records = dict.fromkeys(_FORMATS, 0)
        self._now = 0
        self._zstd_batches = 0

    def update(self, entries: Entries) -> None:
        """Add the next entries."""
        sizes, groups = entries.sizes, entries.groups
        self._now += int(sizes.sum())
        self._records[MAGIC] += int(groups.rows.sum())
        if groups.headers is not None:
            self._bytes[MAGIC] += int(sizes.sum())
            self._zstd_batches += int(np.count_nonzero((groups.codec == compression.ZSTD) & ~groups.is_control))
        for magic in (0, 1):
            self._records[magic] += int(groups.rows[~groups.is_control].sum())
            self._bytes[magic] += int(sizes[groups.magic == magic].sum())
        for part in entries.record_groups():
            self._add_records(part)

    def _add_records(self, groups: RecordGroups) -> None:
        """Add the bytes that the records take in other formats than their own."""
        if groups.headers is None:
            batches = as_batches(groups)
            self._bytes[MAGIC] += HEADER_SIZE * batches.count
            self._bytes[MAGIC] += int(body_sizes(batches, *first_of_each(batches)).sum())
        for magic in (0, 1):
            self._bytes[magic] += message_bytes(groups.select(~groups.is_control & (groups.magic != magic)), magic)

    def answer(self) -> Answer:
        """The bytes in each format."""
        answer = Answer(self.name)
        for magic, size in self._bytes.items():
            answer.rows.append({"magic": magic, "bytes": size, "records": self._records[magic], "bytesNow": self._now})
            answer.words.append(
                f"As magic {magic} ({_FORMATS[magic]}) {counted(self._records[magic], 'record')} take "
                f"{bytes_text(size)}, {than_now(size, self._now)}."
            )
        if self._zstd_batches:
            answer.words.append(
                f"{counted(self._zstd_batches, 'batch', 'batches')} in zstd, which magic 0 and 1 do not have: "
                "gzip is counted in its place."
            )
        return answer
