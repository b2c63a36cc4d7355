"""Groups, committed offsets and transactions as tables for people."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from kdump.rows.columns import Row
from kdump.rows.scalarlines import json_text, plain
from kdump.state.metadatapage import time_text
from kdump.stats.rowtable import table_parts, titled

COLUMNS: Final = {
    "group": titled("group, groupType=type, state, epoch, memberNames=members"),
    "committedOffset": titled(
        "group, topic, partition, offset, logEndOffset=log end, lag, "
        "isOutOfRange=out of range, commitTimestamp=committed, metadata"
    ),
    "transactionalId": titled(
        "transactionalId=transactional id, state, producerId=producer, producerEpoch=epoch, "
        "transactionLastUpdateTimestamp=last update, partitions"
    ),
    "openTransaction": titled(
        "topic, partition, producerId=producer, producerEpoch=epoch, "
        "firstOffset=first offset, startTimestamp=start, isKnown=known, "
        "transactionalId=transactional id, abort=hanging: abort it with"
    ),
    "offsetForTime": titled("topic, partition, offset, timestamp, logStartOffset=log start, logEndOffset=log end"),
    "remoteSegment": titled(
        "topic, partition, startOffset=start offset, endOffset=end offset, size=bytes, state, "
        "eventTimestamp=since, segmentId=remote segment"
    ),
    "schema": titled("subject, version, id, schemaType=type, guid=GUID, deleted"),
    "subject": titled("subject, compatibility, mode"),
    "context": titled("context"),
    "schemaUse": titled(
        "topic, part=of, id, places=versions, schemaType=type, inRegistry=in the registry, "
        "records, bytes, minTimestamp=first, maxTimestamp=last"
    ),
    "key": titled("key, value, offset, timestamp"),
}
"""Columns and titles of a table by the type of its rows."""


def state_table(kind: str, rows: Collection[Row], *, width: int, color: bool) -> Iterator[str]:
    """The rows as a table, in parts; none without rows."""
    if not rows:
        return
    if kind == "group":
        rows = [row | {"memberNames": [_member(member) for member in row["members"]]} for row in rows]
    if kind == "key":
        rows = [row | {"key": _text(row["key"]), "value": _text(row["value"])} for row in rows]
    if kind == "schemaUse":
        rows = list(map(_use, rows))
    columns = COLUMNS[kind]
    if kind == "committedOffset" and all(row["logEndOffset"] is None for row in rows):
        # No log of these partitions is among the paths.
        columns = {
            name: title for name, title in columns.items() if name not in ("logEndOffset", "lag", "isOutOfRange")
        }
    yield from table_parts(columns, rows, width=width, color=color)


def _use(row: Row) -> Row:
    """The use of a schema, with its versions and times as text."""
    times = {name: None if row[name] is None else time_text(row[name]) for name in ("minTimestamp", "maxTimestamp")}
    return {**row, **times, "places": [f"{one['subject']} {one['version']}" for one in row["subjects"]]}


def _member(member: Mapping[str, Any]) -> str:
    assignment = ", ".join(member["assignment"])
    return f"{member['clientId']} ({assignment})" if assignment else str(member["clientId"])


def _text(value: Any) -> str:
    """A key or value: text as it is, else JSON; bytes that are no text in base64."""
    shown = plain(value)
    return shown if isinstance(shown, str) else json_text(shown)
