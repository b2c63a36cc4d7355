"""Options of kdump's own for what is shown of a log, and how."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click

from kdump.cli.coordinatorkey import coordinated
from kdump.cli.java_options import topic_decoder
from kdump.cli.options.dump import DumpArguments
from kdump.codes import KdumpError
from kdump.payloads.choice import DecoderChoice
from kdump.reading.selection import Range, Selection
from kdump.rows.columns import Column, ColumnType, Table
from kdump.rows.tables import BATCH, NEXT_OFFSET, RECORD, RECORD_DECODED, RECORD_METADATA

if TYPE_CHECKING:
    from kdump.rows.printers import LinesOf


def selection(given: DumpArguments) -> Selection:
    """The ranges and filters."""
    wanted = coordinated(given)
    return Selection(
        offsets=given.offsets or Range(),
        times=given.times or Range(),
        key=given.key,
        value=given.value,
        headers=given.headers,
        producer_ids=frozenset(given.producer_ids),
        control=given.control,
        tombstones=given.tombstones,
        coordinated=None if wanted is None else wanted.key_pattern,
    )


def decoding(given: DumpArguments) -> DecoderChoice:
    """The decoders of keys and values; UsageError for unknown ones, KdumpError for schemas that cannot be read."""
    internal = topic_decoder(given)
    own = given.key_decoder, given.value_decoder
    wanted = coordinated(given)
    if wanted is not None and internal is None and given.decode is None and not any(own):
        internal = wanted.decoder
    for name in own:
        if name is not None:
            check_decoder(name)
    choice = DecoderChoice(internal, given.decode == "auto", *own)
    if given.schemas is None and not choice.is_made:
        return choice
    from kdump.cli.schemas import with_schemas  # not needed by a plain dump

    return with_schemas(choice, given, given.schemas)


def secret(given: DumpArguments) -> bytes | None:
    """The key of ``--redact``; a new one a run when none is given."""
    if given.redact_key is not None:
        import hashlib

        return hashlib.blake2b(given.redact_key.encode("utf-8", "surrogateescape")).digest()
    return os.urandom(32) if given.redact else None


def table(given: DumpArguments, chosen: Selection) -> Table:
    """What structured output shows of a log: batches, or records when something asks for them."""
    records = RECORD_DECODED if given.decoding.is_made else RECORD
    if given.template is not None or given.view == "records":
        return records
    if given.view is None and (given.print_data_log or chosen.by_contents or records is RECORD_DECODED):
        return records
    if given.view is None and given.deep_iteration:
        return RECORD_METADATA
    return BATCH


def fields(given: DumpArguments, shown: Table) -> tuple[str, ...] | None:
    """The columns that ``--fields`` names; UsageError for one that the table does not have."""
    if given.fields is None:
        return None
    names = tuple(name.strip() for name in given.fields.split(","))
    known = shown.names + RECORD_METADATA.names if shown.type == RECORD.type else shown.names
    for name in names:
        if name not in known and name != NEXT_OFFSET:
            raise click.UsageError(f"no column '{name}' in {shown.type} rows (--fields help lists them)")
    return names


def fields_of_text_files(given: DumpArguments) -> tuple[str, ...] | None:
    """Those of ``--fields`` where every PATH is a text file; UsageError for a column that rows of none have."""
    from kdump.rows.filetables import CHECKPOINT, EPOCH, PROPERTY  # few dumps show such files

    return fields_of(given, "text file", CHECKPOINT, EPOCH, PROPERTY)


def fields_of(given: DumpArguments, what: str, *tables: Table) -> tuple[str, ...] | None:
    """Those of ``--fields`` for ``what`` has rows of these tables; UsageError for a column that none of them has."""
    columns = tuple(dict.fromkeys(name for shown in tables for name in shown.names))
    return fields(given, Table(what, tuple(Column(name, ColumnType.TEXT) for name in columns)))


def lines(given: DumpArguments, chosen: tuple[str, ...] | None, *, width: int, color: bool) -> LinesOf:
    """Makes the writer of a file's rows."""
    from kdump.rows.formatted import FormatLines
    from kdump.rows.humantable import HumanTable
    from kdump.rows.printers import RowLines
    from kdump.rows.scalarlines import Output

    if given.template is not None:
        return partial(FormatLines, given.template, null=given.null or "")
    if given.output == "table":
        return partial(HumanTable, chosen, width=width, color=color)
    syntax: Output = "csv-safe" if given.csv_safe else "csv" if given.output == "csv" else "jsonl"
    return partial(RowLines, syntax, chosen)


def check_decoder(name: str) -> None:
    """UsageError when there is no decoder of that name, or it cannot be loaded."""
    from kdump.payloads.registry import names, plain_decoder

    try:
        plain_decoder(name)
    except KeyError:
        raise click.UsageError(f"no decoder '{name}' (known: {', '.join(names())})") from None
    except KdumpError as error:
        raise click.UsageError(str(error)) from error
