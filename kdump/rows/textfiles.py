"""Rows of the text files of a broker: checkpoints, epochs, properties. Source: docs/contract.md#23-rows."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT, READERS
from kdump.log.names import OFFSET_CHECKPOINTS
from kdump.rows.filetables import CHECKPOINT, EPOCH, PROPERTY
from kdump.rows.schema import Row, Table


def text_file_rows(name: str, data: bytes) -> tuple[Table, Iterator[Row]]:
    """The rows of a text file by its name, one of ``log.names.TEXT_FILES``.

    At the end they raise what READERS raise.
    """
    table = PROPERTY
    if name in OFFSET_CHECKPOINTS:
        table = CHECKPOINT
    elif name == LEADER_EPOCH_CHECKPOINT:
        table = EPOCH
    return table, table.rows(iter(READERS[name](data)))
