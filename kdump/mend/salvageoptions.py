"""How a log is salvaged: apart from salvage, which needs numpy and is imported where it is used."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.mend.pieces import TxnPolicy
from kdump.wire.compression import DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class SalvageOptions:
    """How a log is salvaged.

    ``deep``: drop batches whose CRC holds and whose records do not decode, too. ``limit``: most bytes that one batch
    may decompress to. ``hold_offsets``: put empty batches over what is lost. ``correct``: flip single bits back.
    ``transactions``: what is done about those whose end is undecided. ``replicas``: directories or logs of other copies
    of the partition, which fill holes.
    """

    deep: bool = True
    limit: int = DEFAULT_LIMIT
    hold_offsets: bool = True
    correct: bool = False
    transactions: TxnPolicy = TxnPolicy.LEAVE
    replicas: tuple[str, ...] = ()


class _Reason(IntEnum):
    """Why a good batch is not in the result."""

    NONE = 0
    OUT_OF_RANGE = 1
    CONFLICT = 2
    COPY = 3
    CONTRADICTION = 4
    OPEN_TRANSACTION = 5


_REASON_TEXT: Final = {
    _Reason.OUT_OF_RANGE: "the segment cannot hold its offsets",
    _Reason.CONFLICT: "other batches, with more records, have its offsets",
    _Reason.COPY: "the same batch is there twice",
    _Reason.CONTRADICTION: "a plain batch and a transaction of its producer contradict each other",
    _Reason.OPEN_TRANSACTION: "its transaction has lost its end",
}
