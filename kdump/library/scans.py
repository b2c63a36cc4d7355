"""``kdump.scan``: records and batches of logs, as objects and as Arrow."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

from kdump.codes import Codes, DamageError, Finding, KdumpError, ignore_error
from kdump.dump.output import DumpOptions, OutputMaker
from kdump.dump.printed import PrintedOutput, PrinterMaker, arrow_printer
from kdump.dump.run import DumpRun
from kdump.dump.targets import Target, targets_of
from kdump.inputs import Input, inputs_of, paths_with_tier
from kdump.library.arguments import (
    Decode,
    Headers,
    Paths,
    Pattern,
    Times,
    check_choice,
    decoder_choice,
    header_filters,
    offset_range,
    paths_of,
    pattern,
    time_range,
)
from kdump.library.logfindings import LogFinding
from kdump.library.objects import ObjectPrinter
from kdump.library.records import LogBatch, LogRecord
from kdump.log.context import FileContext
from kdump.log.files import strip_credentials
from kdump.log.tiers import Tier
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.decoded import RecordDecoder
from kdump.reading.outcomes import Outcomes
from kdump.reading.printing import RowsT
from kdump.reading.reporter import Reporter
from kdump.reading.selection import Selection
from kdump.reading.view import ViewOptions
from kdump.rows.columns import Table
from kdump.rows.logs import table_of
from kdump.rows.scalar import OnUndecoded
from kdump.rows.tables import BATCH, RECORD, RECORD_DECODED
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

OnDamage = Literal["raise", "skip", "mark"]
Isolation = Literal["read_uncommitted", "read_committed"]
ObjectT = TypeVar("ObjectT")
_LOG: Final = logging.getLogger("kdump")
_NO_LOG: Final = frozenset({Codes.NO_SEGMENTS, Codes.NOT_A_SEGMENT_FILE})
_WRONG_PATHS: Final = _NO_LOG | {Codes.MISSING}
_ANNOUNCED: Final = 256
"""Logs that are listed together."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a scan reads, and how."""

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None
    selection: Selection
    topics: frozenset[str] | None
    partitions: frozenset[int] | None
    isolation: Isolation
    decoding: DecoderChoice
    on_damage: OnDamage
    limit: int
    schemas: str | None = None

    @property
    def table(self) -> Table:
        """The table of records."""
        return RECORD_DECODED if self.decoding.is_made or self.schemas is not None else RECORD

    def options(self, output: OutputMaker, *, with_records: bool) -> DumpOptions:
        """The options of a run."""
        view = ViewOptions(
            with_records=with_records,
            selection=self.selection,
            max_decompressed_size=self.limit,
            resync=self.on_damage != "raise",
            only_valid=self.on_damage != "mark",
        )
        decoding = self.decoding
        if with_records and self.table.is_decoded:
            from kdump.schemas.topic import with_schemas  # slow, and not needed where nothing is decoded

            # Of each pass, as they may have grown.
            decoding = with_schemas(decoding, self.schemas, self._inputs())
        return DumpOptions(output, view, read_committed=self.isolation == "read_committed", decoding=decoding)

    def _inputs(self) -> Iterator[Input]:
        yield from inputs_of(self.paths, ignore_error, with_patterns=True)

    def accepts(self, target: Target) -> bool:
        """By its directory, a log is of a topic and a partition that are wanted."""
        context = FileContext.of(target.path)
        return (self.topics is None or context.topic in self.topics) and (
            self.partitions is None or context.partition in self.partitions
        )


@dataclass
class _Pass:
    """One pass of a scan over its logs."""

    request: ScanRequest
    found: list[LogFinding]
    _invalid: tuple[str, int] | None = field(default=None, init=False)

    def pieces(self, make_printer: PrinterMaker[Any, RowsT], *, with_records: bool) -> Generator[RowsT, None, None]:
        """The rows, in pieces. A piece must be used before the next one is asked for."""
        request = self.request
        held: list[RowsT] = []
        output = partial(PrintedOutput, make_printer, self._note)
        reporter = Reporter(self._fail, _LOG.info)
        run = DumpRun(request.options(output, with_records=with_records), held.append, reporter)
        with closing(run):
            for target in _announced(filter(request.accepts, self._targets()), run):
                error: KdumpError | None = None
                with closing(run.steps(target)) as steps:
                    while error is None:
                        try:
                            is_over = next(steps, self) is self
                        except KdumpError as raised:
                            error, is_over = raised, True
                        yield from held
                        held.clear()
                        if is_over:
                            break
                if error is not None:
                    raise error

    def malformed(self, path: str, position: int, code: Codes, what: str) -> bool:
        """Decide about rows that are not valid: whether they are shown."""
        request = self.request
        if request.on_damage == "raise":
            raise DamageError(code, what, path=path, position=position)
        if self._invalid != (path, position):
            self._invalid = (path, position)
            self._note(Finding(code, what, position, path=path))
        return request.on_damage == "mark"

    def _targets(self) -> Iterator[Target]:
        for found in inputs_of(self.request.paths, self._fail, with_patterns=True):
            fail = self._fail if found.is_named else self._fail_of_fitting
            for target in targets_of([found], fail):
                if target.is_log:
                    yield target
                else:
                    fail(KdumpError(Codes.NOT_A_SEGMENT_FILE, "not a log", path=target.path))

    def _fail_of_fitting(self, error: KdumpError) -> None:
        """A pattern fits other files too."""
        if error.code not in _NO_LOG:
            self._fail(error)

    def _fail(self, error: KdumpError) -> None:
        """A path that holds no log is an error, whatever becomes of damage."""
        if self.request.on_damage == "raise" or error.code in _WRONG_PATHS:
            raise error
        self._note(Finding(error.code, error.message, error.position or 0, path=error.path))

    def _note(self, finding: Finding) -> None:
        self.found.append(LogFinding(finding, finding.path or ""))


