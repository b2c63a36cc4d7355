"""The index files beside a log: which of them differ from what they should be, or are wrong by the rules of verify."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from typing import Final

from kdump.codes import KdumpError, Severity
from kdump.format.index import AbortedTxn
from kdump.log.files import directory_of
from kdump.log.names import Kind, parse_file_name, sibling
from kdump.log.opening import check_size, open_source
from kdump.log.siblings import was_cleaned
from kdump.log.source import Source
from kdump.verify.batchtable import BatchTable
from kdump.verify.ordered import OrderedChecks
from kdump.verify.segment import CheckOptions, SegmentReading, check_segment
from kdump.verify.siblings import SegmentFiles, check_segment_files

_BLOCK: Final = 1 << 20


def has_indexes(path: str) -> bool:
    """The file is a log, which has index files. A KRaft checkpoint has none."""
    name = parse_file_name(path)
    return name is not None and name.kind is Kind.LOG


def has_txn_index(path: str) -> bool:
    """There is a .txnindex beside the log ``path``."""
    return os.path.lexists(sibling(path, Kind.TXN_INDEX))


def differing(path: str, contents: Mapping[Kind, bytes]) -> dict[Kind, bytes]:
    """Those of ``contents`` (the index files of the log ``path`` as they should be) that differ from the files.

    Zeros after the entries, as a running or killed broker leaves them, make no difference.
    """
    return {kind: content for kind, content in contents.items() if not _holds(path, kind, content)}


def _holds(path: str, kind: Kind, content: bytes) -> bool:
    name = sibling(path, kind)
    if not os.path.lexists(name):
        return False
    try:
        with open_source(name) as source:
            # A sparse file has more zeros than anybody can read.
            check_size(name, source.size or 0)
            if source.read(0, len(content)) != content:
                return False
            position = len(content)
            while found := source.read(position, _BLOCK):
                if found.count(0) < len(found):
                    return False
                position += len(found)
    except KdumpError:
        return False
    return True


def unfit_indexes(
    source: Source, base_offset: int, kinds: Set[Kind], *, is_closed: bool, aborted: Sequence[AbortedTxn] | None
) -> set[Kind]:
    """Those of some kinds of index files beside a log of which something is wrong or missing.

    Args:
        source: the log, which is walked once.
        base_offset: of its name.
        kinds: which of them.
        is_closed: nothing is appended to the segment any more.
        aborted: what its .txnindex should hold, None if that is not known.
    """
    beside = SegmentFiles(source.path)
    table = BatchTable(beside.asked)
    # Only a .txnindex depends on producers, of which there may be a million.
    ordered = OrderedChecks(
        is_compacted=was_cleaned(directory_of(source.path)) or None, follows_producers=Kind.TXN_INDEX in kinds
    )
    reading = SegmentReading(source, options=CheckOptions(deep=False))
    for _ in check_segment(reading, base_offset, source.path, ordered, on_rows=table.add):
        pass
    log = table.log_view(base_offset, source.size or 0, [])
    findings = check_segment_files(
        beside,
        log,
        is_closed=is_closed,
        aborted=aborted,
        idle_aborts=ordered.idle_aborts,
        is_compacted=ordered.is_compacted,
    )
    names = (parse_file_name(finding.path or "") for finding in findings if finding.severity is not Severity.INFO)
    return {name.kind for name in names if name is not None and name.kind in kinds}
