"""Loads the segments: all files by name, one after the other.

Source: docs/spec/startup.md#3-loading-the-segments (rules 7, 8 and 10; LogLoader.loadSegmentFiles).
"""

from __future__ import annotations

from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.startup.byoffset import ByOffset
from kdump.kafka.startup.errors import StartFailureError
from kdump.kafka.startup.loading import Loading
from kdump.kafka.startup.names import INDEX_SUFFIXES, LOG, file_name, offset_of


def load_segments(loading: Loading) -> None:
    """Open every .log, recover those whose index files are not right, and delete index files without a .log.

    Raises:
        OffsetOverflowError: a segment would be split.
        StartFailureError: a name without an offset; a segment that cannot be opened or recovered.
    """
    directory = loading.directory
    loading.segments = ByOffset()
    for name in directory.names():
        if name not in directory:
            continue
        if name.endswith(INDEX_SUFFIXES):
            if file_name(offset_of(name), LOG) not in directory:
                directory.remove(name)
        elif name.endswith(LOG):
            segment = loading.open_segment(offset_of(name))
            if segment.needs_recovery():
                try:
                    loading.recover_segment(segment)
                except KafkaFailureError as error:
                    raise StartFailureError.of(error) from None
            loading.segments[segment.base_offset] = segment
