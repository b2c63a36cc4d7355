"""Options of ``kdump convert``, and those of logs that are written anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

import click

from kdump.cli.conflicts import Conflict
from kdump.cli.options.declaring import PATH, OptionGroup, argument, option
from kdump.cli.options.shared import (
    JobsArguments,
    LimitArguments,
    LogArguments,
    SchemaArguments,
    TierArguments,
    TimeArguments,
    flatten_option,
    output_options,
)
from kdump.cli.params import OFFSETS
from kdump.format.batch import CODEC_NAMES, MAGIC
from kdump.log.files import strip_credentials
from kdump.log.named import reads_once
from kdump.log.names import MAX_OFFSET, is_uri
from kdump.reading.selection import Range
from kdump.worlds import log_titles, world_of_store

KEEP: Final = "keep"
TO_STDOUT: Final = "-"


class ConversionArguments(TierArguments, TimeArguments, LimitArguments):
    """What becomes of logs that are written anew."""

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            "--codec zstd",
            excludes=("--to-magic 0", "--to-magic 1"),
            message="--codec zstd needs --to-magic 2: older formats have no zstd",
        ),
    )

    open_transactions: str | None
    to_magic: int | None = option(
        OptionGroup.WRITE,
        "--to-magic 0|1|2",
        "Message format of the result.",
        """
        The message format of the result. Without it every entry keeps its own format. See `MESSAGE FORMATS` in
        kdump-convert(1).
        """,
        type=click.IntRange(0, MAGIC),
    )
    codec: str = option(
        OptionGroup.WRITE,
        "--codec",
        "Compression of the result.",
        """
        The compression of the result: `none`, `gzip`, `snappy`, `lz4`, `zstd`, or `keep` (the default). Batches that
        have this compression already are copied, unless you give --level. Markers and empty batches are never
        compressed. Uncompressed messages of magic 0 and 1 are put into wrappers of up to 16 KiB.
        """,
        type=click.Choice([KEEP, *CODEC_NAMES]),
        default=KEEP,
        show_default="keep, as it is",
    )
    level: int | None = option(
        OptionGroup.WRITE,
        "--level N",
        "Level of --codec: gzip 1-9, lz4 1-17, zstd up to 22.",
        """
        The compression level of --codec: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22. Without it, Kafka's default
        level is used. The default of lz4, 9, is its fast mode, as in Kafka.
        """,
        type=int,
        needs=("--codec gzip", "--codec lz4", "--codec zstd"),
        message="--level goes with --codec gzip, lz4 or zstd",
    )
    offsets: Range | None = option(
        OptionGroup.CHOICE,
        "--offset A:B",
        "Offsets A up to B, B left out.",
        """
        Offsets from *A* up to *B*; *B* itself is excluded. Either may be missing. *A* alone is one offset. A batch that
        is partly in the range is cut to the records in the range. For the markers of transactions see `PARTS OF A LOG`
        in kdump-convert(1). Segments without records in the range are not written.
        """,
        type=OFFSETS,
    )
    isolation: str = option(
        OptionGroup.CHOICE,
        "--isolation",
        "read_committed: without aborted transactions, up to the first open one.",
        """
        `read_uncommitted` (the default) takes all records. `read_committed` leaves out records of aborted transactions,
        and ends where the first open transaction begins. The result needs no markers, so markers and transactional
        flags are dropped.
        """,
        type=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
    )
    renumber: int | None = option(
        OptionGroup.WRITE,
        "--renumber FROM",
        "Number the records from FROM on.",
        """
        Number the records from *FROM* on, without gaps; each partition starts again at *FROM*. Producer fields, markers
        and transactional flags are dropped.
        """,
        type=click.IntRange(0, MAX_OFFSET),
    )
    split_bytes: int | None = option(
        OptionGroup.WRITE,
        "--split-bytes N",
        "Begin a new segment before N bytes are over.",
        """
        Begin a new segment, named by its first offset, before a segment grows over *N* bytes. A segment of a single
        batch may be larger. Without this option a new segment begins only at 2 GiB, or 2,147,483,647 offsets after the
        first one, which are Kafka's limits.
        """,
        type=click.IntRange(1),
    )
    overwrite: bool = option(
        OptionGroup.WRITE,
        "--overwrite",
        "Replace files that are there; without it they are refused.",
        """
        Replace what exists: a log, its index files, a file for another tool, or in a partition for a broker the log
        that has records. Without this option that is refused, and the exit status is 1.
        """,
    )
    strict: bool = option(
        OptionGroup.DAMAGE,
        "--strict",
        "Write nothing when anything would be lost.",
        "Write nothing if anything would be lost, or cannot be restored, and end with 1.",
    )


_TO: Final = ("--to jsonl", "--to csv", "--to parquet")
_STDOUT: Final = f"-o {TO_STDOUT}"
CONVERSIONS: Final = (
    *_TO,
    "--to-magic",
    "--codec",
    "--level",
    "--renumber",
    "--split-bytes",
    "--from",
    "--offset",
    "--time",
    "--since",
    "--until",
    "--isolation read_committed",
)
"""Options that change what is written. Without one the files of a bucket are written as they are."""


class ConvertArguments(SchemaArguments, LogArguments, JobsArguments, ConversionArguments):
    """Options of ``kdump convert``."""

    needed = "SRC"
    one_path = "The result is named by -o: kdump convert SRC --to parquet -o DST"
    local_only = (_STDOUT, "a stream", "--from jsonl")
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            needs=(*CONVERSIONS, "--skip-damaged", "a bucket"),
            message="nothing to do: --to-magic, --codec, --to or another option says what to convert to",
        ),
        Conflict(*_TO, excludes=("--to-magic", "--level", "--renumber", "--split-bytes", "--from", "--codec")),
        Conflict("--schemas", needs=_TO, message="--schemas decodes records for other tools: it goes with --to"),
        Conflict(excludes=("no DST",), message="no DST given: -o FILE or -o DIRECTORY"),
        Conflict(excludes=("DST is a URI",), message="{other} is a URI: kdump writes to this machine only"),
        Conflict(
            _STDOUT,
            needs=("--to jsonl", "--to csv"),
            message="-o - (standard output) goes with --to jsonl and --to csv",
        ),
        Conflict(
            "--isolation read_committed",
            excludes=("--from", "a stream"),
            message="--isolation read_committed reads its input twice, not a stream or JSON lines",
        ),
    )

    source: str = argument("SRC", type=PATH)
    input_form: str | None = option(
        OptionGroup.READ,
        "--from",
        "SRC is JSON lines of records.",
        "*SRC* holds JSON lines, from which a log is made. See `JSON LINES IN`.",
        type=("jsonl",),
    )
    open_transactions: str | None = option(
        OptionGroup.CHOICE,
        "--open-transactions",
        "Transactions of a part of a log without an end marker: write nothing, or write it anyway.",
        """
        What to do if a part of a log has records of transactions that have no end marker in the source. `refuse` (the
        default) writes nothing and ends with 1. `keep` writes the part, with these transactions open. See `PARTS OF A
        LOG`.
        """,
        type=("refuse", "keep"),
        show_default="refuse",
    )
    destination: str = option(
        OptionGroup.WRITE,
        "-o DST",
        "The file to write, or the directory (for a directory always); with --to jsonl or csv - is standard output.",
        """
        The file or directory to write. Directories that kdump makes let nobody in who may not enter the directory of
        the source. With `--to jsonl` and `--to csv`, `-` is standard output.
        """,
        type=PATH,
    )
    form: Literal["jsonl", "csv", "parquet"] | None = option(
        OptionGroup.WRITE,
        "--to",
        "Write records for other tools.",
        "Write the records for other tools. See `EXPORTS`.",
        type=("jsonl", "csv", "parquet"),
    )
    flatten: bool = flatten_option(("--to parquet",))
    csv_safe: bool = option(
        OptionGroup.WRITE,
        "--csv-safe",
        "With --to csv: no cell begins as a spreadsheet's formula does.",
        """
        With `--to csv`: put a `'` in front of cells that a spreadsheet would take for a formula; see kdump-dump(1).
        """,
        needs=("--to csv",),
    )
    offset_map: bool = option(
        OptionGroup.WRITE,
        "--offset-map",
        f"Of logs of {log_titles()}, and with --renumber: also write DST.offsets.csv, what each old offset has become.",
        f"""
        Of logs of {log_titles()} also write *N.offsets.csv*, with the columns byteOffset and offset: for each byte
        position that a consumer of {log_titles()} may have kept, the offset from which it goes on in the result.
        With --renumber write *N.offsets.csv* too, with the columns topic, partition, offset, newTopic,
        newPartition and newOffset. A line stands where old and new offsets stop counting side by side, and at
        the end of the log. `kdump state --output reset-csv --offset-map` translates committed offsets by these
        files.
        """,
    )
    output: str = output_options(
        "How to say what was done.",
        "`text` (the default) or `jsonl`. See `LOSSES`.",
        ["text", "jsonl"],
    )
    skip_damaged: bool = option(
        OptionGroup.DAMAGE,
        "--skip-damaged",
        "Leave out what is damaged, and say so.",
        """
        Leave out what is damaged instead of refusing the segment; standard error reports what was left out. If the
        offsets of batches contradict each other, the first batch stays; kdump repair --salvage chooses with more care.
        """,
    )

    def is_complete(self) -> bool:
        """There is a source."""
        return self.source is not None

    def facts(self) -> Mapping[str, str | bool | None]:
        """What SRC and DST are."""
        destination = self.destination or ""
        return {
            "no DST": not destination,
            "DST is a URI": destination if is_uri(destination) else None,
            "a stream": reads_once(self.source),
            "a bucket": world_of_store(strip_credentials(self.source)) is not None,
        }

    @property
    def stdout_form(self) -> str:
        """That of the records where they go there."""
        return self.form or "" if self.destination == TO_STDOUT else self.output
