"""Groups by the contents of records: by key, or by the value of a header."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.hashing import hash_ranges
from kdump.stats.grouping import ABSENT, CONTROL_RECORDS, NULL, Assigned, Groups

if TYPE_CHECKING:
    from kdump.fast.recordtable import RecordTable

_LONGEST: Final = 128
"""Bytes of a key that are shown; a longer one is its beginning and a hash."""


def assign_keys(groups: Groups, table: RecordTable, is_control: NDArray[np.bool_]) -> Assigned:
    """The groups of records by their keys.

    Args:
        groups: of the fold.
        table: the records, one or more.
        is_control: which are control records; shape (rows,).
    """
    special = np.where(table.key_size < 0, NULL, 0)
    special[is_control] = CONTROL_RECORDS
    return _assigned(groups, table, table.key_start, table.key_size, special)


def assign_headers(groups: Groups, table: RecordTable, name: bytes, is_control: NDArray[np.bool_]) -> Assigned:
    """As ``assign_keys``, by the value of the last header of this name, as Kafka's ``lastHeader`` gives it."""
    headers = table.headers
    row = np.repeat(np.arange(table.rows), table.header_count)
    named = np.flatnonzero(headers.key_size == len(name))
    at = headers.key_start[named][:, np.newaxis] + np.arange(len(name))
    named = named[(table.arena[at] == np.frombuffer(name, np.uint8)).all(axis=1)]
    # Of several headers of a record the last one is written last.
    start, size = np.zeros(table.rows, np.int64), np.full(table.rows, -1, np.int32)
    start[row[named]], size[row[named]] = headers.value_start[named], headers.value_size[named]
    special = np.full(table.rows, ABSENT)
    special[row[named]] = np.where(size[row[named]] < 0, NULL, 0)
    special[is_control] = CONTROL_RECORDS
    return _assigned(groups, table, start, size, special)


def _assigned(
    groups: Groups, table: RecordTable, start: NDArray[np.int64], size: NDArray[np.int32], special: NDArray[np.int64]
) -> Assigned:
    """The groups of rows. Where not all names can have a group, the heavy ones of a chunk come first.

    ``special``: the keys of the rows without a name, 0 for the others; shapes (rows,).
    """
    group = np.empty(table.rows, np.int64)
    for key in np.unique(special).tolist():
        if key:
            group[special == key] = groups.id_of(key)
    rows = np.flatnonzero(special == 0)
    if rows.size:
        hashes = hash_ranges(table.arena, start[rows], size[rows])
        _, first, index = np.unique(hashes, return_index=True, return_inverse=True)
        index = index.reshape(-1)
        ids = np.empty(first.size, np.int64)
        weight = np.maximum(table.key_size[rows], 0) + np.maximum(table.value_size[rows], 0)
        heaviest_first = np.argsort(-np.bincount(index, weight), kind="stable")
        for number in heaviest_first.tolist():
            row = rows[first[number]]
            begin, length = int(start[row]), int(size[row])
            data = table.arena[begin : begin + min(length, _LONGEST)].tobytes()
            ids[number] = groups.id_of(_name(data, length, int(hashes[first[number]])))
        group[rows] = ids[index]
    found, index = np.unique(group, return_inverse=True)
    return Assigned(found, index.reshape(-1))


def _name(data: bytes, length: int, hashed: int) -> str:
    """The name of a group: text, or base64 where the bytes are none."""
    is_cut = length > len(data)
    end = f"\N{HORIZONTAL ELLIPSIS}#{hashed & 0xFFFF_FFFF_FFFF_FFFF:x}" if is_cut else ""
    for cut in range(4 if is_cut else 1):
        try:
            return data[: len(data) - cut].decode() + end
        except UnicodeDecodeError:
            continue
    return f"base64:{base64.b64encode(data).decode()}{end}"
