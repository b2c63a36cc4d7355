"""Splits a segment whose offsets do not fit it.

Source: docs/spec/startup.md#rule-12-offsets-that-do-not-fit-a-segment (LogLoader.retryOnOffsetOverflow,
LocalLog.splitOverflowedSegment).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from kdump.format.batch import MAGIC, MAGIC_OFFSET, MAX_INT32
from kdump.format.legacy import parse_message
from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.segmentindexes import IndexBuilder
from kdump.kafka.startup.batches import StoredBatch, batches
from kdump.kafka.startup.loader import Loading
from kdump.kafka.startup.names import CLEANED, DELETED, INDEX, LOG, SWAP, TIME_INDEX, file_name
from kdump.kafka.startup.outcome import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    NO_SUCH_ELEMENT,
    NO_SUCH_FILE,
    StartFailureError,
)
from kdump.kafka.startup.segment import OffsetOverflowError, StartSegment
from kdump.log.content import Content
from kdump.log.source import Source

_Result = TypeVar("_Result")
_MOST_SPLITS: Final = 1000
"""Most splits in one start: a broker would go on forever if a segment came back unchanged."""


def split_on_overflow(loading: Loading, step: Callable[[Loading], _Result]) -> _Result:
    """Run a step, and again from the beginning each time a segment had to be split.

    Raises:
        StartFailureError: a segment does not fit and cannot be split.
    """
    for _ in range(_MOST_SPLITS):
        try:
            return step(loading)
        except OffsetOverflowError as overflow:
            segment = overflow.segment
            span = segment.next_offset() - 1 - segment.base_offset
            if span <= MAX_INT32:
                message = f"{overflow.message}, and a segment that ends within its range is not split"
                raise StartFailureError(ILLEGAL_ARGUMENT, message) from None
            _split(loading, segment)
    raise StartFailureError("", "a segment is split again and again, without an end")


def _split(loading: Loading, segment: StartSegment) -> None:
    made = _made_parts(loading, segment)
    is_loaded = segment.base_offset in loading.segments
    parts = {part.base_offset: part for part in made}
    for part in made:
        part.rename(CLEANED, SWAP)
        loading.segments[part.base_offset] = part
    if is_loaded:
        if segment.base_offset != made[0].base_offset:
            del loading.segments[segment.base_offset]
        loading.delete_later(segment.rename("", DELETED))
        if segment.base_offset not in parts:
            loading.remove_snapshot(segment.base_offset)
    for part in made:
        part.rename(SWAP, "")


def _made_parts(loading: Loading, segment: StartSegment) -> list[StartSegment]:
    """The new segments in the order of their base offsets, as .cleaned files; they are written once all are complete.

    Raises:
        StartFailureError: a part cannot be made. Two have the same base offset: the files of the later one replace
            those of the earlier one, which a broker then does not find when it renames them.
    """
    directory = loading.directory
    log = directory[segment.log_name]
    made = {}
    repeated: int | None = None
    with directory.open(segment.log_name) as source:
        for base_offset, start, end, indexes in _parts(source, log.size, loading.settings.max_index_size):
            if base_offset in made:
                repeated = base_offset
            made[base_offset] = log.part(start, end), indexes.contents()
    if repeated is not None:
        name = file_name(repeated, LOG) + CLEANED
        raise StartFailureError(NO_SUCH_FILE, f"two parts of {segment.log_name} are called {name}", is_io=True)
    for base_offset, (content, contents) in made.items():
        directory[file_name(base_offset, LOG) + CLEANED] = content
        directory[file_name(base_offset, INDEX) + CLEANED] = Content.of_bytes(contents.index)
        directory[file_name(base_offset, TIME_INDEX) + CLEANED] = Content.of_bytes(contents.time_index)
    return [loading.open_segment(base_offset, CLEANED) for base_offset in sorted(made)]


def _parts(source: Source, size: int, max_index_size: int) -> Iterator[tuple[int, int, int, IndexBuilder]]:
    """The base offset of each part, where it begins and ends, and its index entries."""
    indexes: IndexBuilder | None = None
    base_offset = start = end = 0
    for batch in batches(source, 0):
        last_offset = batch.last_offset
        if indexes is not None and not 0 <= last_offset - base_offset <= MAX_INT32:
            yield base_offset, start, end, _finished(indexes)
            indexes = None
        if indexes is None:
            base_offset, start = batch.base_offset, end
            if not 0 <= last_offset - base_offset <= MAX_INT32:
                raise StartFailureError(ILLEGAL_STATE, f"the batch at position {start} fits no segment")
            indexes = IndexBuilder(base_offset, size=max_index_size)
        if batch.data[MAGIC_OFFSET] > MAGIC:
            # Unlike the code that reads a log for recovery, the copying code checks the magic byte.
            raise StartFailureError(CORRUPT_RECORD, f"the batch at position {batch.position} is of no known magic")
        try:
            indexes.add_batch(end - start, last_offset, _max_timestamp(batch))
        except KafkaFailureError as error:
            raise StartFailureError.of(error) from None
        end = batch.position + batch.size
    if indexes is not None:
        yield base_offset, start, end, _finished(indexes)
    if end < size:
        raise StartFailureError(NO_SUCH_ELEMENT, f"what is left at position {end} is no whole batch")


def _finished(indexes: IndexBuilder) -> IndexBuilder:
    try:
        indexes.finish()
    except KafkaFailureError as error:
        raise StartFailureError.of(error) from None
    return indexes


def _max_timestamp(batch: StoredBatch) -> int:
    if batch.is_v2:
        return batch.header.max_timestamp
    return parse_message(batch.data[: batch.size]).timestamp
