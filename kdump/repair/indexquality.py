"""Whether index files are fit for their log, as verify judges it."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.codes import Severity
from kdump.format.index import AbortedTxn
from kdump.log.files import directory_of
from kdump.log.names import Kind, parse_file_name
from kdump.log.siblings import was_cleaned
from kdump.log.source import Source
from kdump.verify.batchtable import BatchTable
from kdump.verify.ordered import OrderedChecks
from kdump.verify.segment import CheckOptions, SegmentReading, check_segment
from kdump.verify.siblings import SegmentFiles, check_segment_files


def unfit_indexes(
    source: Source, base_offset: int, *, is_closed: bool, aborted: Sequence[AbortedTxn] | None
) -> set[Kind]:
    """The kinds of index files beside a log of which something is wrong or missing.

    Args:
        source: the log, which is walked once.
        base_offset: of its name.
        is_closed: nothing is appended to the segment any more.
        aborted: what its .txnindex should hold, None where that is not known.
    """
    table = BatchTable()
    ordered = OrderedChecks(is_compacted=was_cleaned(directory_of(source.path)) or None)
    look = SegmentReading(source, options=CheckOptions(deep=False))
    for _ in check_segment(look, base_offset, source.path, ordered, on_rows=table.add):
        pass
    log = table.log_view(base_offset, source.size or 0, [])
    findings = check_segment_files(
        SegmentFiles(source.path),
        log,
        is_closed=is_closed,
        aborted=aborted,
        idle_aborts=ordered.idle_aborts,
        is_compacted=ordered.is_compacted,
    )
    names = (parse_file_name(finding.path or "") for finding in findings if finding.severity is not Severity.INFO)
    return {name.kind for name in names if name is not None}
