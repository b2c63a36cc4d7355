"""Committed offsets of groups in a log that was renumbered.

A committed offset is that of the record to read next. So it becomes the new offset of the first record at it or after
it; what lies after the old log becomes the end of the new one.
"""

from __future__ import annotations

import csv
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from kdump.codes import Codes, KdumpError
from kdump.convert.offsetmap import OFFSET_MAP, RENUMBERED
from kdump.diff.places import PartitionName
from kdump.log.files import strip_credentials
from kdump.log.lines import lines_of
from kdump.log.opening import open_source

_Stretch = tuple[int, int, PartitionName]
"""First old offset, the new one that it becomes, and the new partition."""


class OffsetMaps:
    """The maps in some files and directories.

    Args:
        paths: map files, or directories with map files at any depth.

    Raises:
        KdumpError: a path holds no map, or a file is none.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._stretches: dict[PartitionName, list[_Stretch]] = {}
        for path in map(strip_credentials, paths):
            found = sorted(_maps_in(path))
            if not found:
                raise KdumpError(Codes.MISSING, f"holds no file *{OFFSET_MAP}", path=path)
            for file in found:
                self._read(file)
        for stretches in self._stretches.values():
            stretches.sort(key=itemgetter(0, 1))

    def translated(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row with topic, partition and offset; one of another partition stays as it is."""
        stretches = self._stretches.get((row["topic"], row["partition"]))
        if not stretches:
            return dict(row)
        number = bisect_right(stretches, row["offset"], key=itemgetter(0)) - 1
        first, new, (topic, partition) = stretches[max(number, 0)]
        # Without a stretch after it: the last line is the end. Between two stretches there was no record.
        most = stretches[number + 1][1] if number + 1 < len(stretches) else new
        offset = min(new + max(row["offset"] - first, 0), most)
        return {**row, "topic": topic, "partition": partition, "offset": offset}

    def _read(self, path: str) -> None:
        try:
            with open_source(path) as source:
                lines = csv.reader(line.decode("utf-8", "surrogateescape") for line in lines_of(source) if line)
                if tuple(next(lines, ())) != RENUMBERED:
                    raise ValueError("its first line is not that of an offset map")
                for topic, partition, offset, new_topic, new_partition, new_offset in lines:
                    stretch = int(offset), int(new_offset), (new_topic, int(new_partition))
                    self._stretches.setdefault((topic, int(partition)), []).append(stretch)
        except (ValueError, csv.Error) as error:
            raise KdumpError(Codes.UNREADABLE, f"no map of offsets: {error}", path=path) from error


def _maps_in(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        # The backups of restored partitions may hold older maps.
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(folder, name) for name in names if name.endswith(OFFSET_MAP))
