"""Options of ``kdump dump``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

import click

from kdump.cli.conflicts import EVERYWHERE, Conflict, world_facts
from kdump.cli.options.declaring import PATH, OptionGroup, argument, either, option
from kdump.cli.options.shared import (
    ColorArguments,
    EngineArguments,
    FrameArguments,
    LimitArguments,
    LogArguments,
    SchemaArguments,
    TierArguments,
    TimeArguments,
    TopicArguments,
    flatten_option,
    output_options,
)
from kdump.cli.params import HEADER, OFFSETS, PATTERN, POSITION
from kdump.dump.text.options import MAX_BYTES, MAX_MESSAGE_SIZE
from kdump.inputs import is_text_file
from kdump.log.named import reads_once
from kdump.log.names import is_uri
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.reading.selection import HeaderFilter, Range
from kdump.releases import DIALECTS, NEWEST
from kdump.worlds import log_titles, path_titles

_BINARY: Final = ("--output arrow", "--output parquet")
_TOPIC_DECODERS: Final = tuple(f"--{name}-decoder" for name in INTERNAL_TOPICS)
_OWN_DECODERS: Final = ("--decode", "--key-decoder", "--value-decoder", "--schemas")
_TEXT_ONLY: Final[Mapping[str, Any]] = {
    "needs": ("--output kafka",),
    "message": "{option} goes with --output kafka only",
}
_DECODERS: Final = (*_TOPIC_DECODERS, *_OWN_DECODERS, "--group", "--transactional-id")


def _once(ctx: click.Context, parameter: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Refuse an option that is given twice, as the Java parser does."""
    if len(values) > 1:
        raise click.BadParameter("given more than once", ctx=ctx, param=parameter)
    return values[0] if values else None


