"""Committed offsets of groups in a log that was renumbered.

A committed offset is that of the record to read next. So it becomes the new offset of the first record at it or after
it; what lies after the old log becomes the end of the new one.
"""

from __future__ import annotations

import csv
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from kdump.codes import Codes, KdumpError
from kdump.convert.offsetmap import OFFSET_MAP, RENUMBERED
from kdump.diff.places import PartitionName
from kdump.log.files import strip_credentials
from kdump.log.lines import lines_of
from kdump.log.names import MAX_OFFSET
from kdump.log.opening import open_source

_LONGEST_LINE: Final = 64 << 10
_LONGEST_TOPIC: Final = 255
"""Characters. A topic is part of the name of a directory."""
_MOST_PARTITIONS: Final = 1 << 20
_LARGEST_PARTITION: Final = 2**31 - 1
_LARGEST_END: Final = MAX_OFFSET + 1
"""The end of a log whose last record has the largest offset."""


class OffsetMaps:
    """The maps in some files and directories.

    Args:
        paths: map files, or directories with map files at any depth.

    Raises:
        KdumpError: a path holds no map, or a file is none.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._numbers: dict[PartitionName, int] = {}
        # A line each: the number of the partition, its offset, and those that they become.
        columns = array("i"), array("Q"), array("i"), array("Q")
        for path in map(strip_credentials, paths):
            found = sorted(_maps_in(path))
            if not found:
                raise KdumpError(Codes.MISSING, f"holds no file *{OFFSET_MAP}", path=path)
            for file in found:
                self._read(file, *columns)
        old, begin, new, become = map(np.asarray, columns)
        order = np.lexsort((become, begin, old))
        self._begin, self._new, self._become = (column[order].data for column in (begin, new, become))
        self._bounds = np.searchsorted(old[order], np.arange(len(self._numbers) + 1)).tolist()
        self._names = list(self._numbers)

    def translated(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row with topic, partition and offset; one of another partition stays as it is."""
        partition = self._numbers.get((row["topic"], row["partition"]))
        first, end = (0, 0) if partition is None else self._bounds[partition : partition + 2]
        if first == end:
            return dict(row)
        at = max(bisect_right(self._begin, row["offset"], first, end) - 1, first)
        # Without a stretch after it: the last line is the end. Between two stretches there was no record.
        most = self._become[min(at + 1, end - 1)]
        offset = min(self._become[at] + max(row["offset"] - self._begin[at], 0), most)
        topic, number = self._names[self._new[at]]
        return {**row, "topic": topic, "partition": number, "offset": offset}

    def _read(self, path: str, old: array[int], begin: array[int], new: array[int], become: array[int]) -> None:
        with open_source(path) as source:
            texts = (text.decode("utf-8", "surrogateescape") for text in lines_of(source, longest=_LONGEST_LINE))
            rows = csv.reader(texts)
            try:
                if tuple(next(rows, ())) != RENUMBERED:
                    raise KdumpError(
                        Codes.UNREADABLE, "no map of offsets: its first line is not that of an offset map", path=path
                    )
                for row in rows:
                    if not row:
                        continue
                    if len(row) != len(RENUMBERED):
                        raise ValueError(f"it has {len(row)} cells, not {len(RENUMBERED)}")
                    topic, partition, offset, new_topic, new_partition, new_offset = row
                    old.append(self._number(topic, partition))
                    begin.append(_number("offset", offset, _LARGEST_END))
                    new.append(self._number(new_topic, new_partition))
                    become.append(_number("offset", new_offset, _LARGEST_END))
            except (ValueError, csv.Error) as error:
                message = f"no map of offsets: line {rows.line_num}: {error}"
                raise KdumpError(Codes.UNREADABLE, message, path=path) from error

    def _number(self, topic: str, partition: str) -> int:
        """The number of a partition among all of the maps, which rises from 0 on."""
        if len(topic) > _LONGEST_TOPIC:
            raise ValueError(f"a topic has more than {_LONGEST_TOPIC} characters")
        name = topic, _number("partition", partition, _LARGEST_PARTITION)
        number = self._numbers.setdefault(name, len(self._numbers))
        if number == _MOST_PARTITIONS:
            raise ValueError(f"there are more than {_MOST_PARTITIONS:,} partitions")
        return number


def _number(what: str, text: str, most: int) -> int:
    """A number from 0 to ``most``. Python's ``int`` takes more: digits of all scripts, signs, underscores."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and (number := int(text)) <= most:
        return number
    raise ValueError(f"the {what} is no number from 0 to {most}")


def _maps_in(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        # The backups of restored partitions may hold older maps.
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(folder, name) for name in names if name.endswith(OFFSET_MAP))
