"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import click

from kdump.cli.about import show_version
from kdump.cli.conflicts import Conflict
from kdump.cli.options.declaring import PATH, Arguments, OptionGroup, either, option
from kdump.cli.params import CLOCK_TIMES, MASTER, SETTING, TIME_BOUND, OutputFormat
from kdump.inputs import PartitionChoice
from kdump.log import tiers
from kdump.reading.selection import Range
from kdump.releases import NEWEST, RELEASES
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.worlds import WORLDS, World, log_formats, log_titles, world_of_format

BRIEF: Final = "kdump.brief_help"
"""In the memory of click's context: only the most used options are to be shown."""
SPARK: Final = ("--engine spark", "--master")


def _show_brief_help(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        context.meta[BRIEF] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


class CommonArguments(Arguments):
    """Options that all commands have."""

    verbose: bool = option(
        OptionGroup.GENERAL,
        "-v, --verbose",
        "Report on standard error what is read.",
    )
    traceback: bool = option(
        OptionGroup.GENERAL,
        "--traceback",
        "Show where in kdump an error came from.",
        "After the line that reports an error, show where in kdump it came from.",
    )
    _version: None = option(
        OptionGroup.GENERAL,
        "--version",
        "Show the version and exit.",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show_version,
    )
    _brief: None = option(
        OptionGroup.GENERAL,
        "-h",
        "Show the most used options and exit.",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_show_brief_help,
    )


class ReadingArguments(CommonArguments):
    """Options of how the files are read."""

    rate: int | None = option(
        OptionGroup.LIMITS,
        "--rate BYTES",
        "Read at most this many bytes per second, of all files together.",
        type=click.IntRange(1),
    )
    idle: bool = option(
        OptionGroup.LIMITS,
        "--idle",
        "Take the disk and the processors only when nobody else wants them.",
        """
        Take the disk and the processors only when nobody else wants them: I/O class idle, lowest CPU priority. See
        `BESIDE A RUNNING BROKER` in kdump(1).
        """,
    )


class LimitArguments(ReadingArguments):
    """The limit of a batch."""

    max_decompressed_size: int = option(
        OptionGroup.LIMITS,
        "--max-decompressed-size BYTES",
        "Treat a batch that decompresses to more than this as damaged.",
        """
        Treat a batch that decompresses to more than this as damaged; the default is 128 MiB. See `MEMORY` in kdump(1).
        """,
        type=click.IntRange(1),
        default=DEFAULT_LIMIT,
        show_default="128 MiB",
    )


class TopicArguments(Arguments):
    """The options that choose partitions of log directories."""

    topics: tuple[str, ...] = option(
        OptionGroup.READ,
        "--topic NAME|GLOB",
        "Of log directories only the partitions of this topic; may be repeated.",
        """
        Of log directories take only the partitions of this topic, or of the topics that fit a pattern (`orders-*`). May
        be repeated. It is as if you named their directories. If no partition fits, kdump names the topics that are
        there, and ends with status 3.
        """,
        multiple=True,
    )
    numbers: tuple[int, ...] = option(
        OptionGroup.READ,
        "--partition N",
        "Of log directories only the partitions with this number, with --topic of these topics; may be repeated.",
        """
        Of log directories take only the partitions with this number: of all topics, or with --topic of these. May be
        repeated.
        """,
        type=click.IntRange(0),
        multiple=True,
    )

    @property
    def choice(self) -> PartitionChoice:
        """The partitions that are wanted."""
        return PartitionChoice(self.topics, self.numbers)


class TierArguments(Arguments):
    """Options about remote storage. Their values are told to ``log.tiers`` before any PATH is looked at."""

    tier: str | None = option(
        OptionGroup.READ,
        "--tier BUCKET",
        "The remote storage of the log directories: a partition begins with its remote segments.",
        """
        The bucket with the remote segments of the log directories, a directory or a URI. A partition begins with
        its remote segments, at its log start offset, and goes on with what the broker has. See `REMOTE STORAGE` in
        kdump(1).
        """,
        callback=lambda context, parameter, value: _tell_tier(value),
    )
    key_ring: tuple[str, ...] = option(
        OptionGroup.READ,
        "--key-ring ID=FILE",
        "The private key (PEM) of an id that manifests in a bucket name; may be repeated.",
        """
        A file with the private key (PEM) of an id that the manifests in a bucket name. May be repeated. Keys are
        never shown.
        """,
        multiple=True,
        callback=lambda context, parameter, value: _tell_keys(value),
    )


class SchemaArguments(Arguments):
    """The option that says where the schemas of keys and values are."""

    schemas: str | None = option(
        OptionGroup.READ,
        "--schemas PATH",
        "The topic of the schema registry (_schemas-0), or a log directory or bucket with it: values are decoded.",
        """
        The partition in which a schema registry keeps its schemas, by default *_schemas-0*, or a log directory or
        bucket that holds it. Values are decoded with them, and keys that name a schema. See `VALUES BY A SCHEMA` in
        kdump(1).
        """,
        type=PATH,
    )


def flatten_option(needs: tuple[str, ...]) -> Any:
    """The option that makes columns of decoded contents; ``needs``: the outputs that have such."""
    return option(
        OptionGroup.OUTPUT,
        "--flatten",
        "With Arrow or Parquet: the fields of decoded keys and values as columns of their own.",
        """
        In place of *decodedKey* and *decodedValue* write the fields of all schemas that the logs use, as columns
        *key.FIELD* and *value.FIELD* of their types, beside *keySchemaId* and *valueSchemaId*. A field that a schema
        does not have is null; one that two schemas have with types of which none holds the other is JSON text. The
        logs are read twice.
        """,
        needs=needs,
    )


def _tell_tier(bucket: str | None) -> str | None:
    tiers.tell(tiers.given()._replace(bucket=bucket))
    return bucket


def _tell_keys(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Raises click.UsageError, which does not show the value: it might be a key."""
    if not all(text.partition("=")[0] and text.partition("=")[2] for text in texts):
        raise click.UsageError("--key-ring: not of the form ID=FILE")
    tiers.tell(tiers.given()._replace(keys=dict(text.split("=", 1) for text in texts)))
    return texts


class LogArguments(Arguments):
    """The option that says which logs the files are."""

    log_format: str | None = option(
        OptionGroup.READ,
        "--log-format",
        " ".join(
            f"{world.log_format}: the files are logs of {world.title}, whatever their names; by themselves only "
            f"{world.log_suffix} files are."
            for world in WORLDS
            if world.log_format
        ),
        f"""
        The files are logs of {log_titles()}, whatever their names. Without this option only files whose names end in
        {", ".join(f"`{world.log_suffix}`" for world in WORLDS if world.log_suffix)} are taken for that.
        """,
        type=click.Choice(log_formats()),
    )

    @property
    def world(self) -> World | None:
        """The files are logs of this world, whatever their names."""
        return world_of_format(self.log_format)


class FrameArguments(Arguments):
    """The option that says that the files are saved requests."""

    frame: str | None = option(
        OptionGroup.READ,
        "--frame",
        f"The files are saved requests of {log_titles()} of this kind, or responses to them.",
        f"""
        The files are requests of {log_titles()} that somebody saved, or responses to them, with their length field.
        Several may lie one after the other. See `SAVED REQUESTS AND RESPONSES` in kdump-dump(1).
        """,
        type=("fetch", "multifetch", "produce", "multiproduce", "offsets"),
    )


class TimeArguments(Arguments):
    """The options of a range of times.

    Attributes:
        times: ``--time``, or what ``--since`` and ``--until`` are together.
    """

    times: Range | None = option(
        OptionGroup.CHOICE,
        "--time T1..T2",
        "Timestamps from T1 up to T2: ms, ISO 8601 (UTC), 12:21 of the log's day, -1h (an hour ago; s m h d w).",
        """
        Timestamps from *T1* up to *T2*; *T2* itself is excluded. Either may be missing. A time is a number of
        milliseconds since 1970, an ISO 8601 date or date and time (UTC unless it has another zone), `now`, `-1h` for an
        hour ago, with `s`, `m`, `h`, `d` or `w`, or a time of day such as `12:21`. That is on the day of the other
        bound, or else of the logs: kdump says which day it takes, and refuses if they are of several days. Messages of
        magic 0 have no time and are outside of every range.
        """,
        type=CLOCK_TIMES,
    )
    since: str | None = option(
        OptionGroup.CHOICE,
        "--since TIME",
        "Timestamps from TIME on, as --time TIME..",
        type=TIME_BOUND,
        excludes=("--time",),
    )
    until: str | None = option(
        OptionGroup.CHOICE,
        "--until TIME",
        "Timestamps before TIME, as --time ..TIME",
        type=TIME_BOUND,
        excludes=("--time",),
    )

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        if self.since is not None or self.until is not None:
            self.times = CLOCK_TIMES(f"{self.since or ''}..{self.until or ''}")


class ColorArguments(Arguments):
    """The option of colours."""

    color: str = option(
        OptionGroup.OUTPUT,
        "--color",
        "Colours of the output.",
        """
        Colours of the output: `auto` (the default: on a terminal, unless `NO_COLOR` is set), `always` or `never`.
        """,
        type=("auto", "always", "never"),
        default="auto",
        show_default="auto: on a terminal without NO_COLOR",
    )


class OffsetMapArguments(Arguments):
    """The option that translates offsets."""

    offset_map: tuple[str, ...] = option(
        OptionGroup.QUESTIONS,
        "--offset-map FILE",
        "With --output reset-csv: offsets as they are in logs that convert --renumber has made.",
        """
        With `--output reset-csv`: give the offsets as they are in logs that `kdump convert --renumber` has made of
        these. *FILE* is one of its *.offsets.csv* files, or a directory with such files at any depth; may be repeated.
        A committed offset becomes that of the first record at it or after it. Partitions without a map stay as they
        are. kdump refuses a map with a line of more than 64 KiB, and maps of more than 1,048,576 partitions.
        """,
        type=PATH,
        multiple=True,
        needs=("--output reset-csv",),
    )


class EngineArguments(ReadingArguments):
    """Options that say where a command runs.

    Attributes:
        local_only: options and facts that only this process can do.
    """

    local_only: ClassVar[tuple[str, ...]] = ()

    engine: str = option(
        OptionGroup.LIMITS,
        "--engine",
        "auto: Spark with --master or for 32 GiB of logs or more, if it is installed and no broker "
        "runs here; else this machine.",
        """
        `local` works on this machine, `spark` on Spark. `auto` (the default) takes Spark if you give --master, or for
        32 GiB of logs or more, if Spark is installed, no broker holds the *.lock* of the log directory, and you do not
        give `-j`, --rate or --idle. One line on standard error tells that Spark was chosen, and why; with `-v` any
        choice is told. The results are the same in all cases. With Spark there is neither --rate nor --idle, and this
        process still reads standard input itself. See kdump-spark(7).
        """,
        type=("auto", "local", "spark"),
        default="auto",
    )
    master: str | None = option(
        OptionGroup.LIMITS,
        "--master URL",
        "Run on this Spark cluster: local[N], spark://..., yarn, k8s://..., sc://...",
        """
        Run on this Spark cluster: `local[`*N*`]`, `spark://`*HOST*:*PORT*, `yarn`, `k8s://`*URL*, `sc://`*HOST*:*PORT*
        for a Spark Connect server. The paths must mean the same on all machines of the cluster.
        """,
        type=MASTER,
    )
    conf: tuple[tuple[str, str], ...] = option(
        OptionGroup.LIMITS,
        "--conf K=V",
        "A setting of Spark; may be repeated.",
        type=SETTING,
        multiple=True,
    )

    @classmethod
    def all_conflicts(cls) -> Iterator[Conflict]:
        """Also what the engines cannot do."""
        yield from super().all_conflicts()
        message = "--master and --conf go with Spark, not with --engine local"
        yield Conflict("--master", "--conf", excludes=("--engine local",), message=message)
        message = "{option} goes with --engine local only"
        yield Conflict("--jobs", "--rate", "--idle", *cls.local_only, excludes=SPARK, message=message)


class JobsArguments(EngineArguments):
    """Options that say where a command runs that can use several processes."""

    jobs: int | None = option(
        OptionGroup.LIMITS,
        "-j, --jobs N",
        "Work in N processes, if there are 64 MiB of logs or more.",
        """
        Work in *N* processes of this machine. The default is the number of cores that the process may use (its CPU
        affinity and the quotas of its control groups count), but one if a broker holds the *.lock* of the log
        directory. One line on standard error says that a broker holds it. The output is the same, in the same order,
        for every *N*. With less than 64 MiB of logs no other process is started. --rate limits all processes together.
        If the system kills a process (for example because memory runs out), the file that it was reading is an error,
        and the others are still read. This option cannot be combined with Spark.
        """,
        type=click.IntRange(1),
        show_default="as many as there are cores; 1 if a broker runs here",
    )


def output_options(help: str, manual: str, formats: Sequence[str]) -> Any:
    """``--output``, whose default is the first of the formats, and ``--json``, which is short for one of them."""
    return either(
        option(
            OptionGroup.OUTPUT,
            "--output",
            help,
            manual,
            type=OutputFormat(formats),
            default=formats[0],
        ),
        option(OptionGroup.OUTPUT, "--json", "As --output jsonl.", flag_value="jsonl"),
    )


def broker_version_option(group: OptionGroup, *needs: str, says: str = "") -> Any:
    """``--broker-version``, whose value is a key of RELEASES. ``says``: for the manual, what depends on it."""
    what = f"With {needs[0]}: the release" if needs else "The release"
    what += " of Kafka whose broker will run"
    return option(
        group,
        "--broker-version",
        f"{what}.",
        f"{what}; the default is {NEWEST.name}. {says}",
        type=click.Choice(list(RELEASES)),
        default=NEWEST.name,
        needs=needs,
    )
