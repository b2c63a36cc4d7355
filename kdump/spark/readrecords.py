"""Logs as Arrow record batches of records or batches, damage included."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import pyarrow as pa

from kdump.codes import Codes, DamageError, Finding, KdumpError
from kdump.log.source import Source
from kdump.payloads.choice import DecoderChoice
from kdump.reading.outcomes import LateOutcomes
from kdump.reading.selection import Range, Selection
from kdump.reading.transactionreader import TransactionReader
from kdump.reading.view import ViewOptions
from kdump.rows.arrow import ArrowPrinter, row_batch
from kdump.rows.arrowparts import ArrowParts
from kdump.rows.logs import table_of, view_of
from kdump.rows.schema import Table
from kdump.rows.tables import RECORD
from kdump.tasks.logs import LogFile, Wanted
from kdump.wire.compression import DEFAULT_LIMIT

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
    max_decompressed_size: int = DEFAULT_LIMIT
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
        yield from read_log(log, log.open_planned, options, transactions)


def read_log(
    log: LogFile,
    opened: Callable[[], Source],
    options: ArrowOptions,
    transactions: TransactionReader,
    *,
    start: int = 0,
) -> Iterator[pa.RecordBatch]:
    """The rows of a log from the file position ``start`` on, as ``opened`` gives it. Raises as ``read_logs``."""
    try:
        yield from _read(log, opened, options, transactions, start)
    except KdumpError as error:
        located = error.located(log.path)
        if options.mode is Mode.FAILFAST:
            raise located from None
        _LOG.warning("kdump: %s", located)
        if options.mode is Mode.PERMISSIVE and "problem" in options.schema.names:
            row = {**log.context.columns(), "type": options.table.type, "problem": str(located)}
            yield row_batch([row], options.schema)


def _read(
    log: LogFile, opened: Callable[[], Source], options: ArrowOptions, transactions: TransactionReader, start: int
) -> Iterator[pa.RecordBatch]:
    mode = options.mode

    def on_malformed(position: int, code: Codes, what: str) -> bool:
        if mode is Mode.FAILFAST:
            raise DamageError(code, what, path=log.path, position=position)
        return mode is Mode.PERMISSIVE

    def on_finding(finding: Finding) -> None:
        if mode is Mode.FAILFAST:
            raise DamageError(finding.code, finding.message, path=log.path, position=finding.position)

    yield from arrow_rows(
        log, opened, options, transactions, start=start, on_malformed=on_malformed, on_finding=on_finding
    )


def arrow_rows(
    log: LogFile,
    opened: Callable[[], Source],
    options: ArrowOptions,
    transactions: TransactionReader,
    *,
    start: int,
    on_malformed: Callable[[int, Codes, str], bool],
    on_finding: Callable[[Finding], None],
) -> Iterator[pa.RecordBatch]:
    """The rows of a log from the file position ``start`` on. KdumpError where it cannot be opened.

    Args:
        log: the log.
        opened: opens it.
        options: what is read; ``mode`` is not asked for.
        transactions: tells the outcomes of its transactions.
        start: where an entry begins.
        on_malformed: takes position, code and message of a row that is not as it should be, and says whether it stays.
        on_finding: takes damage before the rows after it.
    """
    parts = ArrowParts(options.schema)
    with opened() as source:
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
                max_decompressed_size=options.max_decompressed_size,
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