def _announced(targets: Iterable[Target], run: DumpRun) -> Iterator[Target]:
    """The targets, which the run expects before their turn. An error of the listing comes in its turn."""
    listing = iter(targets)
    error: KdumpError | None = None
    while error is None:
        group: list[Target] = []
        try:
            group.extend(islice(listing, _ANNOUNCED))
        except KdumpError as raised:
            error = raised
        if not (group or error):
            return
        run.expect(group)
        yield from group
    raise error


class ObjectIterator(chain[ObjectT]):
    """Iterates over the objects of a scan. It may be left at any object: what it has open is closed with it.

    A chain and no generator, because one more Python frame for each record costs a tenth of the speed.
    """

    _pieces: Generator[Iterable[ObjectT], None, None]

    @classmethod
    def of(cls, pieces: Generator[Iterable[ObjectT], None, None]) -> ObjectIterator[ObjectT]:
        """All objects of all pieces."""
        made = cast("ObjectIterator[ObjectT]", cls.from_iterable(pieces))
        made._pieces = pieces
        return made

    def close(self) -> None:
        """Close the file that is open. After the piece at hand there are no more objects."""
        self._pieces.close()


class Scan:
    """Records of logs, which are read each time that they are asked for. See ``kdump.scan``.

    ``findings``: the damage that the newest pass met, in its order, and contents that do not decode. With
    ``on_damage="raise"`` damage is raised instead.
    """

    def __init__(self, request: ScanRequest) -> None:
        self._request = request
        self.findings: list[LogFinding] = []

    def __iter__(self) -> ObjectIterator[LogRecord]:
        """The records in the order of the log, one log after the other.

        Raises:
            KdumpError: a path cannot be read; DamageError: with ``on_damage="raise"``, damage. The records before it
                come first.
        """
        return ObjectIterator.of(self._objects(with_records=True))

    def batches(self) -> ObjectIterator[LogBatch]:
        """The batches, by their headers: no record is decoded. Ranges give the batches that overlap them.

        Raises:
            ValueError: ``keys`` or ``headers`` were given, which only records have.
            KdumpError: as iterating.
        """
        if self._request.selection.by_contents:
            raise ValueError("keys and headers select records, not batches")
        return ObjectIterator.of(self._objects(with_records=False))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the records: ``columns`` in their order, else those of JSON lines. Needs pyarrow."""
        from kdump.rows.arrow import row_schema

        return row_schema(self._request.table, self._request.columns)

    def to_reader(self) -> pa.RecordBatchReader:
        """The records as a stream of Arrow record batches, in the order of the log, in bounded memory. Needs pyarrow.

        Reading from it raises as iterating does.
        """
        import pyarrow as pa

        schema = self.schema
        return pa.RecordBatchReader.from_batches(schema, self._record_batches(schema))

    def to_arrow(self) -> pa.Table:
        """All records as an Arrow table. Needs pyarrow. Raises as iterating."""
        return self.to_reader().read_all()

    def to_pandas(self) -> pd.DataFrame:
        """All records as a data frame of pandas. Needs pyarrow and pandas. Raises as iterating.

        Integers and booleans have pandas' nullable types, so that no offset passes through a float.
        """
        import pandas as pd
        import pyarrow as pa

        types = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}
        return self.to_arrow().to_pandas(types_mapper=types.get)

    def to_polars(self) -> pl.DataFrame:
        """All records as a data frame of polars. Needs pyarrow and polars. Raises as iterating."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The records by Arrow's PyCapsule protocol: DuckDB, polars and others take the scan itself."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<Scan of {', '.join(map(strip_credentials, self._request.paths))}>"

    def _begin(self) -> _Pass:
        self.findings = []
        return _Pass(self._request, self.findings)

    def _objects(self, *, with_records: bool) -> Generator[Iterable[Any], None, None]:
        going = self._begin()

        def make_printer(
            target: Target,
            outcomes: Outcomes,
            decoder: RecordDecoder | None,
            on_undecoded: OnUndecoded,
        ) -> ObjectPrinter:
            return ObjectPrinter(
                table_of(target.world, RECORD_DECODED if with_records else BATCH),
                FileContext.of(target.path),
                outcomes=outcomes,
                decoder=decoder,
                on_malformed=partial(going.malformed, target.path),
                on_undecoded=on_undecoded,
            )

        return going.pieces(make_printer, with_records=with_records)

    def _record_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from kdump.rows.arrowparts import ArrowParts

        going = self._begin()
        make_printer = arrow_printer(self._request.table, schema, going.malformed)
        parts = ArrowParts(schema)
        pieces = going.pieces(make_printer, with_records=True)
        try:
            for piece in pieces:
                parts.add(piece)
                if parts.are_enough:
                    yield from parts.take()
        except KdumpError:
            yield from parts.take()
            raise
        finally:
            pieces.close()
        yield from parts.take()


