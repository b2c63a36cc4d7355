"""Logs as Arrow record batches of records or batches, damage included."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kdump.codes import Codes, DamageError, Finding, KdumpError
from kdump.log.source import Source
from kdump.payloads.choice import DecoderChoice
from kdump.reading.outcomes import LateOutcomes
from kdump.reading.selection import Range, Selection
from kdump.reading.transactionreader import TransactionReader
from kdump.reading.view import ViewOptions
from kdump.rows.arrow import ArrowPrinter, arrow_schema, row_batch
from kdump.rows.arrowparts import ArrowParts
from kdump.rows.columnar import OnMalformed
from kdump.rows.columns import Table
from kdump.rows.logs import table_of, view_of
from kdump.rows.tables import RECORD, RECORD_DECODED
from kdump.spark.byteranges import ByteRange
from kdump.tasks.logs import LogFile, Wanted

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_LOG: Final = logging.getLogger("kdump")


class Mode(Enum):
    """What happens with damage. The names are those of Spark's file sources."""

    PERMISSIVE = "PERMISSIVE"
    """Rows of damaged batches are shown, and ``problem`` says what is wrong. Damage without rows is skipped."""
    DROPMALFORMED = "DROPMALFORMED"
    """Only valid rows."""
    FAILFAST = "FAILFAST"
    """The first damage ends the job, with the file and the position."""


@dataclass(frozen=True, slots=True)
class ArrowOptions:
    """What is read and how."""

    table: Table
    """BATCH, RECORD or RECORD_DECODED."""
    schema: pa.Schema
    """Some columns of ``rows.arrow.arrow_schema(table)``."""
    wanted: Wanted = field(default_factory=Wanted)
    times: Range = field(default_factory=Range)
    """Milliseconds."""
    mode: Mode = Mode.PERMISSIVE
    decoding: DecoderChoice = field(default_factory=DecoderChoice)
    """For RECORD_DECODED."""
    only_valid: bool = False
    """A batch with a wrong CRC is damage without rows."""


def read_logs(logs: Iterable[LogFile], options: ArrowOptions) -> Iterator[pa.RecordBatch]:
    """The rows of logs, in file order.

    Raises:
        KdumpError: with FAILFAST, what is damaged or cannot be read.
    """
    transactions = TransactionReader()
    for log in logs:
        yield from read_log(log, options, transactions)


def read_log(
    part: LogFile | ByteRange, options: ArrowOptions, transactions: TransactionReader
) -> Iterator[pa.RecordBatch]:
    """The rows of a log, or of a part of it. Raises as ``read_logs``, and as ``ByteRange.open_planned``."""
    log, start = (part.log, part.first) if isinstance(part, ByteRange) else (part, 0)
    mode = options.mode

    def on_malformed(position: int, code: Codes, what: str) -> bool:
        if mode is Mode.FAILFAST:
            raise DamageError(code, what, path=log.path, position=position)
        return mode is Mode.PERMISSIVE

    def on_finding(finding: Finding) -> None:
        if mode is Mode.FAILFAST:
            raise DamageError(finding.code, finding.message, path=log.path, position=finding.position)

    try:
        with part.open_planned() as source:
            yield from arrow_rows(
                log, source, options, transactions, start=start, on_malformed=on_malformed, on_finding=on_finding
            )
    except KdumpError as error:
        located = error.located(log.path)
        if mode is Mode.FAILFAST:
            raise located from None
        _LOG.warning("kdump: %s", located)
        if mode is Mode.PERMISSIVE and "problem" in options.schema.names:
            row = {**log.context.columns(), "type": options.table.type, "problem": str(located)}
            yield row_batch([row], options.schema)


def arrow_rows(
    log: LogFile,
    source: Source,
    options: ArrowOptions,
    transactions: TransactionReader,
    *,
    start: int,
    on_malformed: OnMalformed,
    on_finding: Callable[[Finding], None],
) -> Iterator[pa.RecordBatch]:
    """The rows of a log from the file position ``start`` on.

    Args:
        log: the log.
        source: it, open.
        options: what is read; ``mode`` is not asked for.
        transactions: tells the outcomes of its transactions.
        start: where an entry begins.
        on_malformed: takes position, code and message of a row that is not as it should be, and says whether it stays.
        on_finding: takes damage before the rows after it.
    """
    parts = ArrowParts(options.schema)
    view = view_of(log.world, log.base_offset)(
        source,
        ArrowPrinter(
            table_of(log.world, options.table),
            options.schema,
            log.context,
            outcomes=LateOutcomes(lambda: transactions.of(log.path)),
            decoder=options.decoding.decoder(log.context.topic),
            on_malformed=on_malformed,
            for_spark=True,
        ),
        parts.add,
        ViewOptions(
            with_records=options.table.type == RECORD.type,
            selection=Selection(offsets=options.wanted.offsets_of(log.context), times=options.times),
            resync=True,
            only_valid=options.only_valid,
            seek=False,
            start=start,
        ),
        on_finding=on_finding,
    )
    for _ in view.steps():
        if parts.are_enough:
            yield from parts.take()
    yield from parts.take()


def checked(schema: StructType, table: Table) -> pa.Schema:
    """The Arrow schema of what was asked for.

    ValueError for a column that is not there, is there twice or has another type.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    every = arrow_schema(table)
    known = {each.name: each.dataType for each in from_arrow_schema(every)}
    for each in schema:
        if schema.names.count(each.name) > 1:
            raise ValueError(f"column {each.name} is asked for more than once")
        if each.name not in known:
            raise ValueError(f"no column '{each.name}' in {table.type} rows; there are {', '.join(known)}")
        if each.dataType != known[each.name]:
            expected = known[each.name].simpleString()
            raise ValueError(f"column {each.name} is {expected}, not {each.dataType.simpleString()}")
    # Not PySpark's to_arrow_schema: its arguments are others in 4.1.
    return pa.schema([every.field(each.name).with_nullable(each.nullable) for each in schema])


def without_nulls(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows. ValueError where a column is null although the schema forbids it: Spark would not name the column."""
    never_null = [field.name for field in schema if not field.nullable]
    for batch in batches:
        for name in never_null:
            if batch[name].null_count:
                raise ValueError(f"column {name} is null in some rows, and NOT NULL in the schema that was asked for")
        yield batch


def decoded(table: Table) -> Table:
    """The table with the columns of decoded contents, where it has such."""
    return RECORD_DECODED if table == RECORD else table
