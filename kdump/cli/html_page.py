"""``--html``: the file, and the findings of a run that belong in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kdump.cli.report_place import check_report_place
from kdump.codes import Codes, Finding, KdumpError
from kdump.system.files import NewFile, publish
from kdump.verify.summary import SegmentSummary

if TYPE_CHECKING:
    from kdump.stats.groupfigures import FiguresReport
    from kdump.stats.grouping import By
    from kdump.stats.offsettimes import CurveStep

_MOST_FINDINGS: Final = 2000
_STDOUT: Final = 1


class HtmlPage:
    """The report of a run.

    Args:
        path: the file, which appears when it is whole, in place of an older report.
        names: what is read.

    Raises:
        KdumpError: UNREADABLE without plotly, UNWRITABLE where the file cannot be made, or where it would take the
            place of something else; said before anything is read.
    """

    def __init__(self, path: str, names: Sequence[str]) -> None:
        from kdump.stats.htmlreport import DOCTYPE, why_no_html

        missing = why_no_html()
        if missing is not None:
            raise KdumpError(Codes.UNREADABLE, missing)
        self._is_stream = _is_stream(path)
        # The target of a link becomes the report, and the link stays.
        target = path if self._is_stream else os.path.realpath(path)
        place = path if self._is_stream else os.path.dirname(target)
        if os.path.isdir(target) or not os.access(place, os.W_OK):
            raise KdumpError(Codes.UNWRITABLE, Codes.UNWRITABLE.value.title, path=path)
        check_report_place(path, DOCTYPE.encode())
        self._path = path
        self._target = target
        self._names = names
        self._segments: list[SegmentSummary] = []
        self._findings: list[Finding] = []
        self._left_out = 0

    def see(self, item: Finding | SegmentSummary) -> None:
        """Take the next item of the checks."""
        if isinstance(item, SegmentSummary):
            self._segments.append(item)
        elif len(self._findings) < _MOST_FINDINGS:
            self._findings.append(item)
        else:
            self._left_out += 1

    def write(self, report: FiguresReport, by: By, curves: Mapping[str, Sequence[CurveStep]]) -> None:
        """Put the file in its place. KdumpError UNWRITABLE when that fails."""
        from kdump.stats.charts import ReportData
        from kdump.stats.htmlreport import html_report

        data = ReportData(report.total, curves, self._segments, self._findings, self._left_out)
        text = html_report(report, by, data, self._names)
        try:
            write_file(self._target, text.encode("utf-8", "replace"), is_stream=self._is_stream)
        except OSError as error:
            raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=self._path) from error


def _is_stream(path: str) -> bool:
    """A device, a pipe, or the target of standard output, to which ``/dev/stdout`` links. It must not be replaced."""
    if not os.path.exists(path):
        return False
    return not os.path.isfile(path) or os.path.samestat(os.stat(path), os.fstat(_STDOUT))


def write_file(path: str, data: bytes, *, is_stream: bool) -> None:
    """A file that appears whole; a stream is written to."""
    if is_stream:
        with open(path, "ab") as stream:
            stream.write(data)
        return
    file = NewFile(path)
    try:
        file.write(data)
        publish([file.finish()])
    except BaseException:
        file.discard()
        raise
