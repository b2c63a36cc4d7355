"""Where a report may be written: a file that somebody names must not be evidence, or anything else of value."""

from __future__ import annotations

import os
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.log.names import LOCK_FILE, TEXT_FILES, parse_file_name

_NAMES: Final = TEXT_FILES | {LOCK_FILE}
"""Some are empty, as an unfinished report is."""


def check_report_place(path: str, beginning: bytes) -> None:
    """Check that a report takes the place of an older one, of an empty file, of a device, or of nothing.

    ``beginning``: the bytes with which such a report begins. ``--html *.log`` makes the first log the file.

    Raises:
        KdumpError: UNWRITABLE, it would take the place of something else, or has the name of a Kafka file.
    """
    is_kafkas = parse_file_name(path) is not None or os.path.basename(path) in _NAMES
    if is_kafkas or not _may_be_replaced(path, beginning):
        raise KdumpError(Codes.UNWRITABLE, "is no place for a report: only an older one is written over", path=path)


def _may_be_replaced(path: str, beginning: bytes) -> bool:
    if not os.path.isfile(path):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(len(beginning)) in (b"", beginning)
    except OSError:
        return False
