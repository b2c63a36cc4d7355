"""What a conversion is to do, and what it cannot keep, counted by kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from kdump.codes import Codes, KdumpError
from kdump.format.batch import MAGIC
from kdump.log.names import MAX_OFFSET
from kdump.reading.selection import Range
from kdump.wire.compression import DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class Conversion:
    """The options of a conversion, for all segments of a run. Times are ms since 1970, sizes bytes."""

    to_magic: int | None = None
    """None: every entry keeps its format."""
    codec: int | None = None
    """None: every entry keeps its codec."""
    level: int | None = None
    """Level of the codec; None: Kafka's default."""
    offsets: Range = field(default_factory=Range)
    times: Range = field(default_factory=Range)
    read_committed: bool = False
    """Leave records of aborted transactions out."""
    renumber: int | None = None
    """Offset of the first record; the others follow without gaps."""
    keep_open: bool = False
    """Write a part of a log even if it has records of transactions that have no end marker."""
    split_bytes: int | None = None
    """Largest size of a segment; None: that of Kafka's file format."""
    skip_damaged: bool = False
    """Leave damaged entries out."""
    highest_epoch: int | None = None
    """Leader epochs of batches are brought into 0 to this one; None: they stay."""
    limit: int = DEFAULT_LIMIT
    """Most bytes to which one entry may decompress."""

    @property
    def selects(self) -> bool:
        """Whether ranges choose records."""
        return not (self.offsets.is_open and self.times.is_open)

    @property
    def keeps_markers(self) -> bool:
        """Whether control records stay, and with them transactions."""
        return self.to_magic in (None, MAGIC) and not self.read_committed and self.renumber is None


class LossKind(Enum):
    """Kinds: the name in JSON lines, the unit that is counted, and a sentence for people."""

    HEADERS = "headers", "records", "lose their headers"
    CONTROL_RECORDS = "control-records", "records", "are control records and are dropped"
    TRANSACTIONS = "transactional-flags", "batches", "are no longer transactional"
    PRODUCERS = "producer-fields", "batches", "lose producer id, epoch and sequence"
    ABORTED = "aborted-records", "records", "of aborted transactions become visible"
    OPEN = "open-records", "records", "of transactions without an end become visible"
    UNDECIDED = "undecided-records", "records", "become visible whose transactions cannot be followed in a stream"
    TIMESTAMPS = "timestamps", "records", "lose their timestamps"
    ZSTD = "zstd", "batches", "are recompressed: the format has no zstd"

    def __init__(self, label: str, unit: str, sentence: str) -> None:
        self.label = label
        self.unit = unit
        self.sentence = sentence


Losses: TypeAlias = Counter[LossKind]


def refuse_too_large(first: int, count: int) -> None:
    """Raises KdumpError OFFSET_TOO_LARGE if ``count`` records have no room in the offsets from ``first`` on.

    The end offset of a log, which a broker names its snapshot after, is an offset too.
    """
    if first + count > MAX_OFFSET:
        message = f"{count} records from offset {first} on do not fit below {MAX_OFFSET}, the largest offset"
        raise KdumpError(Codes.OFFSET_TOO_LARGE, message)
