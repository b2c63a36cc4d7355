"""What is the same for all records of a v2 batch, as columns of text with an element a batch.

Source: shared/design.md, "JSON lines"; the wraps of offsets and sequences are those of the compatible batch line
(shared/spec/dump-output.md section 4.2).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.headers import native_column
from kdump.fast.sequences import last_sequences
from kdump.fast.text import Bytes, Choice, Column, Integer, Literal, assemble
from kdump.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)
from kdump.kafka import rows
from kdump.scan.outcomes import STATES
from kdump.writers.columnsyntax import Syntax
from kdump.writers.context import FileContext

_BOOLEANS: Final = (b"false", b"true")
_TIMESTAMP_TYPES: Final = (rows.CREATE_TIME, rows.LOG_APPEND_TIME)
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


class BatchColumns:
    """Columns of the batches of a block, made when asked for.

    Args:
        block: one batch or more.
        txn_state: shape (batches,), indexes into scan.transactions.STATES; None: null for all.
        row_type: what the rows' ``type`` is.
        context: where they come from.
        syntax: how values are spelled.
    """

    def __init__(
        self,
        block: BatchBlock,
        txn_state: NDArray[np.int8] | None,
        row_type: str,
        context: FileContext,
        syntax: Syntax,
    ) -> None:
        self.syntax = syntax
        self._headers = block.headers
        self._position = block.position
        self._is_valid = block.is_valid
        self._txn_state = np.zeros(block.headers.size, np.int8) if txn_state is None else txn_state
        self._constants = {
            "type": self._text(row_type),
            "file": self._text(context.file),
            "topic": self._text(context.topic),
            "partition": self._text(None) if context.partition is None else b"%d" % context.partition,
            # Control batches are shown by the scalar path.
            "controlType": self._text(None),
            "control": self._text(None),
        }

    def header(self, name: str) -> NDArray[np.int64]:
        """A field of ``format.batch.BatchHeader``."""
        return native_column(self._headers, name)

    def has(self, attribute: int) -> NDArray[np.bool_]:
        """The batches with this attribute bit."""
        mask: NDArray[np.bool_] = self._headers["attributes"] & attribute != 0
        return mask

    def value(self, name: str) -> list[Column]:
        """The values of the column ``name``; ValueError when batches have no such column."""
        if name in self._constants:
            return [Literal(self._constants[name])]
        if name in _FLAGS:
            return [Choice(self.has(_FLAGS[name]), _BOOLEANS)]
        match name:
            case "timestampType":
                return [self._choice(self.has(LOG_APPEND_TIME), _TIMESTAMP_TYPES)]
            case "deleteHorizonMs":
                return self._nullable(self.header("base_timestamp"), self.has(DELETE_HORIZON))
            case "compression":
                return [self._choice(self.header("attributes") & CODEC_MASK, CODEC_NAMES)]
            case "txnState":
                return [self._choice(self._txn_state, STATES)]
            case "isValid":
                return [Choice(self._is_valid, _BOOLEANS)]
            case "problem":
                return [self._choice(self._is_valid, (rows.WRONG_CRC, None))]
        return [Integer(self._number(name))]

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

    def _text(self, value: str | None) -> bytes:
        return self.syntax.null if value is None else self.syntax.text(value)

    def _choice(self, index: NDArray[np.integer | np.bool_], options: tuple[str | None, ...]) -> Choice:
        return Choice(index, tuple(self._text(option) for option in options))

    def _nullable(self, values: NDArray[np.int64], is_set: NDArray[np.bool_]) -> list[Column]:
        """``values`` where they are set, else null."""
        digits = assemble([Integer(values)], values.size)
        return [
            Choice(is_set, (self.syntax.null, b"")),
            Bytes(digits.data, digits.bounds[:-1], np.where(is_set, np.diff(digits.bounds), 0)),
        ]