def scan(
    paths: Paths,
    *,
    columns: Iterable[str] | None = None,
    offsets: tuple[int | None, int | None] | None = None,
    time: Times = None,
    topics: str | Iterable[str] | None = None,
    partitions: int | Iterable[int] | None = None,
    keys: Pattern | None = None,
    headers: Headers | None = None,
    isolation: Isolation = "read_uncommitted",
    decode: Decode = None,
    schemas: str | os.PathLike[str] | None = None,
    on_damage: OnDamage = "raise",
    max_decompressed_size: int = DEFAULT_LIMIT,
    tier: str | None = None,
    key_ring: Mapping[str, str] | None = None,
) -> Scan:
    """Records of logs, as ``kdump dump --records`` shows them. Nothing is read before the records are asked for.

    Args:
        paths: segment files, partition and log directories, URIs of them, patterns of any of them, or ``-`` for
            standard input; one or many.
        columns: columns of the Arrow forms, in this order; None: all but ``nextOffset``, which only logs of Kafka 0.7
            have. Objects have all attributes.
        offsets: ``(first, end)``, end not included; None is open.
        time: ``(start, end)`` of the timestamps, end not included; datetimes (without a time zone: UTC), milliseconds
            since 1970 or texts; None is open. Or one text as ``--time`` takes it: ``-1h..``, ``2026-03-01..now``,
            ``12:21..12:30`` on the day of the logs (of which some entries are read at once).
        topics: only these topics, by the names of the directories.
        partitions: only partitions with these numbers.
        keys: a regular expression that is found in the key, as ``--key``.
        headers: ``K`` or ``K=RE`` as ``--header``, one or several that must all fit; or a mapping of K to RE or None.
        isolation: ``read_committed`` leaves out aborted transactions, and ends at the first open one.
        decode: ``auto`` decodes Kafka's internal topics, and values by the schemas of a registry whose topic lies in
            the log directory; or a mapping with names of decoders for ``key`` and ``value``.
        schemas: the partition with the schemas of a registry, or a log directory or bucket that holds it: values, and
            keys that name a schema, are decoded by them.
        on_damage: ``raise``: the first damage is a DamageError, after the records before it. ``skip``: damage and rows
            that are not valid are left out. ``mark``: damage is left out, and rows that are not valid are shown, with
            ``is_valid`` false or a ``problem``. Both keep what they meet in ``findings``.
        max_decompressed_size: bytes; a batch that decompresses to more is damage.
        tier: the bucket with the remote segments of the log directories; a partition begins with them.
        key_ring: files with the private keys of encrypted buckets, by their ids.

    Raises:
        ValueError: a column, a pattern, a range or a choice that does not exist.
        KdumpError: a decoder cannot be loaded. Paths that cannot be read raise when records are asked for.
    """
    check_choice(isolation, "isolation", get_args(Isolation))
    check_choice(on_damage, "on_damage", get_args(OnDamage))
    given = paths_with_tier(paths_of(paths), Tier(tier, key_ring or {}))
    request = ScanRequest(
        given,
        None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns),
        Selection(
            offset_range(offsets),
            time_range(time, given),
            key=None if keys is None else pattern(keys),
            headers=header_filters(headers),
        ),
        None if topics is None else frozenset([topics] if isinstance(topics, str) else topics),
        None if partitions is None else frozenset([partitions] if isinstance(partitions, int) else partitions),
        isolation,
        decoder_choice(decode),
        on_damage,
        max_decompressed_size,
        None if schemas is None else os.fspath(schemas),
    )
    for name in request.columns or ():
        request.table.column(name)
    return Scan(request)
