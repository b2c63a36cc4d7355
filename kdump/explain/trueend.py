"""Finds the real end of a batch whose length field is wrong: the position up to which its CRC is right.

The CRC does not cover the length. The search tries the end of the records by their own lengths, each position at which
the next offset stands as another batch's base offset, and the end of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.explain.recordfields import survey_records
from kdump.format.batch import HEADER_SIZE, BatchHeader, batch_crc, parse_header, wrap_int64
from kdump.log.source import Source

_LOOK_AHEAD: Final = 1 << 24
"""The search covers so many bytes from the start of a batch."""
_MOST_CANDIDATES: Final = 64
_MAGIC: Final = 2


def true_end(source: Source, position: int, size: int) -> int | None:
    """The file position after the batch of magic 2 that begins at ``position``; None if no end fits its CRC.

    Args:
        source: the log.
        position: where the batch begins.
        size: of the log.

    Raises:
        KdumpError: UNREADABLE.
    """
    window = memoryview(source.read(position, min(size - position, _LOOK_AHEAD)))
    if len(window) < HEADER_SIZE:
        return None
    header = parse_header(window)
    if header.magic != _MAGIC:
        return None
    for end in end_candidates(header, window, is_whole=position + len(window) == size):
        if batch_crc(window, 0, end) == header.crc:
            return position + end
    return None


def end_candidates(header: BatchHeader, window: memoryview, *, is_whole: bool) -> Iterator[int]:
    """Indexes into ``window``, which begins with a batch of magic 2, at which the batch may end.

    ``is_whole``: the window ends where the file does.
    """
    if header.codec == 0 and header.record_count >= 0:
        survey = survey_records(window, HEADER_SIZE, len(window), most=header.record_count)
        if len(survey.starts) == header.record_count:
            yield survey.end
    if is_whole:
        yield len(window)
    following = wrap_int64(header.last_offset + 1).to_bytes(8, "big", signed=True)
    data = bytes(window)
    end = HEADER_SIZE - 1
    for _ in range(_MOST_CANDIDATES):
        end = data.find(following, end + 1)
        if end < 0:
            return
        yield end
