"""Before the segments are loaded: what a cleaner or a split left is finished or deleted.

Source: docs/spec/startup.md#2-before-the-segments (rules 3 to 6; LogLoader.removeTempFilesAndCollectSwapFiles, load).
"""

from __future__ import annotations

from kdump.kafka.startup.errors import StartFailureError
from kdump.kafka.startup.loading import Loading
from kdump.kafka.startup.names import CLEANED, DELETED, KRAFT_DELETED, LOG, SWAP, offset_of


def finish_swaps(loading: Loading) -> None:
    """Remove .deleted and .cleaned files, and put .swap files in the place of what they replace.

    Raises:
        StartFailureError: a name without an offset, or a .log.swap that cannot be read.
    """
    directory = loading.directory
    swaps = _without_temporary(loading)
    lowest, end = None, None
    for name in swaps:
        if name.endswith(LOG + SWAP):
            segment = loading.open_segment(offset_of(name), SWAP)
            next_offset = segment.next_offset()
            lowest = segment.base_offset if lowest is None else min(lowest, segment.base_offset)
            end = next_offset if end is None else max(end, next_offset)
    if lowest is not None and end is not None:
        for name in directory.names():
            if not name.endswith(SWAP) and lowest <= (_offset_or_none(name, lowest - 1)) < end:
                directory.remove(name)
    for name in directory.names():
        if name.endswith(SWAP):
            directory.rename(name, name.removesuffix(SWAP))


def _without_temporary(loading: Loading) -> list[str]:
    """Delete temporary files; returns the .swap files that stay."""
    directory = loading.directory
    cleaned: list[tuple[int, str]] = []
    swaps = []
    for name in directory.names():
        if name.endswith(DELETED):
            if not name.endswith(KRAFT_DELETED):
                directory.remove(name)
        elif name.endswith(CLEANED):
            cleaned.append((offset_of(name), name))
        elif name.endswith(SWAP):
            swaps.append(name)
    least_cleaned = min(cleaned)[0] if cleaned else None
    stay = []
    for name in swaps:
        if least_cleaned is not None and offset_of(name) >= least_cleaned:
            directory.remove(name)
        else:
            # Parsed in any case, because a name without an offset ends the start.
            offset_of(name)
            stay.append(name)
    for _, name in cleaned:
        directory.remove(name)
    return stay


def _offset_or_none(name: str, otherwise: int) -> int:
    try:
        return offset_of(name)
    except StartFailureError:
        return otherwise
