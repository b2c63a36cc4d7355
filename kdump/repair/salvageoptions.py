"""How a log is salvaged: apart from salvage, which needs numpy and is imported where it is used."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.repair.pieces import TxnPolicy
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
