"""What is the same for all records of a v2 batch, as columns with an element a batch, in no spelling yet.

Source: docs/contract.md#23-rows; the wraps of offsets and sequences are those of the compatible batch line
(docs/spec/dump-output.md#42-batch-line-of-magic-2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.headers import native_column
from kdump.fast.sequences import last_sequences
from kdump.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
)
from kdump.log.context import FileContext
from kdump.reading.outcomes import STATES
from kdump.rows import scalar as rows


@dataclass(frozen=True, slots=True)
class Same:
    """One value for all batches."""

    value: str | int | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """Shape (batches,). Null where ``is_set`` (of the same shape) is false."""

    values: NDArray[np.int64]
    is_set: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Flags:
    """Shape (batches,)."""

    values: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Choices:
    """Texts: ``index`` of shape (batches,) into ``options``."""

    index: NDArray[np.integer | np.bool_]
    options: tuple[str | None, ...]


BatchValue: TypeAlias = Same | Numbers | Flags | Choices

_FLAGS: Final = {"isTransactional": TRANSACTIONAL, "isControl": CONTROL}
_STORED: Final = {
    "baseOffset": "base_offset",
    "batchBaseOffset": "base_offset",
    "count": "record_count",
    "baseSequence": "base_sequence",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "partitionLeaderEpoch": "partition_leader_epoch",
    "maxTimestamp": "max_timestamp",
    "magic": "magic",
    "crc": "crc",
}
"""Columns that show a header field as it is stored."""


class BatchValues:
    """Columns of the batches of a block, made when asked for.

    Args:
        block: one batch or more.
        txn_state: shape (batches,), indexes into reading.outcomes.STATES; None: null for all.
        row_type: what the rows' ``type`` is.
        context: where they come from.
    """

    def __init__(
        self, block: BatchBlock, txn_state: NDArray[np.int8] | None, row_type: str, context: FileContext
    ) -> None:
        self._headers = block.headers
        self._position = block.position
        self._is_valid = block.is_valid
        self._txn_state = txn_state
        self._constants = {
            "type": row_type,
            **context.columns(),
            # Control batches are shown by the scalar path.
            "controlType": None,
            "control": None,
        }

    def header(self, name: str) -> NDArray[np.int64]:
        """A field of ``format.batch.BatchHeader``."""
        return native_column(self._headers, name)

    def has(self, attribute: int) -> NDArray[np.bool_]:
        """The batches with this attribute bit."""
        mask: NDArray[np.bool_] = self._headers["attributes"] & attribute != 0
        return mask

    def value(self, name: str) -> BatchValue:
        """The column ``name`` of ``tables.BATCH`` or ``tables.RECORD``; ValueError when batches have no such column."""
        if name in self._constants:
            return Same(self._constants[name])
        if name in _FLAGS:
            return Flags(self.has(_FLAGS[name]))
        match name:
            case "timestampType":
                return Choices(self.has(LOG_APPEND_TIME), TIMESTAMP_TYPES)
            case "deleteHorizonMs":
                return Numbers(self.header("base_timestamp"), self.has(DELETE_HORIZON))
            case "compression":
                return Choices(self.header("attributes") & CODEC_MASK, CODEC_NAMES)
            case "txnState":
                return Same(None) if self._txn_state is None else Choices(self._txn_state, STATES)
            case "isValid":
                return Flags(self._is_valid)
            case "problem":
                return Choices(self._is_valid, (rows.WRONG_CRC, None))
        return Numbers(self._number(name))

    def _number(self, name: str) -> NDArray[np.int64]:
        if name in _STORED:
            return self.header(_STORED[name])
        match name:
            case "lastOffset":
                return self.header("base_offset") + self.header("last_offset_delta")
            case "lastSequence":
                return last_sequences(self.header("base_sequence"), self.header("last_offset_delta"))
            case "position":
                return self._position
            case "size":
                return self.header("batch_length") + LOG_OVERHEAD
        raise ValueError(f"no column {name}")
