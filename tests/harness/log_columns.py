"""The batches of a log as the columns that the checks of its siblings ask for; read with struct alone."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from kdump.verify.indexedlog import IndexedBatches, IndexedLog, LogColumns
from kdump.verify.siblings import EpochRange
from kdump.verify.table import UNKNOWN_OFFSET


def columns(rows: list[tuple[int, int, int, int]], size: int) -> IndexedBatches:
    """From (position, base offset, last offset, largest timestamp) of each batch; they lie side by side."""
    table = np.array(rows, np.int64).reshape(-1, 4)
    position, *others = (table[:, number] for number in range(4))
    return IndexedBatches.of(LogColumns(position, np.append(position[1:], size)[: position.size], *others))


def read_columns(data: bytes) -> tuple[IndexedBatches, list[EpochRange]]:
    """The whole entries of a log, sound or not, and the epochs of those of magic 2."""
    rows, epochs = [], []
    position = 0
    while position + 26 <= len(data):
        offset, length, epoch, magic = struct.unpack_from(">qiib", data, position)
        if length < 14 or position + 12 + length > len(data):
            break
        if magic < 2:
            is_wrapper = data[position + 17] & 7
            timestamp = struct.unpack_from(">q", data, position + 18)[0] if magic else -1
            rows.append((position, UNKNOWN_OFFSET if is_wrapper else offset, offset, timestamp))
        else:
            delta, _, timestamp = struct.unpack_from(">iqq", data, position + 23)
            rows.append((position, offset, offset + delta, timestamp))
            if epoch >= 0:
                epochs.append(EpochRange(epoch, offset, offset + delta))
        position += 12 + length
    return columns(rows, position), epochs


def view(log: Path) -> IndexedLog:
    """A log file as its indexes see it."""
    data = log.read_bytes()
    return IndexedLog(int(log.name.partition(".")[0]), len(data), read_columns(data)[0])
