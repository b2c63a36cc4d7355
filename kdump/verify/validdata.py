"""How much good data a range of a log holds, with damage in it stepped over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kdump.format.batch import CONTROL, HEADER_SIZE, MAGIC_OFFSET, parse_header
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.verify.table import UNKNOWN_OFFSET, read_rows


@dataclass(frozen=True, slots=True)
class ValidData:
    """Batches whose framing and CRC hold.

    ``records`` counts by the headers, without control records; a compressed message of magic 0 or 1 counts as one.
    ``first_offset`` and ``last_offset`` are the lowest and highest, None without a batch.
    """

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def __add__(self, other: ValidData) -> ValidData:
        firsts = [offset for offset in (self.first_offset, other.first_offset) if offset is not None]
        lasts = [offset for offset in (self.last_offset, other.last_offset) if offset is not None]
        return ValidData(
            self.batches + other.batches,
            self.records + other.records,
            min(firsts, default=None),
            max(lasts, default=None),
        )


def valid_data(source: Source, position: int = 0) -> ValidData:
    """The good data of a log from file position ``position`` on.

    Raises:
        KdumpError: a stream cannot be read. What cannot be read of a file is damage.
    """
    found = ValidData()
    for item in ResyncWalk(source, start=position).items():
        if not isinstance(item, Gap):
            found += _of_chunk(item)
    return found


class TailEnd(NamedTuple):
    """The end offset of a log (exclusive) with the damaged batches at its end, as far as their headers are believed.

    ``whole``: with those that the file has whole. ``torn``: also with one that the file cuts.
    """

    whole: int
    torn: int


def tail_end(source: Source, position: int, next_offset: int, first_after: int | None = None) -> TailEnd:
    """Where the damaged batches from ``position`` on end.

    Args:
        source: a log.
        position: where its good part ends.
        next_offset: the offset with which the first of them must begin; the result if it does not.
        first_after: the lowest offset of a good batch after them, None without one.
    """
    size = source.size or 0
    whole = next_offset
    while len(data := source.read(position, HEADER_SIZE)) == HEADER_SIZE and data[MAGIC_OFFSET] == 2:
        header = parse_header(data)
        is_next = header.base_offset == next_offset != first_after
        if not is_next or not 0 < header.record_count == header.last_offset_delta + 1:
            break
        next_offset, position = header.last_offset + 1, position + max(header.size, HEADER_SIZE)
        whole = next_offset if position <= size else whole
    return TailEnd(whole, next_offset)


def _of_chunk(chunk: CheckedChunk) -> ValidData:
    rows = read_rows(chunk, is_after_gap=False)
    rows = rows[rows["is_valid"]]
    if not rows.size:
        return ValidData()
    is_data = (rows["magic"] < 2) | (rows["attributes"] & CONTROL == 0)
    base_offset = rows["base_offset"]
    base_offset[base_offset == UNKNOWN_OFFSET] = rows["last_offset"][base_offset == UNKNOWN_OFFSET]
    return ValidData(
        rows.size,
        int(rows["record_count"][is_data & (rows["record_count"] > 0)].sum(dtype="i8")),
        int(base_offset.min()),
        int(rows["last_offset"].max()),
    )
