"""Which schemas the keys and values of topics have, by the ids and GUIDs that they name. Nothing is decoded."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.codes import KdumpError, OnError
from kdump.fast.ragged import windows
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.payloads.decoded import RecordPart
from kdump.rows.columns import Row
from kdump.schemas.decoder import (
    GUID,
    GUID_END,
    HEADERS,
    ID,
    ID_END,
    NotFramedError,
    SchemaDecoder,
    SchemaFrame,
    UnknownSchemaError,
    parse_frame,
)
from kdump.schemas.registry import Place, Registry, SchemaVersion
from kdump.schemas.topic import Registries, schema_partitions
from kdump.stats.reach import is_internal
from kdump.verify.partitionentries import PartitionEntries

_NO_FRAME: Final = SchemaFrame(None, None, 0)
_MOST_FRAMES: Final = 100_000
"""Ids and GUIDs of a topic that are told apart; others are those of no schema."""
_Used: TypeAlias = set[tuple[str, int]]
"""Contexts and ids."""


@dataclass(slots=True)
class Use:
    """Records whose key or value has one schema: how many, the bytes of these keys or values, and their times (ms)."""

    records: int = 0
    bytes: int = 0
    first: int | None = None
    last: int | None = None

    def add(self, sizes: NDArray[np.integer], times: NDArray[np.int64]) -> None:
        """Some more, one or more; a time of -1 is none."""
        self.records += sizes.size
        self.bytes += int(sizes.sum())
        known = times[times >= 0]
        if known.size:
            lowest, highest = int(known.min()), int(known.max())
            self.first = lowest if self.first is None else min(self.first, lowest)
            self.last = highest if self.last is None else max(self.last, highest)


class Uses:
    """What is used in one topic: a fold over its records."""

    def __init__(self) -> None:
        self.by_frame: dict[tuple[RecordPart, SchemaFrame], Use] = {}

    def update(self, groups: RecordGroups) -> None:
        """Add the next records; those of control batches do not count."""
        table = groups.table.select(~groups.is_control.repeat(groups.rows))
        for part, start, size in (
            (RecordPart.KEY, table.key_start, table.key_size),
            (RecordPart.VALUE, table.value_start, table.value_size),
        ):
            rows = np.flatnonzero(size >= 0)
            with_header = _header_frames(table, HEADERS[part], size)
            rows = rows[~np.isin(rows, list(with_header))]
            for frame, chosen in _frames(table.arena, start, size, rows):
                self._add(part, frame, size, table.timestamp, chosen)
            for row, frame in with_header.items():
                self._add(part, frame, size, table.timestamp, np.array([row]))

    def _add(
        self,
        part: RecordPart,
        frame: SchemaFrame,
        size: NDArray[np.int32],
        time: NDArray[np.int64],
        rows: NDArray[np.intp],
    ) -> None:
        if len(self.by_frame) >= _MOST_FRAMES and (part, frame) not in self.by_frame:
            frame = _NO_FRAME
        use = self.by_frame.setdefault((part, frame), Use())
        use.add(size[rows], time[rows])


def _frames(
    arena: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.int32], rows: NDArray[np.intp]
) -> Iterator[tuple[SchemaFrame, NDArray[np.intp]]]:
    """The frames at the start of the data of some rows, each with its rows; no frame is one, too."""
    if not rows.size:
        return
    kind = np.full(rows.size, -1, np.int64)
    there = size[rows] > 0
    kind[there] = arena[start[rows[there]]]
    is_id = (kind == ID) & (size[rows] >= ID_END)
    is_guid = (kind == GUID) & (size[rows] >= GUID_END)
    if (with_id := rows[is_id]).size:
        numbers = windows(arena, ID_END - 1)[start[with_id] + 1].view(">i4")
        for number in np.unique(numbers).tolist():
            yield SchemaFrame(number, None, ID_END), with_id[numbers == number]
    by_guid: dict[bytes, list[int]] = {}
    for row in rows[is_guid].tolist():
        by_guid.setdefault(arena[start[row] + 1 : start[row] + GUID_END].tobytes(), []).append(row)
    for guid, own in by_guid.items():
        yield SchemaFrame(None, str(uuid.UUID(bytes=guid)), GUID_END), np.array(own)
    if (others := rows[~is_id & ~is_guid]).size:
        yield _NO_FRAME, others


def _header_frames(table: RecordTable, name: bytes, size: NDArray[np.int32]) -> dict[int, SchemaFrame]:
    """The frames in headers, by their rows; of several the last one counts. ``size``: of the data, -1 for null."""
    headers = table.headers
    found: dict[int, SchemaFrame] = {}
    if not headers.key_size.size:
        return found
    owners = np.repeat(np.arange(table.rows), table.header_count)
    view = table.arena.data
    for number in np.flatnonzero(headers.key_size == len(name)).tolist():
        first, row = int(headers.key_start[number]), int(owners[number])
        if view[first : first + len(name)] == name and size[row] >= 0:
            found.pop(row, None)
            if headers.value_size[number] >= 0:
                begin = int(headers.value_start[number])
                with suppress(NotFramedError):
                    found[row] = parse_frame(bytes(view[begin : begin + int(headers.value_size[number])]))
    return found


def topic_uses(logs: PartitionEntries, on_error: OnError) -> dict[str, Uses]:
    """What is used in each topic but those of Kafka and of registries."""
    own = {partition.directory for partition in schema_partitions(logs)}
    uses: dict[str, Uses] = {}
    for partition in logs.partitions:
        if partition.directory in own or is_internal(partition):
            continue
        topic = partition.logs[0].context.topic or ""
        for log in partition.logs:
            try:
                for entries in logs.of(log):
                    for groups in entries.record_groups():
                        uses.setdefault(topic, Uses()).update(groups)
            except KdumpError as error:
                on_error(error.located(log.context.file))
    return uses


def usage_rows(logs: PartitionEntries, registries: Registries, on_error: OnError) -> list[Row]:
    """A row of each schema that a topic uses, by topic and id, then of each version that nobody uses.

    Keys without a frame, and numbers that only look like one, are of no schema; where no key of a topic has one, they
    have no row.
    """
    uses = topic_uses(logs, on_error)
    used: dict[str, _Used] = {name: set() for name in registries.of}
    rows: list[Row] = []
    for topic, found in sorted(uses.items()):
        name = registries.name_of(topic)
        rows += _topic_rows(topic, found, registries.of[name], used[name])
    for name, registry in registries.of.items():
        rows += _unused_rows(registry, used[name])
    return rows


def _topic_rows(topic: str, found: Uses, registry: Registry, used: _Used) -> Iterator[Row]:
    for part in RecordPart:
        decoder = SchemaDecoder(part, topic, registry)
        merged: dict[tuple[int | None, str | None], tuple[Row, Use]] = {}
        for (own, frame), use in found.by_frame.items():
            if own is part:
                head = _head(decoder, registry, frame, used)
                if part is RecordPart.KEY and not head["inRegistry"] and frame.guid is None:
                    head = _head(decoder, registry, _NO_FRAME, used)
                _, before = merged.setdefault((head["id"], head["guid"]), (head, Use()))
                before.records += use.records
                before.bytes += use.bytes
                times = [one for one in (before.first, before.last, use.first, use.last) if one is not None]
                before.first, before.last = min(times, default=None), max(times, default=None)
        if part is RecordPart.KEY and not any(head["inRegistry"] for head, _ in merged.values()):
            continue
        for _, (head, use) in sorted(merged.items(), key=lambda item: (item[0][0] is None, item[0][0] or 0)):
            yield _row(topic, part.value, head, use)


def _head(decoder: SchemaDecoder, registry: Registry, frame: SchemaFrame, used: _Used) -> Row:
    head: Row = {"id": frame.id, "guid": frame.guid, "schemaType": None, "subjects": [], "inRegistry": None}
    if not frame.is_one:
        return head
    try:
        version, _ = decoder.find(frame)
    except UnknownSchemaError:
        return {**head, "inRegistry": False}
    used.add((version.context, version.id))
    return _named(registry, version, registry.places_of(version))


def _named(registry: Registry, version: SchemaVersion, places: Iterable[Place]) -> Row:
    return {
        "id": version.id,
        "guid": registry.guid_of(version),
        "schemaType": version.type,
        "subjects": [place._asdict() for place in places],
        "inRegistry": True,
    }


def _unused_rows(registry: Registry, used: _Used) -> Iterator[Row]:
    """Versions that no record has, and that none which a record has needs."""
    waiting = [one for one in registry.ordered if (one.context, one.id) in used]
    needed = {one.place for one in waiting}
    while waiting:
        one = waiting.pop()
        for found in (registry.referred(reference, one.context) for reference in one.references):
            if found is not None and found.place not in needed:
                needed.add(found.place)
                waiting.append(found)
    for version in registry.ordered:
        if version.place not in needed:
            yield _row(None, None, _named(registry, version, [version.place]), Use())


def _row(topic: str | None, part: str | None, head: Row, use: Use) -> Row:
    return {
        "type": "stats",
        "by": "schema",
        "topic": topic,
        "part": part,
        **head,
        "records": use.records,
        "bytes": use.bytes,
        "minTimestamp": use.first,
        "maxTimestamp": use.last,
    }
