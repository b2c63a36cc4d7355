"""How much good data a range of a log holds, with damage in it stepped over."""

from __future__ import annotations

from dataclasses import dataclass

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


def torn_end(source: Source, position: int, next_offset: int) -> int:
    """The end offset of the damaged batch at ``position``, as far as its header can be believed.

    Args:
        source: a log.
        position: where its good part ends.
        next_offset: the offset with which the batch must begin; the result if it does not.
    """
    data = source.read(position, HEADER_SIZE)
    if len(data) == HEADER_SIZE and data[MAGIC_OFFSET] == 2:
        header = parse_header(data)
        if header.base_offset == next_offset and header.record_count == header.last_offset_delta + 1:
            return header.last_offset + 1
    return next_offset


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
