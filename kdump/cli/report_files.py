"""Files for which an option asks, such as ``--html``: where they may be written, and what goes into a page.

A file that somebody names must not be evidence, or anything else of value.
"""

from __future__ import annotations

import os
from typing import Final

from kdump.codes import Codes, Finding, KdumpError
from kdump.log.names import LOCK_FILE, TEXT_FILES, parse_file_name
from kdump.system.files import whole_file
from kdump.verify.summary import SegmentSummary

_MOST_FINDINGS: Final = 20_000
_STDOUT: Final = 1
_NAMES: Final = TEXT_FILES | {LOCK_FILE}
"""Some are empty, as an unfinished report is."""


class HtmlPage:
    """The report of a run.

    Args:
        path: the file, which appears when it is whole, in place of an older report.

    Attributes:
        segments: of the run.
        findings: of the run, of very many the first ones.
        left_out: how many more there are.

    Raises:
        KdumpError: UNWRITABLE where the file cannot be made, or where it would take the place of something else; said
            before anything is read.
    """

    def __init__(self, path: str) -> None:
        from kdump.verify.htmlpage import DOCTYPE

        self._is_stream = _is_stream(path)
        # The target of a link becomes the report, and the link stays.
        target = path if self._is_stream else os.path.realpath(path)
        place = path if self._is_stream else os.path.dirname(target)
        if os.path.isdir(target) or not os.access(place, os.W_OK):
            raise KdumpError(Codes.UNWRITABLE, Codes.UNWRITABLE.value.title, path=path)
        check_report_place(path, DOCTYPE.encode())
        self._path = path
        self._target = target
        self.segments: list[SegmentSummary] = []
        self.findings: list[Finding] = []
        self.left_out = 0

    def add_segment(self, summary: SegmentSummary) -> None:
        """The next segment."""
        self.segments.append(summary)

    def add_finding(self, finding: Finding) -> None:
        """The next finding."""
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(finding)
        else:
            self.left_out += 1

    def write(self, text: str) -> None:
        """Put the file in its place. KdumpError UNWRITABLE when that fails."""
        try:
            with open(self._target, "ab") if self._is_stream else whole_file(self._target) as file:
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:
            raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=self._path) from error


def _is_stream(path: str) -> bool:
    """A device, a pipe, or the target of standard output, to which ``/dev/stdout`` links. It must not be replaced."""
    if not os.path.exists(path):
        return False
    return not os.path.isfile(path) or os.path.samestat(os.stat(path), os.fstat(_STDOUT))


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
