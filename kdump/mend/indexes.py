"""The index files beside a log: which are unfit, and what they are to hold instead."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kdump.checks.batchtable import BatchTable
from kdump.checks.ordered import OrderedChecks
from kdump.checks.segment import CheckOptions, check_segment
from kdump.checks.siblings import check_segment_files
from kdump.codes import KdumpError, Severity
from kdump.format.index import AbortedTxn
from kdump.log.names import Kind, parse_file_name, sibling
from kdump.log.source import Source, read_whole

INDEX_KINDS: Final = (Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)


def has_txn_index(path: str) -> bool:
    """There is a .txnindex beside the log ``path``."""
    return os.path.lexists(sibling(path, Kind.TXN_INDEX))


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
    ordered = OrderedChecks()
    for _ in check_segment(source, base_offset, ordered, options=CheckOptions(deep=False), on_rows=table.add):
        pass
    log = table.log_view(base_offset, source.size or 0, [])
    findings = check_segment_files(
        source.path, log, is_closed=is_closed, aborted=aborted, is_compacted=ordered.is_compacted
    )
    names = (parse_file_name(finding.path or "") for finding in findings if finding.severity is not Severity.INFO)
    return {name.kind for name in names if name is not None}


def differing(path: str, contents: Mapping[Kind, bytes], kinds: Iterable[Kind] = INDEX_KINDS) -> dict[Kind, bytes]:
    """Those of ``contents`` (the index files of the log ``path`` as they should be) that the files do not hold.

    Zeros behind the entries, as the files of a running or killed broker have them, make no difference.
    """
    return {kind: contents[kind] for kind in kinds if kind in contents and not _holds(path, kind, contents[kind])}


def _holds(path: str, kind: Kind, content: bytes) -> bool:
    name = sibling(path, kind)
    if not os.path.lexists(name):
        return False
    try:
        found = read_whole(name)
    except KdumpError:
        return False
    return found[: len(content)] == content and not any(found[len(content) :])
