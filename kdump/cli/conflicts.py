"""Which options of a command do not go together: a table for each command, and the one function that reads it.

An option is written as a user writes it: ``--follow``, ``--output csv``. What is not an option, such as the kind of a
PATH, is a fact, and the command says which facts hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click
from click.core import ParameterSource

from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.worlds import world_of_path


class Conflict:
    """One rule.

    Args:
        options: the rule holds where one of these is given; none: always.
        excludes: none of these may be given too.
        needs: one of these must be given too.
        only: no other parameters may be given, by their names; those in ``options`` may.
        message: ``{option}`` is the option that is given, ``{other}`` the one that it excludes.
    """

    # Not a dataclass: that compiles code whenever the module is loaded, for every command.

    def __init__(
        self,
        *options: str,
        excludes: tuple[str, ...] = (),
        needs: tuple[str, ...] = (),
        only: frozenset[str] | None = None,
        message: str = "",
    ) -> None:
        self.options = options
        self.excludes = excludes
        self.needs = needs
        self.only = only
        self.message = message or (
            f"{{option}} goes with {' or '.join(needs)}" if needs else "{option} does not go with {other}"
        )


def _each_other(*options: str) -> tuple[Conflict, ...]:
    """At most one of ``options`` may be given."""
    return tuple(
        Conflict(option, excludes=options[number + 1 :], message="{option} and {other} exclude each other")
        for number, option in enumerate(options[:-1])
    )


_SPARK: Final = ("--engine spark", "--master")


def _engine(*local_only: str) -> tuple[Conflict, ...]:
    """The options of the engine; ``local_only``: what only this process can do."""
    return (
        Conflict(
            "--master",
            "--conf",
            excludes=("--engine local",),
            message="--master and --conf go with Spark, not with --engine local",
        ),
        Conflict(
            "--jobs",
            "--rate",
            "--idle",
            *local_only,
            excludes=_SPARK,
            message="{option} goes with --engine local only",
        ),
    )


_EVERYWHERE: Final = frozenset({"verbose", "traceback", "rate", "idle"})

_EXPLAIN: Final = (
    Conflict("--explain", excludes=("several PATHs",), message="--explain takes one PATH, a file"),
    Conflict(
        "--explain",
        only=_EVERYWHERE | {"paths", "max_decompressed_size", "color", "pager"},
        message="--explain is instead of a dump, it does not go with {other}",
    ),
    Conflict(
        "--explain",
        excludes=("a text file",),
        message="{other} is a text file: there are no fields to explain, kdump dump shows it",
    ),
)

_BINARY: Final = ("--output arrow", "--output parquet")
DUMP_LOCAL_ONLY: Final = (
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
    "a file of ZooKeeper",
)
_TOPIC_DECODERS: Final = tuple(f"--{name}-decoder" for name in INTERNAL_TOPICS)
_OWN_DECODERS: Final = ("--decode", "--key-decoder", "--value-decoder")
_DECODERS: Final = (*_TOPIC_DECODERS, *_OWN_DECODERS, "--group", "--transactional-id")

DUMP: Final = (
    *_EXPLAIN,
    Conflict(
        "--frame",
        excludes=("--files", "--all-files", "--log-format", "--follow", "--tail", "--group", "--transactional-id"),
        message="--frame reads saved requests and responses, it does not go with {other}",
    ),
    Conflict("--frame", excludes=("--redact", "--redact-key", *_DECODERS, "--isolation read_committed")),
    Conflict(
        "text files only",
        only=_EVERYWHERE | {"paths", "all_files", "output", "fields", "color", "pager", "engine", "master", "conf"},
        message="{option} is a text file, shown as it is: {other} does not go with it",
    ),
    Conflict(
        "a file of ZooKeeper",
        only=_EVERYWHERE
        | {"paths", "output", "csv_safe", "fields", "color", "pager", "take", "resync", "show_secrets"}
        | {"max_decompressed_size", "engine", "master", "conf"},
        message="{option} is of ZooKeeper: {other} does not go with it",
    ),
    Conflict("a file of ZooKeeper", excludes=("another PATH",), message="{option} is of ZooKeeper, {other} is not"),
    Conflict("--show-secrets", needs=("a file of ZooKeeper",), message="--show-secrets goes with files of ZooKeeper"),
    Conflict(
        "--format",
        excludes=("--output jsonl", "--output csv", "--output table", *_BINARY),
        message="--format is an output of its own, it does not go with --output",
    ),
    Conflict("--null", needs=("--format",)),
    Conflict("--csv-safe", needs=("--output csv",)),
    Conflict(
        "--topic",
        excludes=("--files", "--follow", "--frame"),
    ),
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
    Conflict("--tail", excludes=("-n",)),
    *_each_other("--group", "--transactional-id"),
    Conflict("--partitions", needs=("--group", "--transactional-id")),
    Conflict(
        *_TOPIC_DECODERS,
        excludes=_OWN_DECODERS,
        message="{option} goes neither with --decode nor with --key-decoder, --value-decoder",
    ),
    *_each_other("--key-decoder", "--key-decoder-class"),
    *_each_other("--value-decoder", "--value-decoder-class"),
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
        "--dialect",
        "--skip-record-metadata",
        "--verify-index-only",
        "--index-sanity-check",
        "--max-message-size",
        "--key-decoder-class",
        "--value-decoder-class",
        needs=("--output kafka",),
        message="{option} goes with --output kafka only",
    ),
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
    Conflict(
        *_DECODERS,
        excludes=("--batches",),
        message="decoders show records, they do not go with --batches",
    ),
    *_engine(*DUMP_LOCAL_ONLY),
)

DIFF: Final = (
    Conflict("--records", excludes=("--output junit",)),
    *_engine(),
)

VERIFY: Final = (
    Conflict(
        "--clean",
        "--unclean",
        "--recovery-point",
        "--log-start-offset",
        "--segment-index-bytes",
        "--now",
        needs=("--startup",),
    ),
    Conflict(
        *(
            "--output junit",
            "--output sarif",
            "--output github",
            "--quick",
            "--gaps",
            "--strict",
            "--max-decompressed-size",
            "--manifest",
        ),
        excludes=("--startup",),
    ),
    *_engine(),
)

STATS: Final = (
    Conflict("--quick", excludes=("contents",), message="--by {other} reads every record, it does not go with --quick"),
    Conflict("--quick", "--html", "--by", excludes=("--what-if", "--offsets-for")),
    Conflict("--output reset-csv", needs=("--offsets-for",)),
    Conflict("--offset-map", needs=("--output reset-csv",)),
    Conflict("--now", needs=("--what-if",)),
    *_each_other("--what-if", "--offsets-for"),
    Conflict(
        excludes=("a file of ZooKeeper",),
        message="{other} is of ZooKeeper: kdump state shows its tree and its changes",
    ),
    *_engine("--what-if", "--offsets-for"),
)

_STATE: Final = ("--at", "--at-offset", "--at-zxid")
"""The options that ask for a state."""
_CHANGES: Final = ("--between", "--between-offsets", "--history")
"""The options that ask for changes of a state."""
STATE_QUESTIONS: Final = (*_STATE, *_CHANGES)

STATE: Final = (
    *_each_other("--at", "--at-offset", "--at-zxid", "--between", "--between-offsets"),
    Conflict("--history", excludes=_STATE),
    Conflict(
        "--decode",
        "--key-decoder",
        "--value-decoder",
        "--output reset-csv",
        excludes=("--at-offset", "--at-zxid", *_CHANGES),
        message="{option} goes with --at",
    ),
    Conflict("--offset-map", needs=("--output reset-csv",)),
    Conflict(
        "--output records", "--output commands", excludes=_CHANGES, message="{option} goes with --at or --at-offset"
    ),
    Conflict(
        "a file of ZooKeeper",
        excludes=(
            "another PATH",
            "--topic",
            "--broker",
            "--at-offset",
            "--between-offsets",
            "--output commands",
            "--output reset-csv",
            "--decode",
            "--key-decoder",
            "--value-decoder",
        ),
        message="{option} is of ZooKeeper, {other} does not go with it",
    ),
    Conflict("--at-zxid", needs=("a file of ZooKeeper",), message="--at-zxid goes with files of ZooKeeper"),
)

_CODEC: Final = (
    Conflict(
        "--codec zstd",
        excludes=("--to-magic 0", "--to-magic 1"),
        message="--codec zstd needs --to-magic 2: older formats have no zstd",
    ),
    Conflict(
        "--level",
        needs=("--codec gzip", "--codec lz4", "--codec zstd"),
        message="--level goes with --codec gzip, lz4 or zstd",
    ),
)
"""Of logs that are written anew."""

_TO: Final = ("--to jsonl", "--to csv", "--to parquet")
_TO_STDOUT: Final = "-o -"
CONVERT_LOCAL_ONLY: Final = (_TO_STDOUT, "a stream", "--from jsonl")
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
    "--isolation read_committed",
)
"""Options that change what is written. Without one the files of a bucket are written as they are."""
CONVERT: Final = (
    Conflict(*_TO, excludes=("--to-magic", "--level", "--renumber", "--split-bytes", "--from", "--codec")),
    Conflict(
        needs=(*CONVERSIONS, "--skip-damaged", "a bucket"),
        message="nothing to do: --to-magic, --codec, --to or another option says what to convert to",
    ),
    Conflict("--csv-safe", needs=("--to csv",)),
    Conflict(excludes=("no DST",), message="no DST given: -o FILE or -o DIRECTORY"),
    Conflict(excludes=("DST is a URI",), message="{other} is a URI: kdump writes to this machine only"),
    Conflict(
        _TO_STDOUT,
        needs=("--to jsonl", "--to csv"),
        message="-o - (standard output) goes with --to jsonl and --to csv",
    ),
    Conflict(
        "--isolation read_committed",
        excludes=("--from", "a stream"),
        message="--isolation read_committed reads its input twice, not a stream or JSON lines",
    ),
    *_CODEC,
    *_engine(*CONVERT_LOCAL_ONLY),
)

RESTORE: Final = (
    Conflict(excludes=("an empty path",), message="a path is empty"),
    Conflict("no -o", only=_EVERYWHERE | {"paths", "output"}, message="{other} goes with -o LOGDIR"),
    Conflict("-o", excludes=("--output commands", "a stream", "-o -")),
    Conflict("-o", excludes=("LOGDIR is a URI",), message="{other} is a URI: kdump writes to this machine only"),
    Conflict("-o", needs=("--topic", "--from-log-dir", "a bucket")),
    Conflict("no -o", excludes=("a bucket",), message="a bucket goes with -o LOGDIR"),
    Conflict("--from-log-dir", excludes=("a PATH", "--topic", "--topic-id", "--partition")),
    Conflict("--from-log-dir", needs=("--metadata",)),
    Conflict("--partition", excludes=("several PATHs",)),
    *_CODEC,
)

SALVAGE_OPTIONS: Final = ("--deep", "--hold-offsets", "--no-hold-offsets", "--txn", "--correct", "--from")

REPAIR: Final = (
    *_each_other("--like-broker", "--salvage", "--indexes"),
    Conflict(excludes=("an empty path",), message="a path is empty"),
    Conflict(
        excludes=("-o names a format",),
        message="-o names a directory; --output {other} prints the plan in that format",
    ),
    Conflict(
        "--undo",
        only=_EVERYWHERE | {"replace_changed", "backup_dir", "force", "output_format"},
        message="--undo goes with nothing else but --replace-changed, --backup-dir and --force",
    ),
    Conflict(
        "--finish",
        only=_EVERYWHERE | {"paths", "backup_dir", "force", "output_format"},
        message="--finish goes with nothing else but --backup-dir, --force and --output",
    ),
    *_each_other("-o", "--in-place"),
    Conflict(
        "--backup-dir",
        "--force",
        needs=("--in-place", "--finish", "--undo"),
        message="--backup-dir and --force go with --in-place",
    ),
    Conflict("--overwrite", needs=("-o",)),
    Conflict("--allow-worse-start", needs=("--in-place",)),
    Conflict("--replace-changed", needs=("--undo",)),
    Conflict(
        *SALVAGE_OPTIONS,
        excludes=("--like-broker", "--indexes"),
        message="{option} goes with --salvage",
    ),
)


def world_facts(paths: Sequence[str]) -> dict[str, str | bool | None]:
    """The facts that a PATH is of a world with its own files, and that another one is not."""
    is_there = [world_of_path(path) is not None for path in paths]
    if True not in is_there:
        return {"a file of ZooKeeper": None, "another PATH": None}
    other = paths[is_there.index(False)] if False in is_there else None
    return {"a file of ZooKeeper": paths[is_there.index(True)], "another PATH": other}


class GivenOptions:
    """What the current command was given.

    Args:
        facts: which facts hold, by their names; a text is shown in messages in place of the name.
    """

    def __init__(self, facts: Mapping[str, str | bool | None] | None = None) -> None:
        self._context = click.get_current_context()
        self._facts = facts or {}

    def check(self, conflicts: Iterable[Conflict]) -> None:
        """Raises click.UsageError where a rule is broken."""
        for conflict in conflicts:
            option = self.first(conflict.options)
            if conflict.options and option is None:
                continue
            other = self.first(conflict.excludes)
            if conflict.only is not None:
                other = self._other_parameter(conflict.only, conflict.options)
            if other is not None or (conflict.needs and self.first(conflict.needs) is None):
                raise click.UsageError(conflict.message.format(option=self._shown(option), other=self._shown(other)))

    def first(self, names: Iterable[str]) -> str | None:
        """The first of these options and facts that is given."""
        return next((name for name in names if self._has(name)), None)

    def _has(self, name: str) -> bool:
        if name in self._facts:
            fact = self._facts[name]
            return fact is not None and fact is not False
        option, _, wanted = name.partition(" ")
        for parameter in self._context.command.params:
            value = self._context.params.get(parameter.name or "")
            if option in parameter.secondary_opts:
                return value is False
            if option not in parameter.opts:
                continue
            if wanted:
                return str(value) == wanted
            if isinstance(parameter, click.Option) and parameter.is_flag:
                return value is True if parameter.is_bool_flag else bool(value == parameter.flag_value)
            return value is not None and value != () and value != parameter.get_default(self._context)
        return False

    def _other_parameter(self, allowed: frozenset[str], options: tuple[str, ...]) -> str | None:
        """A parameter on the command line that is not allowed."""
        for parameter in self._context.command.params:
            is_given = self._context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
            if is_given and parameter.name not in allowed and not set(parameter.opts) & set(options):
                return parameter.opts[-1]
        return None

    def _shown(self, name: str | None) -> str | None:
        fact = self._facts.get(name or "")
        return fact if isinstance(fact, str) else name
