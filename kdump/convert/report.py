"""The report of ``kdump convert``: lines for people, and JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.convert.segment import SegmentResult
from kdump.log.context import FileContext
from kdump.rows.columns import Table
from kdump.rows.filetables import CONVERTED, LOSS, MARKER
from kdump.rows.scalarlines import json_line
from kdump.system.blocks import escaped


def loss_lines(result: SegmentResult) -> Iterator[str]:
    """What a segment loses: a line per kind."""
    for loss, count in sorted(result.losses.items(), key=lambda item: item[0].label):
        yield f"{escaped(result.source)}: {count:,} {loss.unit} {loss.sentence}\n"


def loss_rows(result: SegmentResult) -> Iterator[str]:
    """What a segment loses, as rows of LOSS."""
    for loss, count in sorted(result.losses.items(), key=lambda item: item[0].label):
        yield _row(LOSS, result.source, loss.label, count, loss.unit)


def marker_rows(result: SegmentResult) -> Iterator[str]:
    """The transaction markers that were added to the requested part, as rows of MARKER."""
    for marker in result.markers:
        yield _row(MARKER, result.source, marker.offset, marker.producer_id, marker.producer_epoch, marker.control_type)


def converted_lines(result: SegmentResult) -> Iterator[str]:
    """The files that a segment became."""
    records = "" if result.records is None else f"{result.records:,} records, "
    if result.left_out:
        records += f"{result.left_out:,} of aborted transactions left out, "
    for segment in result.segments:
        yield f"{escaped(result.source)} -> {escaped(segment.path)}: {records}{segment.size:,} bytes\n"
        records = ""


def converted_row(result: SegmentResult) -> str:
    """The files that a segment became, as a row of CONVERTED."""
    target = FileContext.of(result.segments[0].path).file if result.segments else None
    size = sum(segment.size for segment in result.segments)
    return _row(CONVERTED, result.source, target, len(result.segments), size, result.records)


def _row(table: Table, path: str, *values: object) -> str:
    file = FileContext.of(path).columns().values()
    return json_line(dict(zip(table.names, (table.type, *file, *values), strict=True)))
