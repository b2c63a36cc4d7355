"""The recovery of Kafka 0.7: where a broker that was not stopped cleanly cuts the last log of a partition.

Source: docs/spec/old-kafka.md#16-recovery.
"""

from __future__ import annotations

from typing import Final

from kdump.codes import Codes, DamageError
from kdump.kafka.failures import FailureKind
from kdump.kafka.recover import Cut, CutReason, Recovery, RecoveryFailure, RecoveryOutcome
from kdump.kafka07.message import parse_message
from kdump.kafka07.resync import Walk07
from kdump.log.source import Source
from kdump.log.walk import Stop

_FAILURES: Final = {
    Codes.MAGIC: FailureKind.UNKNOWN_MAGIC,
    Codes.LEGACY_MESSAGE: FailureKind.MESSAGE_CUT,
}


def recover_07(source: Source, base_offset: int) -> Recovery:
    """What recovery would make of a log: it cuts before the first entry that is not whole or whose CRC is wrong.

    Args:
        source: the log, a regular file.
        base_offset: the offset in its name.

    Raises:
        KdumpError: the log cannot be read.
    """
    walk = Walk07(source)
    size = source.size or 0
    for chunk in walk.chunks():
        for start, end in chunk.entries():
            position = chunk.position + start
            try:
                is_valid = parse_message(chunk.data[start:end], base_offset + position).is_valid
            except DamageError as error:
                return _recovery(base_offset, size, position, RecoveryFailure(_FAILURES[error.code], error.message))
            if not is_valid:
                return _recovery(base_offset, size, position, Cut(CutReason.CRC, "the CRC is wrong"))
    if walk.stop is Stop.LENGTH_TOO_SMALL:
        cut = Cut(CutReason.LENGTH_TOO_SMALL, f"a length field of {walk.bad_length}")
        return _recovery(base_offset, size, walk.position, cut)
    if walk.position < size:
        cut = Cut(CutReason.TRAILING_BYTES, "what is left is no whole entry")
        return _recovery(base_offset, size, walk.position, cut)
    return not_recovered_07(base_offset, size)


def not_recovered_07(base_offset: int, size: int) -> Recovery:
    """What a start leaves of a log that is not the last one: all of it, because no start reads such a log."""
    return _recovery(base_offset, size, size, None)


def _recovery(base_offset: int, size: int, end: int, end_reason: Cut | RecoveryFailure | None) -> Recovery:
    cut = end_reason if isinstance(end_reason, Cut) else None
    failure = end_reason if isinstance(end_reason, RecoveryFailure) else None
    outcome = RecoveryOutcome.FAILED if failure else RecoveryOutcome.TRUNCATED if cut else RecoveryOutcome.UNCHANGED
    return Recovery(outcome, size, end, base_offset + end, -1, [], cut, failure)
