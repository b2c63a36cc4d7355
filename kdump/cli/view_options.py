"""Options of kdump's own for what is shown of a log, and how."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kdump.cli.arguments import DumpArguments
from kdump.cli.common import color_option
from kdump.cli.coordinatorkey import coordinated
from kdump.cli.java_options import topic_decoder
from kdump.cli.options import OptionGroup, option
from kdump.cli.params import BytesPattern, HeaderParam, OffsetRange, OutputFormat, TimeRange
from kdump.codes import KdumpError
from kdump.payloads.choice import DecoderChoice
from kdump.reading.selection import Range, Selection
from kdump.rows.filetables import CHECKPOINT, EPOCH, PROPERTY
from kdump.rows.schema import Column, ColumnType, Table
from kdump.rows.tables import BATCH, NEXT_OFFSET, RECORD, RECORD_DECODED, RECORD_METADATA
from kdump.worlds import log_titles, path_titles

if TYPE_CHECKING:
    from kdump.log.context import FileContext
    from kdump.rows.printers import Lines

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS: Final = (
    option(
        OptionGroup.OUTPUT,
        "--output",
        type=OutputFormat(["kafka", "jsonl", "csv", "table", "arrow", "parquet"]),
        default="kafka",
        help="kafka: the text of DumpLogSegments; JSON lines, CSV, a human-readable table, an Arrow stream, Parquet.",
    ),
    option(
        OptionGroup.OUTPUT,
        "--csv-safe",
        is_flag=True,
        help="With --output csv: put a ' before cells that look like a formula.",
    ),
    option(OptionGroup.OUTPUT, "--batches", "view", flag_value="batches", help="Structured output: show batches."),
    option(
        OptionGroup.OUTPUT,
        "--records",
        "view",
        flag_value="records",
        help="Structured output: show records, contents included.",
    ),
    option(
        OptionGroup.OUTPUT,
        "--fields",
        metavar="A,B,...",
        help="Structured output: only these columns; 'help' lists them.",
    ),
    option(
        OptionGroup.OUTPUT,
        "--format",
        "template",
        metavar="STRING",
        help=r"Records by a format string: %t %p %o %T %k %v %K %V %h %H %e %x %y %f %i, \n \t \xNN; see the manual.",
    ),
    option(
        OptionGroup.OUTPUT,
        "--null",
        metavar="TEXT",
        help="With --format: what stands for null. [default: nothing]",
    ),
    option(
        OptionGroup.OUTPUT,
        "--decode",
        type=click.Choice(["auto"]),
        help="auto: decode Kafka's internal topics, each by the name of its directory.",
    ),
    option(
        OptionGroup.OUTPUT,
        "--key-decoder",
        metavar="NAME",
        help="Keys as text, hex, base64, json, int32, int64, float64, uuid, none, or a decoder from a plugin.",
    ),
    option(OptionGroup.OUTPUT, "--value-decoder", metavar="NAME", help="As --key-decoder, for values."),
    option(
        OptionGroup.CHOICE,
        "--offset",
        "offsets",
        type=OffsetRange(),
        metavar="A:B",
        help="Offsets A up to B, B left out.",
    ),
    option(
        OptionGroup.CHOICE,
        "--time",
        "times",
        type=TimeRange(takes_clock=True),
        metavar="T1..T2",
        help="Timestamps from T1 up to T2: ms, ISO 8601 (UTC), 12:21 of the log's day, -1h (an hour ago; s m h d w).",
    ),
    option(OptionGroup.CHOICE, "--no-index", is_flag=True, help="Do not use index files for a range."),
    option(OptionGroup.CHOICE, "--key", type=BytesPattern(), metavar="RE", help="Records with RE in the key."),
    option(OptionGroup.CHOICE, "--value", type=BytesPattern(), metavar="RE", help="Records with RE in the value."),
    option(
        OptionGroup.CHOICE,
        "--header",
        "headers",
        multiple=True,
        type=HeaderParam(),
        metavar="K[=RE]",
        help="Records with a header K (and RE in its value); may be repeated.",
    ),
    option(OptionGroup.CHOICE, "--tombstones", is_flag=True, help="Records with a key and without a value."),
    option(
        OptionGroup.CHOICE,
        "--producer-id",
        "producer_ids",
        multiple=True,
        type=int,
        metavar="N",
        help="Batches of this producer; may be repeated.",
    ),
    option(
        OptionGroup.CHOICE,
        "--group",
        metavar="G",
        help="Records of this group in __consumer_offsets, decoded; names its partition.",
    ),
    option(
        OptionGroup.CHOICE,
        "--transactional-id",
        metavar="T",
        help="Records of this id in __transaction_state, decoded; names its partition.",
    ),
    option(
        OptionGroup.CHOICE,
        "--partitions",
        type=click.IntRange(1),
        metavar="N",
        help="How many partitions that topic has.",
    ),
    option(
        OptionGroup.CHOICE,
        "--control/--no-control",
        "control",
        default=None,
        help="Only control batches, or none of them.",
    ),
    option(
        OptionGroup.CHOICE,
        "--isolation",
        type=click.Choice(["read_uncommitted", "read_committed"]),
        default="read_uncommitted",
        help="read_committed: without aborted transactions, up to the first open one.",
    ),
    option(
        OptionGroup.DAMAGE, "--resync", is_flag=True, help="Skip damage and continue; report what is skipped on stderr."
    ),
    option(
        OptionGroup.CHOICE,
        "-n",
        "take",
        type=click.IntRange(0),
        metavar="N",
        help="Show the first N batches or records.",
    ),
    option(
        OptionGroup.CHOICE,
        "-f",
        "--follow",
        is_flag=True,
        help="Continue as a segment or partition grows, until interrupted.",
    ),
    option(
        OptionGroup.CHOICE, "--tail", type=click.IntRange(0), metavar="N", help="Show the last N batches or records."
    ),
    option(
        OptionGroup.OUTPUT,
        "--redact",
        is_flag=True,
        help="Replace keys and values by keyed hashes of the same size.",
    ),
    option(OptionGroup.OUTPUT, "--redact-key", metavar="SECRET", help="--redact with the same hashes in every run."),
    option(
        OptionGroup.OUTPUT,
        "--show-secrets",
        is_flag=True,
        help=f"Files of {path_titles()}: with passwords, salts and keys.",
    ),
    color_option("tables"),
    option(OptionGroup.OUTPUT, "--pager", is_flag=True, help="Show the output in $PAGER when it goes to a terminal."),
)


def view_options(function: _Function) -> _Function:
    """All of them; the function takes them under the names above."""
    for each in reversed(_OPTIONS):
        function = each(function)
    return function


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
    """The decoders of keys and values; UsageError for unknown ones."""
    internal = topic_decoder(given)
    own = given.key_decoder, given.value_decoder
    wanted = coordinated(given)
    if wanted is not None and internal is None and given.decode is None and not any(own):
        internal = wanted.decoder
    for name in own:
        if name is not None:
            check_decoder(name)
    return DecoderChoice(internal, given.decode == "auto", *own)


def secret(given: DumpArguments) -> bytes | None:
    """The key of ``--redact``; a new one a run when none is given."""
    if given.redact_key is not None:
        import hashlib

        return hashlib.blake2b(given.redact_key.encode("utf-8", "surrogateescape")).digest()
    return os.urandom(32) if given.redact else None


def table(given: DumpArguments, chosen: Selection) -> Table:
    """What structured output shows of a log: batches, or records when something asks for them."""
    records = RECORD_DECODED if decoding(given).is_made else RECORD
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
    return fields_of(given, "text file", CHECKPOINT, EPOCH, PROPERTY)


def fields_of(given: DumpArguments, what: str, *tables: Table) -> tuple[str, ...] | None:
    """Those of ``--fields`` for ``what`` has rows of these tables; UsageError for a column that none of them has."""
    columns = tuple(dict.fromkeys(name for shown in tables for name in shown.names))
    return fields(given, Table(what, tuple(Column(name, ColumnType.TEXT) for name in columns)))


def list_fields() -> str:
    """What ``--fields help`` prints."""
    lines = []
    for shown in (BATCH, RECORD):
        lines += [f"{shown.type}:", *(f"  {column.name} ({column.type.name.lower()})" for column in shown.columns)]
    lines.append("decodedKey, decodedValue besides: records with a decoder")
    lines.append(f"{NEXT_OFFSET} besides: logs of {log_titles()}")
    return "\n".join([*lines, "headerKeys instead of key, value and headers: records with --deep-iteration"])


def lines(
    given: DumpArguments, chosen: tuple[str, ...] | None, *, width: int, color: bool
) -> Callable[[FileContext], Lines]:
    """Makes the writer of a file's rows; UsageError for a wrong ``--format``."""
    from kdump.log.context import FileContext
    from kdump.rows.formatted import FormatLines
    from kdump.rows.humantable import HumanTable
    from kdump.rows.printers import RowLines
    from kdump.rows.scalarlines import Output

    template = given.template
    if template is not None:
        try:
            FormatLines(template, FileContext("", None, None))
        except ValueError as error:
            raise click.UsageError(f"--format: {error}") from None
        return partial(FormatLines, template, null=given.null or "")
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
