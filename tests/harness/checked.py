"""Segments in memory, checked: what the tests of ``checks`` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kdump.codes import Codes, Finding
from kdump.log.source import Source
from kdump.verify.gaps import NextSegment
from kdump.verify.ordered import OrderedChecks
from kdump.verify.segment import CheckOptions, Rows, SegmentReading, check_segment
from tests.harness.memory import MemorySource


def check_source(
    source: Source,
    base_offset: int | None,
    ordered: OrderedChecks,
    *,
    following: NextSegment | None = None,
    options: CheckOptions | None = None,
    on_rows: Callable[[Rows], None] = lambda rows: None,
) -> Iterator[Finding]:
    """Look at one segment and check it."""
    return check_segment(SegmentReading(source, following, options), base_offset, source.path, ordered, on_rows=on_rows)


def check(
    *segments: bytes,
    base_offsets: Iterable[int | None] = (0,),
    following: NextSegment | None = None,
    options: CheckOptions | None = None,
    ordered: OrderedChecks | None = None,
) -> list[Finding]:
    """All findings of a partition with these segments."""
    ordered = ordered or OrderedChecks()
    found = []
    for data, base_offset in zip(segments, base_offsets, strict=True):
        found += check_source(MemorySource(data), base_offset, ordered, following=following, options=options)
    return found + list(ordered.finish())


def both_ways(*segments: bytes, base_offsets: Iterable[int | None] = (0,), **arguments: object) -> list[Finding]:
    """The same, by tuples and by columns, which must agree."""
    bases = list(base_offsets)
    deep = bool(arguments.pop("deep", True))
    results = [
        check(*segments, base_offsets=bases, options=CheckOptions(deep=deep, columnar=columnar), **arguments)  # type: ignore[arg-type]
        for columnar in (False, True)
    ]
    by_rows, by_columns = (sorted(result, key=repr) for result in results)
    assert by_rows == by_columns
    return results[0]


def codes(findings: Iterable[Finding]) -> list[Codes]:
    return [finding.code for finding in findings]
