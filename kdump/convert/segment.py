"""Converts one segment. A plain function, so that a task of any engine can call it.

The written files are staged; the caller publishes or discards them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, cast

from kdump.codes import Codes, DamageError, Finding, KdumpError
from kdump.convert.conversion import Conversion, Losses
from kdump.convert.converter import Converter
from kdump.convert.encodedlog import EncodedLog
from kdump.convert.offsetmap import RENUMBERED, OffsetMap
from kdump.convert.output import OutputSegments, WrittenSegment
from kdump.convert.slices import EndMarker, SliceTransactions
from kdump.format.snapshot import ProducerEntry, parse_snapshot
from kdump.log.named import STDIN
from kdump.log.names import Kind, parse_file_name, partition_of_file, sibling
from kdump.log.opening import open_source, read_whole
from kdump.log.source import Source
from kdump.reading.outcomes import LateOutcomes, Outcomes
from kdump.reading.selection import Range
from kdump.reading.transactionreader import TransactionReader
from kdump.system.files import Staged, discard, status_of
from kdump.verify.validentries import EntryReader
from kdump.wire import compression
from kdump.worlds import World


class WorldEntries(EncodedLog):
    """A log of another world as a stream of legacy entries; ``findings``: the damage that was met and left out."""

    findings: list[Finding]


class WorldConversion(Protocol):
    """A log of another world as a log of today: the module ``convert`` of its package.

    ``LONGER``: bytes by which a message of today may be longer.
    """

    LONGER: int

    def encoded(self, path: str, first: int, *, magic: int, limit: int, offsets: OffsetMap) -> WorldEntries:
        """A log as entries.

        Args:
            path: of the log.
            first: the number of its first message.
            magic: of the entries, 0 or 1.
            limit: most bytes to which one entry may decompress.
            offsets: takes the position of each entry, and the number of the first message in it; at the end those that
                come next.

        Raises:
            KdumpError: it cannot be opened.
        """

    def count_messages(self, path: str, limit: int) -> int:
        """How many messages ``encoded`` gives of a log. Raises KdumpError where it cannot be read."""


def world_conversion(world: World) -> WorldConversion:
    """How logs of a world are converted."""
    conversion: WorldConversion = world.answer("convert")
    return conversion


@dataclass(frozen=True, slots=True)
class SegmentJob:
    """One segment and what becomes of it: all that a task needs to know.

    ``base_offset``: the offset in the name of the log at ``target``, None: that of its first record. A ``target`` that
    ends in ``/`` is the directory of a log that is named by its first record. ``from_json``: the source is JSON lines,
    not a log. ``is_alone``: nothing else of its partition is converted with it. ``world``: the source is a log of
    another world, and ``first`` the number of its first message. ``offset_map``: the file for the map of its byte
    positions, or of the offsets that are renumbered; None: it is not wanted. ``new_name``: topic and partition of the
    result, for that map; None: those of the source. ``like``: whose owner and mode the log gets; None: those of the
    source.
    """

    source: str
    target: str
    base_offset: int | None
    conversion: Conversion
    from_json: bool = False
    is_alone: bool = True
    world: World | None = None
    first: int = 0
    offset_map: str | None = None
    new_name: tuple[str, int] | None = None
    like: os.stat_result | None = None

    def open(self, offsets: OffsetMap) -> Source:
        """The log; for ``offsets`` see ``WorldConversion``. Raises as ``open_source``."""
        if self.world is not None:
            magic = 1 if self.conversion.to_magic == 1 else 0
            encoded = world_conversion(self.world).encoded
            return encoded(self.source, self.first, magic=magic, limit=self.conversion.limit, offsets=offsets)
        if not self.from_json:
            return open_source(self.source)
        from kdump.convert.jsonlog import JsonLog

        return JsonLog(open_source(self.source))

    def reader(self, source: Source, conversion: Conversion) -> EntryReader:
        """Reads the entries of the log. JSON lines that get new offsets may be in any order."""
        items = source.chunks() if isinstance(source, EncodedLog) else None
        if self.world is None:
            base = None if self.from_json or conversion.renumber is not None else self.base_offset
            return EntryReader(source, conversion.limit, in_order=not self.from_json, base_offset=base, items=items)
        longer = world_conversion(self.world).LONGER
        reader = EntryReader(source, conversion.limit + longer, in_order=True, items=items)
        # What is damage is told by the log that the entries are made of.
        reader.findings = cast(WorldEntries, source).findings
        return reader


@dataclass(slots=True)
class SegmentResult:
    """The result of a job. With ``error`` nothing is staged."""

    source: str
    error: KdumpError | None = None
    findings: list[Finding] = field(default_factory=list)
    """Damage: with an error the first finding, else what was left out."""
    segments: list[WrittenSegment] = field(default_factory=list)
    staged: list[Staged] = field(default_factory=list)
    losses: Losses = field(default_factory=Losses)
    records: int | None = 0
    """Records written; None if there are some that were not counted."""
    left_out: int = 0
    """Unwanted records of aborted transactions."""
    markers: list[EndMarker] = field(default_factory=list)
    """End markers of transactions that were added to the requested part."""
    notes: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether it is a log without entries, or a file for other tools without records."""
        return bool(self.segments) and not any(
            segment.entries or (segment.entries is None and self.records != 0) for segment in self.segments
        )

    def discard(self, why: str) -> None:
        """Drop what was written."""
        discard(self.staged)
        self.staged, self.segments = [], []
        self.notes.append(why)

    def check(self, findings: list[Finding], conversion: Conversion) -> None:
        """Raise DamageError for damage that must not be left out."""
        if findings and not conversion.skip_damaged:
            self.findings = findings[:1]
            raise DamageError(findings[0].code, findings[0].message, position=findings[0].position)

    def up_to_open(self, conversion: Conversion, followed: TransactionReader) -> Conversion:
        """The conversion, with ``read_committed`` only up to the first open transaction, where such readers stop.

        Args:
            conversion: what is asked for.
            followed: the transactions of the partition.

        Raises:
            KdumpError: the transactions cannot be followed.
        """
        found = followed.first_open(self.source) if conversion.read_committed else None
        if found is None:
            return conversion
        offset, producer = found
        self.notes.append(f"read_committed ends at offset {offset}: producer {producer} has a transaction open")
        end = offset if conversion.offsets.end is None else min(conversion.offsets.end, offset)
        return replace(conversion, offsets=Range(conversion.offsets.first, end))

    @contextmanager
    def noting_errors(self, target: str) -> Iterator[None]:
        """Put errors inside this context into the result; errors of the system are about ``target``."""
        try:
            yield
        except KdumpError as error:
            self.error = error.located(self.source)
        except OSError as error:
            path = os.fspath(error.filename or target)
            self.error = KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=path)


