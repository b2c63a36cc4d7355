"""The options of DumpLogSegments, with its spelling and its parsing.

Source: docs/spec/dump-output.md#2-options.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kdump import releases
from kdump.cli.arguments import DumpArguments
from kdump.cli.options import Command, OptionGroup, option
from kdump.dump.text.dialect import NEWEST_DIALECT, Dialect
from kdump.dump.text.options import DECODER_CLASSES, MAX_BYTES, MAX_MESSAGE_SIZE, Decoder
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.releases import NEWEST

_Function = TypeVar("_Function", bound=Callable[..., Any])

_JAVA_FLAGS: Final = (
    "print-data-log",
    "deep-iteration",
    "verify-index-only",
    "index-sanity-check",
    "skip-record-metadata",
    *(f"{name}-decoder" for name in INTERNAL_TOPICS),
)
_JAVA_VALUED: Final = ("files", "max-bytes", "max-message-size", "key-decoder-class", "value-decoder-class")


class JavaOptionsCommand(Command):
    """Takes the spellings of the Java option parser that click does not: ``-files x`` and ``--flag=ignored``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spell them click's way first."""
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*map(_click_spelling, args[:end]), *args[end:]])


def _click_spelling(word: str) -> str:
    name, equals, value = word.lstrip("-").partition("=")
    dashes = len(word) - len(word.lstrip("-"))
    if dashes in (1, 2) and name in _JAVA_FLAGS:
        return f"--{name}"
    if dashes == 1 and name in _JAVA_VALUED:
        return f"--{name}{equals}{value}"
    return word


def once(ctx: click.Context, parameter: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Refuse an option that is given twice, as the Java parser does."""
    if len(values) > 1:
        raise click.BadParameter("given more than once", ctx=ctx, param=parameter)
    return values[0] if values else None


def decoder(name: str | None, dialect: Dialect) -> Decoder:
    """The decoder of that class name, with or without its package; UsageError for an unknown one."""
    simple = name or "StringDecoder"
    for package in dialect.decoder_packages:
        simple = simple.removeprefix(package)
    if simple not in dialect.decoder_classes:
        known = ", ".join(filter(dialect.decoder_classes.__contains__, DECODER_CLASSES))
        raise click.UsageError(f"unknown decoder class '{name}' (known: {known})")
    return DECODER_CLASSES[simple]


def asked_dialect(version: str | None) -> Dialect:
    """The dialect of ``--dialect``. UsageError for an option that DumpLogSegments of that version does not have."""
    if version is None or version == NEWEST_DIALECT.version:
        return NEWEST_DIALECT
    from kdump.dump.text.dialects import DIALECTS  # not needed by a dump as the newest makes it

    dialect = DIALECTS[version]
    given = click.get_current_context().params
    for name in sorted(dialect.lacks):
        if given[name.lstrip("-").replace("-", "_")]:
            raise click.UsageError(f"DumpLogSegments of Kafka {version} has no {name}")
    return dialect


_OPTIONS: Final = (
    option(
        OptionGroup.JAVA,
        "--dialect",
        type=click.Choice(releases.DIALECTS),
        show_default=NEWEST.name,
        help="Print as DumpLogSegments of that version of Kafka does.",
    ),
    option(OptionGroup.JAVA, "--deep-iteration", is_flag=True, help="Show records, not only batches."),
    option(OptionGroup.JAVA, "--print-data-log", is_flag=True, help="Show records with keys and values."),
    option(OptionGroup.JAVA, "--skip-record-metadata", is_flag=True, help="Show only keys and values of records."),
    option(
        OptionGroup.JAVA,
        "--verify-index-only",
        is_flag=True,
        help="Check .index and .timeindex without showing entries.",
    ),
    option(
        OptionGroup.JAVA,
        "--index-sanity-check",
        is_flag=True,
        help="Only run the sanity check of a broker that loads an index.",
    ),
    option(
        OptionGroup.JAVA,
        "--max-bytes",
        multiple=True,
        callback=once,
        type=click.IntRange(0, MAX_BYTES),
        metavar="N",
        help="Read only the first N bytes of each .log.",
    ),
    option(
        OptionGroup.JAVA,
        "--max-message-size",
        multiple=True,
        callback=once,
        type=click.IntRange(0, 2**31 - 1),
        metavar="N",
        show_default=str(MAX_MESSAGE_SIZE),
        help="Bytes of the log read at each .index entry.",
    ),
    option(
        OptionGroup.JAVA,
        "--key-decoder-class",
        multiple=True,
        callback=once,
        is_flag=False,
        flag_value="StringDecoder",
        metavar="[CLASS]",
        help="StringDecoder (default), IntegerDecoder, LongDecoder or DefaultDecoder; implies --print-data-log.",
    ),
    option(
        OptionGroup.JAVA,
        "--value-decoder-class",
        multiple=True,
        callback=once,
        is_flag=False,
        flag_value="StringDecoder",
        metavar="[CLASS]",
        help="As --key-decoder-class, for values.",
    ),
    option(
        OptionGroup.JAVA, "--offsets-decoder", is_flag=True, help="Decode __consumer_offsets; implies --print-data-log."
    ),
    option(OptionGroup.JAVA, "--transaction-log-decoder", is_flag=True, help="Decode __transaction_state."),
    option(
        OptionGroup.JAVA,
        "--cluster-metadata-decoder",
        is_flag=True,
        help="Decode __cluster_metadata and .checkpoint.",
    ),
    option(OptionGroup.JAVA, "--remote-log-metadata-decoder", is_flag=True, help="Decode __remote_log_metadata."),
    option(OptionGroup.JAVA, "--share-group-state-decoder", is_flag=True, help="Decode __share_group_state."),
)


def java_options(function: _Function) -> _Function:
    """All of them but ``--files``; the function takes them under click's names."""
    for each in reversed(_OPTIONS):
        function = each(function)
    return function


def topic_decoder(given: DumpArguments) -> str | None:
    """The decoder of an internal topic that a flag asks for. Of several, the one that the Java tool prefers."""
    return next((name for name in INTERNAL_TOPICS if getattr(given, f"{name.replace('-', '_')}_decoder")), None)
