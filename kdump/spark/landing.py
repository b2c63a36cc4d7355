"""What a task of the pipeline does: it reads ranges of logs, and writes their records and their damage as Parquet.

Each offset of a range is one of these, so they add up to its length:

- landed: a record that was written.
- control: the record of a marker, which is counted only.
- aborted: with ``read_committed``, a record of a transaction that was aborted.
- quarantined: at most these offsets are lost in damaged bytes, which lie between the records before and after them.
- missing: no record has it, and no damage is there: compaction, or a hole.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.format.batch import (
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAX_INT32,
    MIN_ENTRY_LENGTH,
    is_read_as_batch,
    parse_header,
)
from kdump.log.context import FileContext, as_text
from kdump.log.gaps import Gap
from kdump.log.heads import read_head
from kdump.log.named import is_named
from kdump.log.names import MAX_OFFSET
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.payloads.choice import DecoderChoice
from kdump.reading.outcomes import COMMITTED
from kdump.reading.transactionreader import TransactionReader
from kdump.rows.arrow import arrow_schema
from kdump.rows.filetables import FINDING
from kdump.rows.tables import RECORD, RECORD_DECODED
from kdump.spark.byteranges import ByteRange, ChangedError
from kdump.spark.lake import Lake, LakeFile
from kdump.spark.positions import DataLossError
from kdump.spark.readfindings import FindingTask, read_findings
from kdump.spark.readrecords import ArrowOptions, arrow_rows
from kdump.tasks.logs import LogFile
from kdump.tasks.plaindata import PlainData
from kdump.verify.gaps import GapChecks, NextSegment
from kdump.verify.segment import CheckOptions

COUNTS: Final = ("landed", "control", "aborted", "missing", "quarantined")
NO_DATE: Final = "none"
OPEN_BATCH: Final = "_checkpoint/open"
"""Holds the token of the batch that is on its way."""
_NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"
"""How Hive and Spark name the directory of a null."""
_DAY: Final = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970: the dates that Spark has."""
_NO_TIME: Final = -1000
"""Microseconds of the timestamp -1, which stands for none."""
_ONLY_COUNTED: Final = ("type", "isControl", "controlType", "control", "isValid")
"""Columns that are the same in all records that land."""
_PIECE: Final = 1 << 20
"""Bytes of damage in a row."""
_MOST_HELD: Final = 128 << 20
"""Bytes of rows that wait for their row group."""
_MOST_OPEN: Final = 32
"""Files that are written at the same time."""
_WITHOUT_DICTIONARY: Final = ("key", "value", "headers", "decodedKey", "decodedValue", "offset", "bytes")
_WITHOUT_STATISTICS: Final = ("key", "value", "headers", "decodedKey", "decodedValue", "bytes")
_QUARANTINE: Final = pa.schema(
    [
        ("file", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("position", pa.int64()),
        ("length", pa.int64()), ("firstOffset", pa.int64()), ("lastOffset", pa.int64()), ("code", pa.string()),
        ("name", pa.string()), ("message", pa.string()), ("piece", pa.int32()), ("bytes", pa.binary()),
    ]
)  # fmt: skip
_LENGTH: Final = struct.Struct(">i")
_UNFITTING: Final = "the offsets do not fit those of other batches, or the names of the files"
_OTHERS_HAVE: Final = "records have offsets that others have"
Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LandRange:
    """The offsets ``low`` to ``high`` (exclusive; None: to the end) of one log, which lie from ``first`` on.

    Attributes:
        path: of the log.
        given: it with its credentials.
        base_offset: by its name.
        first: file position; ``stop``: where the bytes end that are read.
        reach: the first offset after the last whole batch, by the plan.
        tail: file position after that batch. What is read after it is damage whose offsets nobody knows.
        rolled_size: the size of a file that does not grow any more.
    """

    path: str
    given: str = field(repr=False)
    base_offset: int
    first: int
    stop: int
    low: int
    high: int | None
    reach: int
    tail: int
    rolled_size: int | None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.first

    @property
    def byte_range(self) -> ByteRange:
        """What is read."""
        context = FileContext.of(self.path)
        log = LogFile(self.path, context, self.base_offset, self.stop, given=self.given, is_named=is_named(self.path))
        return ByteRange(log, self.first, None, self.rolled_size)


class Landed(NamedTuple):
    """What became of a range.

    ``end``: the offset after its last one. ``counts``: of offsets, by COUNTS. ``repeated``: rows whose offset was there
    before. ``damaged``: damaged places. ``changed``: what was done to the file since the plan. ``error``: why it cannot
    be read. With one of these, nothing of the task has landed.
    """

    path: str
    end: int = 0
    counts: Mapping[str, int] = {}
    repeated: int = 0
    damaged: int = 0
    changed: str | None = None
    error: str | None = None


class Checked(NamedTuple):
    """How much ``verify`` found, and the number of errors of each directory that has some."""

    findings: int
    errors: dict[str, int]


LANDED: Final = PlainData((Landed, Checked))


@dataclass(frozen=True, slots=True)
class LandTask:
    """Logs whose rows share files, with the number that the files are named by; or partitions that are checked."""

    number: int
    ranges: tuple[LandRange, ...] = ()
    check: FindingTask | None = None


@dataclass(frozen=True, slots=True)
class Landing:
    """The function of the job: does a task, and gives what became of it.

    Attributes:
        target: with its credentials.
        batch: its number.
        token: of this attempt. Where another attempt has begun, nothing is written any more.
        folder: of the records.
        partition_by: names of columns that are directories; None: there are no directories, and ``date`` is a column.
        only_committed: without records of aborted transactions.
        decoding: of contents.
    """

    target: str = field(repr=False)
    batch: int
    token: str
    folder: str
    partition_by: tuple[str, ...] | None
    only_committed: bool = False
    decoding: DecoderChoice = field(default_factory=DecoderChoice)

    def __call__(self, task: LandTask) -> Iterator[Landed | Checked]:
        """See ``Work.function``. KdumpError: a file cannot be read or written, or another run has taken over."""
        lake = Lake(self.target)
        if task.check is not None:
            yield self._checked(lake, task, task.check)
            return
        tangled: set[str] = set()
        path = ""
        while True:
            sinks = self._sink(lake, task), self._sink(lake, task)
            done, transactions = [], TransactionReader()
            try:
                for each in task.ranges:
                    path = each.path
                    done.append(self._land(each, transactions, *sinks, is_tangled=path in tangled))
                self._publish(lake, sinks)
            except _TangledError:
                tangled.add(path)
                continue
            except (ChangedError, DataLossError) as error:
                done = [Landed(path, changed=str(error))]
            except KdumpError as error:
                if error.code is Codes.UNWRITABLE:
                    raise
                is_gone = error.code is Codes.MISSING
                done = [Landed(path, changed=str(error)) if is_gone else Landed(path, error=str(error))]
            finally:
                for sink in sinks:
                    sink.discard()
            yield from done
            return

    def _sink(self, lake: Lake, task: LandTask) -> Sink:
        return Sink(lake, f"{prefix_of(self.batch)}{self.token}-{task.number:06d}")

    def _publish(self, lake: Lake, sinks: Sequence[Sink]) -> None:
        files = [file for sink in sinks for file in sink.finished()]
        self._check_token(lake)
        for file in files:
            lake.publish(file)
        try:
            self._check_token(lake)
        except KdumpError:
            # The other attempt may have looked for files of this one before they were there.
            for file in files:
                lake.remove(file.name)
            raise

    def _check_token(self, lake: Lake) -> None:
        if lake.read(OPEN_BATCH) != self.token.encode():
            raise KdumpError(Codes.UNWRITABLE, "another run has taken over", path=lake.shown)

    def _checked(self, lake: Lake, task: LandTask, check: FindingTask) -> Checked:
        sink = self._sink(lake, task)
        found: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        folders = {as_text(group.folder) for group in check.groups if group.folder is not None}
        try:
            for rows in read_findings(check, arrow_schema(FINDING), CheckOptions()):
                for file, severity in zip(rows["file"].to_pylist(), rows["severity"].to_pylist(), strict=True):
                    directory = file if file in folders else os.path.dirname(file)
                    found[directory] += 1
                    errors[directory] += severity == Severity.ERROR.value
                sink.add(self._numbered(rows), "findings")
            self._publish(lake, [sink])
        finally:
            sink.discard()
        return Checked(found.total(), dict(+errors))

    def _numbered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.append_column("batch", pa.repeat(pa.scalar(self.batch, pa.int64()), rows.num_rows))

    def _land(
        self, each: LandRange, transactions: TransactionReader, records: Sink, quarantine: Sink, *, is_tangled: bool
    ) -> Landed:
        read = each.byte_range
        tally = _Tally(each, only_committed=self.only_committed)
        table = RECORD_DECODED if self.decoding.is_made else RECORD
        options = ArrowOptions(table, arrow_schema(table), decoding=self.decoding, only_valid=True)
        if is_tangled:
            with read.open_planned() as source:
                tally.choose(source)
        context = read.log.context
        with read.open_planned() as source:
            for rows in arrow_rows(
                read.log,
                source,
                options,
                transactions,
                start=each.first,
                on_malformed=tally.malformed,
                on_finding=tally.found,
            ):
                for folder, part in self._split(tally.see(rows).drop_columns(list(_ONLY_COUNTED)), context):
                    records.add(self._numbered(part), folder)
        places = 0
        landed = tally.finished()
        if tally.damage:
            with read.open_planned() as source:
                for rows in _quarantine_rows(source, context, tally.damage, each):
                    quarantine.add(self._numbered(rows), "quarantine")
                    places += rows["piece"][0].as_py() == 0
        return landed._replace(damaged=places)

    def _split(self, rows: pa.RecordBatch, context: FileContext) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows by directory, without the columns that are directories."""
        if not rows.num_rows:
            return
        if self.partition_by is None:
            for date, part in _by_date(rows):
                yield self.folder, part.append_column("date", pa.repeat(pa.scalar(date), part.num_rows))
            return
        by = self.partition_by
        rest = [name for name in rows.schema.names if name not in by]
        for date, part in _by_date(rows) if "date" in by else [(NO_DATE, rows)]:
            values = {"topic": context.topic, "partition": context.partition, "date": date}
            names = (f"{name}={_NO_TOPIC if values[name] is None else quote(str(values[name]))}" for name in by)
            yield "/".join((self.folder, *names)), part.select(rest)


def prefix_of(batch: int) -> str:
    """How the names of all files of a batch begin."""
    return f"b{batch:08d}-"


class Sink:
    """Rows on their way to Parquet files; each folder has its own.

    Args:
        lake: where they go.
        stem: how the names of the files begin.
    """

    def __init__(self, lake: Lake, stem: str) -> None:
        self._lake = lake
        self._stem = stem
        self._open: dict[str, _OpenFile] = {}
        self._finished: list[LakeFile] = []
        self._held = 0

    def add(self, rows: pa.RecordBatch, folder: str) -> None:
        """The next rows of a folder."""
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) == _MOST_OPEN:
                self._close(next(iter(self._open)))
            name = f"{folder}/{self._stem}-{len(self._finished) + len(self._open):04d}.parquet"
            file = _OpenFile(self._lake.new_file(name), rows.schema)
        # The one that was used last is the last one.
        self._open[folder] = file
        self._held += file.add(rows)
        while self._held > _MOST_HELD:
            self._held -= max(self._open.values(), key=attrgetter("held")).flush()

    def finished(self) -> list[LakeFile]:
        """All files, which are written and have no names yet."""
        for folder in list(self._open):
            self._close(folder)
        return self._finished

    def discard(self) -> None:
        """Forget what has no name yet."""
        for file in [*self._finished, *(each.close() for each in self._open.values())]:
            self._lake.discard(file)

    def _close(self, folder: str) -> None:
        file = self._open.pop(folder)
        self._held -= file.flush()
        self._finished.append(file.close())


class _OpenFile:
    def __init__(self, file: LakeFile, schema: pa.Schema) -> None:
        self._file = file
        self._rows: list[pa.RecordBatch] = []
        self._output = pa.OSFile(file.temporary, "wb")
        self._writer = pq.ParquetWriter(
            self._output,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in _WITHOUT_DICTIONARY],
            write_statistics=[name for name in schema.names if name not in _WITHOUT_STATISTICS],
        )
        self.held = 0

    def add(self, rows: pa.RecordBatch) -> int:
        """Take rows; gives their bytes."""
        size = int(rows.nbytes)
        self._rows.append(rows)
        self.held += size
        return size

    def flush(self) -> int:
        """Write a row group; gives its bytes in memory."""
        held = self.held
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._rows))
        self._rows, self.held = [], 0
        return held

    def close(self) -> LakeFile:
        self._writer.close()
        self._output.close()
        return self._file


class _TangledError(Exception):
    """The offsets of a log do not rise, so which batches land must be decided first."""


@dataclass(slots=True)
class _Unread:
    """A damaged place, and the offsets that are lost at most."""

    position: int
    code: Codes
    message: str
    length: int | None = None
    first: int | None = None
    last: int | None = None


_PLACE: Final = attrgetter("position")


class _Tally:
    """Follows the rows of a range and counts its offsets."""

    def __init__(self, each: LandRange, *, only_committed: bool) -> None:
        self._range = each
        self._only_committed = only_committed
        self._high = each.base_offset + MAX_INT32 + 1 if each.high is None else each.high
        self._reach = each.reach if each.reach <= self._high else 0
        # The last row: its offset, and the position of its batch.
        self._last = each.low - 1
        self._last_position = each.first
        self._chosen: _Chosen | None = None
        self.damage: list[_Unread] = []
        self._counts: Counter[str] = Counter()

    def malformed(self, position: int, code: Codes, message: str) -> bool:
        """See ``arrow_rows``: a row that is not valid does not land."""
        self._note(_Unread(position, code, message))
        return False

    def found(self, finding: Finding) -> None:
        """See ``arrow_rows``."""
        lost = finding.first_offset, finding.last_offset
        is_tail = finding.position >= self._range.tail
        first, last = lost if is_tail else (None, None)
        self._note(_Unread(finding.position, finding.code, finding.message, finding.length, first, last))

    def _note(self, damage: _Unread) -> None:
        at = bisect_left(self.damage, damage.position, key=_PLACE)
        # What is wrong with several records of a batch is one place.
        if at == len(self.damage) or self.damage[at].position != damage.position:
            self.damage.insert(at, damage)

    def choose(self, source: Source) -> None:
        """Decide which batches land, where offsets do not rise."""
        self._chosen = _Chosen.of(source, self._range, self._high)
        self._reach = int(self._chosen.last.max(initial=-1)) + 1
        for damage in self._chosen.left_out:
            self._note(damage)

    def see(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Count the next rows; gives those that land."""
        offset, position = rows["offset"].to_numpy(), rows["position"].to_numpy()
        if self._chosen is not None:
            is_kept = self._chosen.keeps(offset, position)
            self._counts["repeated"] += int(offset.size - is_kept.sum())
            for place in np.unique(position[~is_kept]).tolist():
                self._note(_Unread(place, Codes.OFFSET_RANGE, _OTHERS_HAVE))
            rows = rows.filter(pa.array(is_kept))
        elif offset.size:
            before = np.concatenate(([self._last], offset[:-1]))
            if (offset <= before).any() or offset[-1] >= self._high:
                raise _TangledError
            self._see_holes(before, offset, np.concatenate(([self._last_position], position[:-1])), position)
            self._last, self._last_position = int(offset[-1]), int(position[-1])
        is_control = pc.fill_null(rows["isControl"], False)
        self._counts["control"] += is_control.true_count
        lands = pc.invert(is_control)
        if self._only_committed:
            state = pc.fill_null(rows["txnState"], COMMITTED)
            is_committed = pc.equal(state, COMMITTED)
            self._counts["aborted"] += pc.and_(lands, pc.invert(is_committed)).true_count
            lands = pc.and_(lands, is_committed)
        self._counts["landed"] += lands.true_count
        return rows if lands.true_count == rows.num_rows else rows.filter(lands)

    def _see_holes(self, before: Array, offset: Array, from_position: Array, position: Array) -> None:
        """Offsets between records: lost in damage where there is some between them, else missing."""
        size = offset - before - 1
        total = int(size.sum())
        self._counts["missing"] += total
        if not total:
            return
        least, most = int(from_position.min()), int(position.max())
        here = self.damage[bisect_left(self.damage, least, key=_PLACE) : bisect_right(self.damage, most, key=_PLACE)]
        if not here:
            return
        holes = np.flatnonzero(size)
        places = np.array([damage.position for damage in here], np.int64)
        start = np.searchsorted(places, from_position[holes])
        end = np.searchsorted(places, position[holes], side="right")
        for number in np.flatnonzero(end > start).tolist():
            hole = holes[number]
            self._counts["missing"] -= int(size[hole])
            self._counts["quarantined"] += int(size[hole])
            for damage in here[start[number] : end[number]]:
                if damage.code is not Codes.OFFSET_RANGE:
                    damage.first, damage.last = int(before[hole]) + 1, int(offset[hole]) - 1

    def finished(self) -> Landed:
        """The counts, with what lies after the last row."""
        every, self.damage = self.damage, [each for each in self.damage if each.position < self._range.tail]
        if self._chosen is not None and self._chosen.rows:
            offset, position = (np.concatenate(each) for each in zip(*self._chosen.rows, strict=True))
            order = np.argsort(offset, kind="stable")
            offset, position = offset[order], position[order]
            before = np.concatenate(([self._last], offset[:-1]))
            beside = np.concatenate(([self._last_position], position[:-1]))
            self._see_holes(before, offset, np.minimum(beside, position), np.maximum(beside, position))
            self._last, self._last_position = int(offset[-1]), int(position[-1])
        end = max(self._last + 1, self._reach) if self._range.high is None else self._high
        self._see_holes(*(np.array([each]) for each in (self._last, end, self._last_position, self._range.tail - 1)))
        self.damage = every
        counts = {name: self._counts[name] for name in COUNTS}
        return Landed(self._range.path, end, counts, self._counts["repeated"])


class _Chosen:
    """The batches of a log that land where offsets do not rise, as salvage chooses them; no two have the same offsets.

    ``position`` (rising), ``first``, ``last``: of each, shape (batches,). ``left_out``: the others. ``rows``: offsets
    and positions of the rows that were kept.
    """

    def __init__(self, position: Array, first: Array, last: Array, left_out: list[_Unread]) -> None:
        self._position = position
        self._first = first
        self.last = last
        self.left_out = left_out
        self.rows: list[tuple[Array, Array]] = []
        # Of the last row: the number of its batch, and its offset within that.
        self._newest = -1

    @classmethod
    def of(cls, source: Source, each: LandRange, high: int) -> _Chosen:
        """Read the batches of a log."""
        from kdump.repair.salvage.choice import fitting, heaviest_chain
        from kdump.repair.salvage.table import BatchArrays
        from kdump.verify.table import row_dtype

        found: list[tuple[int, int, int, int, int, int]] = []
        for item in ResyncWalk(source, start=each.first).items():
            if isinstance(item, CheckedChunk):
                damaged = set(item.damaged)
                for number, (start, end) in enumerate(item.entries()):
                    head = read_head(item.data, start, end - start, item.position + start)
                    if head is not None and number not in damaged:
                        count = parse_header(item.data, start).record_count if is_read_as_batch(head.magic) else 1
                        found.append((head.position, end - start, head.offset, head.last_offset, count, head.magic))
        rows = np.zeros(len(found), row_dtype())
        names = ("position", "size", "base_offset", "last_offset", "record_count", "magic")
        for name, column in zip(names, zip(*found, strict=True), strict=bool(found)):
            rows[name] = column
        every = BatchArrays(rows)
        inside = np.flatnonzero((every.first >= each.low) & (every.first <= every.last) & (every.first < high))
        kept = inside[heaviest_chain(every.first[inside], every.last[inside], every.records[inside])]
        others = np.setdiff1d(inside, kept)
        if others.size:
            kept = np.union1d(kept, others[fitting(every.part(others), every.part(kept), strictly=False)])
        left_out = [
            _Unread(found[number][0], Codes.OFFSET_RANGE, _UNFITTING, *found[number][1:4])
            for number in np.setdiff1d(np.arange(len(found)), kept).tolist()
        ]
        # The name of the next segment may cut a batch. The offset of a message with others inside is that of the last
        # one, so they are those after the batch before.
        first, last = every.first[kept], np.minimum(every.last[kept], high - 1)
        order = np.argsort(first, kind="stable")
        is_message = rows["magic"][kept] < MAGIC
        after = np.empty_like(first)
        after[order] = np.concatenate(([each.low], last[order][:-1] + 1))
        return cls(every.position[kept], np.where(is_message, after, first), last, left_out)

    def keeps(self, offset: Array, position: Array) -> NDArray[np.bool_]:
        """Which of the next rows land: those of a chosen batch whose offsets rise within it."""
        if not offset.size or not self._position.size:
            return np.zeros(offset.size, np.bool_)
        number = np.minimum(np.searchsorted(self._position, position), self._position.size - 1)
        is_kept = (self._position[number] == position) & (self._first[number] <= offset) & (offset <= self.last[number])
        # Rises from batch to batch, and with the offsets in one.
        place = np.where(is_kept, (number << 32) + offset - self._first[number], -1)
        is_kept &= place > np.concatenate(([self._newest], np.maximum(np.maximum.accumulate(place), self._newest)[:-1]))
        self._newest = max(self._newest, int(place.max()))
        self.rows.append((offset[is_kept], position[is_kept]))
        return np.asarray(is_kept)


def _by_date(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows by the UTC day of their timestamp."""
    times = rows["timestamp"].cast(pa.int64())
    known = pc.fill_null(times, _NO_TIME).to_numpy()
    days = known // _DAY
    days = np.where((known == _NO_TIME) | (days < _FIRST_DAY) | (days > _LAST_DAY), MAX_OFFSET, days)
    for day in np.unique(days).tolist():
        date = NO_DATE if day == MAX_OFFSET else str(np.datetime64(day, "D"))
        yield date, rows if (days == day).all() else rows.filter(pa.array(days == day))


def _quarantine_rows(
    source: Source, context: FileContext, damage: Sequence[_Unread], each: LandRange
) -> Iterator[pa.RecordBatch]:
    """The damaged places with their bytes, a record batch for each piece."""
    size = source.size or 0
    gaps = GapChecks(source, NextSegment())
    for place in damage:
        length = place.length
        if length is None:
            length = _entry_length(source, place.position, size)
        else:
            gap = Gap(place.position, length, place.code, place.first, place.last)
            # What ends a file may be an unfinished write.
            place.code = next((found.code for found in gaps.see_gap(gap)), place.code)
        is_blank = place.code is Codes.ZERO_TAIL
        if is_blank and place.position >= each.tail and each.rolled_size is None:
            # A file that was made larger than what is in it.
            continue
        for piece, start in enumerate(range(0, max(length, 1), length if is_blank else _PIECE)):
            count = length if is_blank else min(_PIECE, length - start)
            row = {
                **context.columns(),
                "position": place.position + start,
                "length": count,
                "firstOffset": None if piece else place.first,
                "lastOffset": None if piece else place.last,
                "code": place.code.value.code,
                "name": place.code.value.name,
                "message": place.message,
                "piece": piece,
                "bytes": None if is_blank else _bytes(source, place.position + start, count),
            }
            yield pa.RecordBatch.from_pylist([row], _QUARANTINE)


def _entry_length(source: Source, position: int, size: int) -> int:
    """Of the entry that begins there; its framing holds."""
    data = source.read(position + LENGTH_OFFSET, _LENGTH.size)
    length: int = _LENGTH.unpack(data)[0] if len(data) == _LENGTH.size else 0
    return min(LOG_OVERHEAD + max(length, MIN_ENTRY_LENGTH), size - position)


def _bytes(source: Source, position: int, count: int) -> bytes | None:
    """None where the disk cannot read them."""
    try:
        return source.read(position, count)
    except KdumpError:
        return None