def _list_fields(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """``--fields help`` ends the command with the list of columns."""
    if value == "help" and not ctx.resilient_parsing:
        click.echo(_columns())
        ctx.exit()
    return value


def _check_template(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """UsageError for a wrong ``--format``; one without a field is hardly a format, but the name of an output."""
    if value is None or ctx.resilient_parsing:
        return value
    from kdump.cli.words import output_hint
    from kdump.log.context import FileContext
    from kdump.rows.formatted import FormatLines, has_field

    try:
        FormatLines(value, FileContext("", None, None))
    except ValueError as error:
        raise click.UsageError(f"--format: {error}") from None
    if not has_field(value):
        hint = output_hint(value, ctx) or "Other outputs are --output jsonl, csv, table, arrow and parquet"
        raise click.UsageError(f"--format: '{value}' has no field, such as %k. {hint}")
    return value


def _columns() -> str:
    """What ``--fields help`` prints."""
    from kdump.rows.tables import BATCH, NEXT_OFFSET, RECORD

    lines = []
    for shown in (BATCH, RECORD):
        lines += [f"{shown.type}:", *(f"  {column.name} ({column.type.name.lower()})" for column in shown.columns)]
    lines.append("decodedKey, decodedValue besides: records with a decoder")
    lines.append(f"{NEXT_OFFSET} besides: logs of {log_titles()}")
    return "\n".join([*lines, "headerKeys instead of key, value and headers: records with --deep-iteration"])


def _refuse_jobs(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """Refuse ``-j``, which other commands take, with a reason."""
    if value is not None:
        raise click.UsageError(f"{ctx.info_name} prints from one process: -j does not go with it")


class DumpArguments(
    SchemaArguments,
    TierArguments,
    TopicArguments,
    LogArguments,
    FrameArguments,
    TimeArguments,
    ColorArguments,
    EngineArguments,
    LimitArguments,
):
    """Options of ``kdump dump``. Times are ms since 1970, sizes bytes."""

    about: ClassVar[Mapping[OptionGroup, str]] = {
        OptionGroup.CHOICE: """
            All filters can be combined: a row is shown if it passes all of them. A range that ends before it begins
            holds nothing; kdump says so on standard error. `RANGES AND FILTERS` explains what each filter means for
            batches and for records.
            """,
        OptionGroup.JAVA: """
            These are the options of the Java tool. Each decoder implies --print-data-log. In the default output the
            text of decoded records is that of the Java tool, including its own messages about what does not decode. As
            in the Java tool, if you give several of the decoders of topics, the one that is listed first here wins.
            With the other outputs a record has the columns `decodedKey` and `decodedValue`; see `Decoded records`.
            """,
    }
    local_only = (
        "--output kafka",
        "--output table",
        *_BINARY,
        "--files",
        "--all-files",
        "-n",
        "--tail",
        "--follow",
        "--frame",
        "--group",
        "--transactional-id",
        "a stream",
        "a text file",
        "a file of another world",
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("--explain", excludes=("several PATHs",), message="--explain takes one PATH, a file"),
        Conflict(
            "--explain",
            only=EVERYWHERE | {"paths", "max_decompressed_size", "color", "pager"},
            message="--explain is instead of a dump, it does not go with {other}",
        ),
        Conflict(
            "--explain",
            excludes=("a text file",),
            message="{other} is a text file: there are no fields to explain, kdump dump shows it",
        ),
        Conflict(
            "--frame",
            excludes=("--files", "--all-files", "--log-format", "--follow", "--tail", "--group", "--transactional-id"),
            message="--frame reads saved requests and responses, it does not go with {other}",
        ),
        Conflict("--frame", excludes=("--redact", "--redact-key", *_DECODERS, "--isolation read_committed")),
        Conflict(
            "text files only",
            only=EVERYWHERE | {"paths", "all_files", "output", "fields", "color", "pager", "engine", "master", "conf"},
            message="{option} is a text file, shown as it is: {other} does not go with it",
        ),
        Conflict(
            "a file of another world",
            only=EVERYWHERE
            | {"paths", "output", "csv_safe", "fields", "color", "pager", "take", "resync", "show_secrets"}
            | {"max_decompressed_size", "engine", "master", "conf"},
            message="{option}: {other} does not go with it",
        ),
        Conflict("a file of another world", excludes=("another PATH",), message="{option}, {other} is not"),
        Conflict("--topic", "--partition", excludes=("--files", "--follow", "--frame")),
        Conflict(
            "--follow",
            excludes=("--files", "--all-files"),
            message="--follow takes a PATH and its .log files, neither --files nor --all-files",
        ),
        Conflict(
            "--follow",
            excludes=("several PATHs", "--resync", "--isolation read_committed"),
            message="--follow takes one PATH, and neither --resync nor --isolation read_committed",
        ),
        Conflict("--follow", excludes=("a URI",), message="--follow takes a PATH of this machine, not a URI"),
        Conflict(
            "--follow",
            excludes=("--output table",),
            message="--follow shows rows as they come, a table is made of pages",
        ),
        Conflict(
            "--follow",
            "--all-files",
            "--csv-safe",
            "a text file",
            excludes=_BINARY,
            message="{option} does not go with {other}, which has the rows of whole logs",
        ),
        Conflict("--tail", excludes=("a stream",), message="--tail reads its input twice, {other} is a stream"),
        Conflict(
            *_TOPIC_DECODERS,
            excludes=_OWN_DECODERS,
            message="{option} goes neither with --decode nor with --key-decoder, --value-decoder, --schemas",
        ),
        Conflict(
            *_DECODERS,
            excludes=("--redact", "--redact-key"),
            message="--redact hides what a decoder would show, they exclude each other",
        ),
        Conflict(
            "--fields",
            "--batches",
            excludes=("--output kafka",),
            message="--fields and --batches go with --output jsonl, csv, table, arrow or parquet",
        ),
        Conflict("--frame", "--log-format", excludes=("--dialect",)),
        Conflict(
            "--key",
            "--value",
            "--header",
            "--tombstones",
            "--group",
            "--transactional-id",
            excludes=("--batches",),
            message="--key, --value, --header, --tombstones and --group choose records, they do not go with --batches",
        ),
        Conflict(*_DECODERS, excludes=("--batches",), message="decoders show records, they do not go with --batches"),
    )

    decoding = DecoderChoice()
    """How keys and values are decoded, once the command has looked for schemas."""
    paths: tuple[str, ...] = argument("PATH...", many=True, type=PATH)
    all_files: bool = option(
        OptionGroup.READ,
        "--all-files",
        "In directories, also dump index, snapshot and checkpoint files.",
        """
        In directories, also dump the files beside the *.log* files: first indexes and snapshots by offset, then
        checkpoints.
        """,
    )
    offsets: Range | None = option(
        OptionGroup.CHOICE,
        "--offset A:B",
        "Offsets A up to B, B left out.",
        "Offsets from *A* up to *B*; *B* itself is excluded. Either may be missing. *A* alone is one offset.",
        type=OFFSETS,
    )
    no_index: bool = option(
        OptionGroup.CHOICE,
        "--no-index",
        "Do not use index files for a range; scan the log.",
    )
    key: re.Pattern[bytes] | None = option(
        OptionGroup.CHOICE,
        "--key RE",
        "Records with RE in the key.",
        r"""
        Records whose key contains a match of the regular expression. The syntax is Python's, over bytes: text in the
        expression stands for its UTF-8 encoding, and `\xff` for one byte. A null key never matches.
        """,
        type=PATTERN,
    )
    value: re.Pattern[bytes] | None = option(
        OptionGroup.CHOICE,
        "--value RE",
        "Records with RE in the value.",
        "The same for values.",
        type=PATTERN,
    )
    headers: tuple[HeaderFilter, ...] = option(
        OptionGroup.CHOICE,
        "--header K[=RE]",
        "Records with a header K (and RE in its value); may be repeated.",
        """
        Records that have a header with the key *K* and, with *RE*, a match in the value of such a header. May be
        repeated; all must match.
        """,
        type=HEADER,
        multiple=True,
    )
    tombstones: bool = option(
        OptionGroup.CHOICE,
        "--tombstones",
        "Only tombstones: records with a key and without a value.",
    )
    producer_ids: tuple[int, ...] = option(
        OptionGroup.CHOICE,
        "--producer-id N",
        "Batches of this producer; may be repeated.",
        "Batches of this producer, and their records. May be repeated; one must match.",
        type=int,
        multiple=True,
    )
    group: str | None = option(
        OptionGroup.CHOICE,
        "--group G",
        "Records of this group in __consumer_offsets, decoded; names its partition.",
        """
        Show only the records of the consumer group *G* in *__consumer_offsets*, decoded. Of a log directory nothing
        else is read. A line on standard error names the group's partition.
        """,
        excludes=("--transactional-id",),
        message="{option} and {other} exclude each other",
    )
    transactional_id: str | None = option(
        OptionGroup.CHOICE,
        "--transactional-id T",
        "Records of this id in __transaction_state, decoded; names its partition.",
        "The same for a transactional id in *__transaction_state*.",
    )
    partitions: int | None = option(
        OptionGroup.CHOICE,
        "--partitions N",
        "How many partitions that topic has.",
        """
        The number of partitions of that topic, if you know it. The partition then follows from the name alone, and of a
        log directory only this partition is read. Without this option the partition is the one that holds the records.
        If none does, kdump names the partition that it would be with 50 partitions, Kafka's default.
        """,
        type=click.IntRange(1),
        needs=("--group", "--transactional-id"),
    )
    control: bool | None = option(
        OptionGroup.CHOICE,
        "--control/--no-control",
        "Only control batches, or none of them.",
        "Show only control batches (transaction markers, KRaft control records), or none of them.",
        default=None,
    )
    isolation: str = option(
        OptionGroup.CHOICE,
        "--isolation",
        "read_committed: without aborted transactions, up to the first open one.",
        """
        `read_committed` leaves out aborted transactions and stops before the first open transaction, as a consumer with
        this setting would. Control batches are shown. The default is `read_uncommitted`. See `ISOLATION`.
        """,
        type=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
    )
    take: int | None = option(
        OptionGroup.CHOICE,
        "-n, --limit N",
        "Show the first N batches or records.",
        "Show the first *N* batches or records (whichever kind is shown), counted over all files together.",
        type=click.IntRange(0),
    )
    follow: bool = option(
        OptionGroup.CHOICE,
        "-f, --follow",
        "Continue as a segment or partition grows, until interrupted.",
        """
        Continue as the *PATH* grows, until you interrupt it. There must be one *PATH* on this machine: a segment, or a
        partition directory, whose new segments are read too. A batch is shown when it is complete. Zeros at the end may
        be preallocated space, so kdump waits there. The run ends by itself when `-n` rows are shown, when the reader of
        the output leaves, and at damage at which a dump would end. It ends with status 3 when the newest segment is
        truncated, deleted or replaced. A log that still grows has no known outcome of its transactions: `txnState` is
        null in the newest segment. You cannot combine this option with --resync, --files, --all-files or `--isolation
        read_committed`.
        """,
    )
    tail: int | None = option(
        OptionGroup.CHOICE,
        "--tail N",
        "Show the last N batches or records.",
        """
        Show the last *N* batches or records. The input is read twice, so it cannot be a stream. With `-f` kdump
        continues after them.
        """,
        type=click.IntRange(0),
        excludes=("-n",),
    )
    output: Literal["kafka", "jsonl", "csv", "table", "arrow", "parquet"] = output_options(
        "kafka: the text of DumpLogSegments; JSON lines, CSV, a human-readable table, an Arrow stream, Parquet.",
        """
        `kafka` (the default): the text of `DumpLogSegments`. `jsonl`: one JSON object per line. `csv`: RFC 4180, exact:
        a cell holds what the file holds, even if a spreadsheet takes it for a formula. `table`: aligned columns,
        human-readable. `arrow`: an Arrow IPC stream. `parquet`: a Parquet file, compressed with zstd. Arrow and Parquet
        have the columns of JSON lines: `offset` is int64, `timestamp` is a timestamp in milliseconds (UTC),
        `timestampType` is -1 (none), 0 (CreateTime) or 1 (LogAppendTime), `key` and `value` are binary, `headers` are
        lists of (key, value), and `control`, `decodedKey` and `decodedValue` are JSON text. They hold the rows of logs
        only, go to a file or a pipe, and need pyarrow (`pip install pyarrow`). See `OUTPUT FORMATS`. Some options of
        the Java tool only make sense for its text (decoder classes, --skip-record-metadata, those for indexes). With
        another output they are a usage error.
        """,
        ["kafka", "jsonl", "csv", "table", "arrow", "parquet"],
    )
    csv_safe: bool = option(
        OptionGroup.OUTPUT,
        "--csv-safe",
        "With --output csv: put a ' before cells that look like a formula.",
        """
        With `--output csv`, for spreadsheets. A spreadsheet takes a cell of text for a formula if it begins with `=`,
        `+`, `-`, `@`, a tab, a carriage return, a line feed, a byte order mark, or a wide form of one of these signs.
        kdump puts a `'` in front of such a cell. Numbers do not change.
        """,
        needs=("--output csv",),
    )
    view: str | None = either(
        option(
            OptionGroup.OUTPUT,
            "--batches",
            "Structured output: show batches.",
            """
            Structured output shows batches; the default. Filters on contents (--key, --value, --header) cannot select
            batches.
            """,
            flag_value="batches",
        ),
        option(
            OptionGroup.OUTPUT,
            "--records",
            "Structured output: show records, contents included.",
            """
            Structured output shows records with their contents. With --print-data-log it does so too; with
            --deep-iteration alone it shows records without contents. In the default output this option is the same as
            --print-data-log.
            """,
            flag_value="records",
        ),
    )
    fields: str | None = option(
        OptionGroup.OUTPUT,
        "--fields A,B,...",
        "Structured output: only these columns; 'help' lists them.",
        "Structured output shows only these columns, in this order. `--fields help` lists the columns.",
        callback=_list_fields,
    )
    template: str | None = option(
        OptionGroup.OUTPUT,
        "--format STRING",
        r"Records by a format string: %t %p %o %T %k %v %K %V %h %H %e %x %y %f %i, \n \t \xNN; see the manual.",
        """
        Print each record in the form of *STRING*; see `FORMAT STRINGS`. This is an output of its own and cannot be
        combined with --output.
        """,
        callback=_check_template,
        excludes=("--output jsonl", "--output csv", "--output table", *_BINARY),
        message="--format is an output of its own, it does not go with --output",
    )
    null: str | None = option(
        OptionGroup.OUTPUT,
        "--null TEXT",
        "With --format: what stands for null. [default: nothing]",
        """
        With --format: what stands for a key, a value or the value of a header that is null. The default is nothing, as
        for an empty one.
        """,
        needs=("--format",),
    )
    decode: str | None = option(
        OptionGroup.OUTPUT,
        "--decode",
        "auto: decode Kafka's internal topics, each by the name of its directory.",
        """
        Decode each file with the decoder of the topic that its directory is named after, and a *.checkpoint* as cluster
        metadata. For other topics --key-decoder and --value-decoder are used, if you give them, or else the schemas of
        a registry whose topic lies in the same log directory.
        """,
        type=("auto",),
    )
    key_decoder: str | None = option(
        OptionGroup.OUTPUT,
        "--key-decoder NAME",
        "Keys as text, hex, base64, json, int32, int64, float64, uuid, none, schema, or one from a plugin.",
        """
        Decode keys with one of kdump's own decoders, or with a decoder from a plugin. Implies --print-data-log. `text`:
        UTF-8. `hex`, `base64`. `json`: printed in one line; an object that has the same name twice is not decoded,
        because one of its values would be lost. `int32`, `int64`, `float64`: as Kafka's serializers write them. `uuid`:
        16 bytes, or the 36 characters of Kafka's serializer. `none`: the bytes as they are, not decoded. `schema`: by
        the schema that a registry has for them, see --schemas.

        A key of more than 8 MiB stays bytes. For plugins see `DECODERS OF YOUR OWN`.
        """,
        excludes=("--key-decoder-class",),
        message="{option} and {other} exclude each other",
    )
    value_decoder: str | None = option(
        OptionGroup.OUTPUT,
        "--value-decoder NAME",
        "As --key-decoder, for values.",
        "The same for values.",
        excludes=("--value-decoder-class",),
        message="{option} and {other} exclude each other",
    )
    flatten: bool = flatten_option(("--output arrow", "--output parquet"))
    redact: bool = option(
        OptionGroup.OUTPUT,
        "--redact",
        "Replace keys and values by keyed hashes of the same size.",
        """
        Replace keys, values and header values by letters and digits that a keyed hash makes of them, so that you can
        give the output away. Sizes and nulls stay. Equal contents stay equal. Header keys, valid control records,
        offsets and timestamps stay. CRCs are those of the original: somebody who guesses short contents can check the
        guess against the CRC. Each run uses a new hash key.
        """,
    )
    redact_key: str | None = option(
        OptionGroup.OUTPUT,
        "--redact-key SECRET",
        "--redact with the same hashes in every run.",
        "The same with a hash key made from *SECRET*, so that you can compare several runs.",
    )
    show_secrets: bool = option(
        OptionGroup.OUTPUT,
        "--show-secrets",
        f"Files of {path_titles()}: with passwords, salts and keys.",
        f"Files of {path_titles()}: show salts, keys and passwords in Kafka's configs, and the hashes in ACLs.",
        needs=("a file of another world",),
        message=f"--show-secrets goes with files of {path_titles()}",
    )
    pager: bool = option(
        OptionGroup.OUTPUT,
        "--pager",
        "Show the output in $PAGER when it goes to a terminal.",
    )
    resync: bool = option(
        OptionGroup.DAMAGE,
        "--resync",
        "Skip damage and continue; report what is skipped on stderr.",
        """
        Skip damage and continue: where the dump would end, search for the next batch whose framing and CRC hold, and
        continue there. One line on standard error tells what was skipped: position, length, reason, the offsets that
        are lost at most, and the position at which reading goes on. In JSON lines it is also a row of the type
        `finding`, in its place among the other rows. A batch inside the payload of a valid batch is payload, and is not
        taken for a batch of the log. The Java tool's decoders of coordinators' topics stop at a record without a key;
        with this option such a record is shown as it is. Without this option a line tells you if more data follows
        after the place at which the dump ended.
        """,
    )
    explain: int | None = option(
        OptionGroup.DAMAGE,
        "--explain POSITION",
        "Explain the bytes around a file position, field by field, damage included.",
        """
        Instead of a dump, show the batch or record at this position of one file as labelled bytes: what the CRC covers,
        where the bytes stop making sense, and the likely cause. The position may also be an undamaged one. Contents are
        shown as they are, so this option cannot be combined with --redact or with other options of a dump.
        """,
        type=POSITION,
    )
    files: str | None = option(
        OptionGroup.JAVA,
        "--files A,B,...",
        "Comma-separated files, taken as DumpLogSegments takes them; PATHs are then ignored, as there.",
        """
        Comma-separated file names, treated as `DumpLogSegments` treats them: directories are not accepted, spaces
        belong to the names, and for a name with another suffix kdump prints *Ignoring unknown file*. As in the Java
        tool, every *PATH* is then ignored.
        """,
        callback=_once,
        multiple=True,
    )
    dialect: str | None = option(
        OptionGroup.JAVA,
        "--dialect",
        "Print as DumpLogSegments of that version of Kafka does.",
        f"Print as `DumpLogSegments` of that version of Kafka does; the default is {NEWEST.name}. See `DIALECTS`.",
        type=click.Choice(DIALECTS),
        show_default=NEWEST.name,
        **_TEXT_ONLY,
    )
    deep_iteration: bool = option(
        OptionGroup.JAVA,
        "--deep-iteration",
        "Show records, not only batches.",
        """
        Show the records of each batch below its line, without keys and values. Compressed batches are decompressed.
        """,
    )
    print_data_log: bool = option(
        OptionGroup.JAVA,
        "--print-data-log",
        "Show records with keys and values.",
        "Show the records with keys and values. Implies --deep-iteration.",
    )
    skip_record_metadata: bool = option(
        OptionGroup.JAVA,
        "--skip-record-metadata",
        "Show only keys and values of records.",
        """
        Show only the key and the value of each record. A record that has neither, such as a control record, is an empty
        line.
        """,
        **_TEXT_ONLY,
    )
    verify_index_only: bool = option(
        OptionGroup.JAVA,
        "--verify-index-only",
        "Check .index and .timeindex without showing entries.",
        """
        Check each entry of an *.index* or *.timeindex* against the log, without printing the entries. Mismatches are
        reported on standard error after the last file.
        """,
        **_TEXT_ONLY,
    )
    index_sanity_check: bool = option(
        OptionGroup.JAVA,
        "--index-sanity-check",
        "Only run the sanity check of a broker that loads an index.",
        """
        Run only the sanity check that a broker runs when it loads an index. This option wins over --verify-index-only.
        """,
        **_TEXT_ONLY,
    )
    max_bytes: int | None = option(
        OptionGroup.JAVA,
        "--max-bytes N",
        "Read only the first N bytes of each .log.",
        """
        Read only the first *N* bytes of each *.log* and *.checkpoint* (0 to 2147483647). A batch that does not end
        within them is not shown, and trailing bytes are not reported. Indexes are always read whole.
        """,
        callback=_once,
        type=click.IntRange(0, MAX_BYTES),
        multiple=True,
    )
    max_message_size: int | None = option(
        OptionGroup.JAVA,
        "--max-message-size N",
        "Bytes of the log read at each .index entry.",
        """
        How many bytes of the log to read at each entry of an *.index*; the default is 5242880. An entry that points to
        a larger batch counts as an entry that points to no batch.
        """,
        callback=_once,
        type=click.IntRange(0, 2**31 - 1),
        show_default=str(MAX_MESSAGE_SIZE),
        multiple=True,
        **_TEXT_ONLY,
    )
    key_decoder_class: str | None = option(
        OptionGroup.JAVA,
        "--key-decoder-class [CLASS]",
        "StringDecoder (default), IntegerDecoder, LongDecoder or DefaultDecoder; implies --print-data-log.",
        """
        How to print keys as text. Implies --print-data-log. *CLASS* is `StringDecoder` (the default; malformed UTF-8
        becomes U+FFFD), `IntegerDecoder` (4 bytes), `LongDecoder` (8 bytes) or `DefaultDecoder`, with or without
        *org.apache.kafka.tools.api.* in front (*kafka.serializer.* up to `--dialect 3.9`). As in the Java tool, the
        next word is taken as the *CLASS*, even if you meant it as a *PATH*.
        """,
        callback=_once,
        is_flag=False,
        flag_value="StringDecoder",
        multiple=True,
        **_TEXT_ONLY,
    )
    value_decoder_class: str | None = option(
        OptionGroup.JAVA,
        "--value-decoder-class [CLASS]",
        "As --key-decoder-class, for values.",
        "The same for values.",
        callback=_once,
        is_flag=False,
        flag_value="StringDecoder",
        multiple=True,
        **_TEXT_ONLY,
    )
    offsets_decoder: bool = option(
        OptionGroup.JAVA,
        "--offsets-decoder",
        "Decode __consumer_offsets; implies --print-data-log.",
    )
    transaction_log_decoder: bool = option(
        OptionGroup.JAVA,
        "--transaction-log-decoder",
        "Decode __transaction_state.",
    )
    cluster_metadata_decoder: bool = option(
        OptionGroup.JAVA,
        "--cluster-metadata-decoder",
        "Decode __cluster_metadata and .checkpoint.",
        "Decode *__cluster_metadata* and its snapshots (*.checkpoint*).",
    )
    remote_log_metadata_decoder: bool = option(
        OptionGroup.JAVA,
        "--remote-log-metadata-decoder",
        "Decode __remote_log_metadata.",
    )
    share_group_state_decoder: bool = option(
        OptionGroup.JAVA,
        "--share-group-state-decoder",
        "Decode __share_group_state.",
    )
    _jobs: None = option(OptionGroup.LIMITS, "-j, --jobs N", "", hidden=True, expose_value=False, callback=_refuse_jobs)

    def is_complete(self) -> bool:
        """There is something to dump."""
        return bool(self.paths) or self.files is not None

    def facts(self) -> Mapping[str, str | bool | None]:
        """What the PATHs are."""
        paths = self.paths
        names_files = self.files is not None or self.all_files
        text_file = next(filter(is_text_file, paths), None)
        return {
            "--output kafka": self.is_text,
            "several PATHs": len(paths) != 1,
            "a text file": text_file,
            "text files only": text_file if not names_files and all(map(is_text_file, paths)) else None,
            "a stream": next(filter(reads_once, paths), None),
            "a URI": any(map(is_uri, paths)),
            **world_facts(() if self.files is not None else paths),
        }

    @property
    def is_text(self) -> bool:
        """The compatible text is wanted, not rows."""
        return self.output == "kafka" and self.template is None

    @property
    def stdout_form(self) -> str:
        """An explanation is a text."""
        return "text" if self.explain is not None else self.output

    @property
    def writes_at_once(self) -> bool:
        """A table is shown as its pages come."""
        return self.output == "table"