def convert_segment(job: SegmentJob, followed: TransactionReader | None = None) -> SegmentResult:
    """Convert one segment; errors are in the result. The directory of the target exists.

    Args:
        job: the segment and its target.
        followed: the transactions of the partition, for all jobs of a run; None: only for this job.
    """
    result = SegmentResult(job.source)
    followed = followed or TransactionReader()
    with result.noting_errors(job.target), _offset_map(job) as offsets, job.open(offsets) as source:
        conversion = result.up_to_open(job.conversion, followed)
        reader = job.reader(source, conversion)
        part = _part(job, source, conversion, followed)
        stretches = offsets if job.world is None and job.offset_map is not None else None
        converter = Converter(reader, conversion, _outcomes(job, source, followed), part, stretches)
        producers = partial(_producers, job, conversion, part)
        with OutputSegments(
            job.target, job.base_offset, conversion.split_bytes, producers, job.like or status_of(job.source)
        ) as output:
            for entries in converter.entries():
                result.check(reader.findings, conversion)
                output.write(entries)
            result.check(reader.findings, conversion)
            output.finish()
        if stretches is not None:
            stretches.end()
        result.segments, result.staged = output.segments, [*offsets.staged(), *output.staged]
        result.findings, result.losses = reader.findings, converter.losses
        result.records, result.left_out = converter.records, converter.left_out
        if part is not None:
            result.markers = part.added
            result.notes += part.notes()
        if output.problem is not None:
            result.notes.append(f"the transaction index ends where a broker's recovery would stop: {output.problem}")
    return result


def _offset_map(job: SegmentJob) -> OffsetMap:
    if job.world is not None or job.offset_map is None:
        return OffsetMap(job.offset_map, status_of(job.source))
    name = partition_of_file(job.source) or ("", 0)
    return OffsetMap(job.offset_map, status_of(job.source), RENUMBERED, (name, job.new_name or name))


def count_records(job: SegmentJob, followed: TransactionReader) -> int:
    """How many records ``convert_segment`` would write, after which the offsets of the next segment begin.

    Args:
        job: the segment.
        followed: the transactions of the partition.

    Raises:
        KdumpError: the segment cannot be read.
    """
    # No compression, as the result is thrown away.
    conversion = replace(job.conversion, to_magic=None, codec=compression.NONE, level=None)
    with job.open(OffsetMap(None, None)) as source:
        conversion = SegmentResult(job.source).up_to_open(conversion, followed)
        converter = Converter(job.reader(source, conversion), conversion, _outcomes(job, source, followed))
        for _ in converter.entries():
            pass
    return converter.records


def _outcomes(job: SegmentJob, source: Source, followed: TransactionReader) -> Outcomes | None:
    return None if source.size is None else LateOutcomes(partial(followed.of, job.source))


def _part(
    job: SegmentJob, source: Source, conversion: Conversion, followed: TransactionReader
) -> SliceTransactions | None:
    """The transactions of a part of a log; None for a whole log, and without markers."""
    if not (conversion.selects and conversion.keeps_markers):
        return None
    reader = None if source.size is None else followed
    return SliceTransactions(job.source, conversion, reader, is_alone=job.is_alone)


def _producers(job: SegmentJob, conversion: Conversion, part: SliceTransactions | None) -> list[ProducerEntry]:
    """The producers at the segment's start, by a valid snapshot. Of a part only those with open transactions."""
    if part is not None:
        unknown = ProducerEntry(-1, -1, -1, -1, 0, -1, -1, -1)
        return [
            unknown._replace(producer_id=producer_id, current_txn_first_offset=first_offset)
            for producer_id, first_offset in part.open_before.items()
        ]
    if not conversion.keeps_markers or job.source == STDIN or parse_file_name(job.source) is None:
        return []
    with suppress(KdumpError):
        return parse_snapshot(read_whole(sibling(job.source, Kind.SNAPSHOT)))
    return []
