"""The options of DumpLogSegments: its spelling, and what their values mean.

Source: docs/spec/dump-output.md#2-options.
"""

from __future__ import annotations

from typing import Final

import click

from kdump.cli.command import Command
from kdump.cli.options.dump import DumpArguments
from kdump.dump.text.dialect import NEWEST_DIALECT, Dialect
from kdump.dump.text.options import DECODER_CLASSES, Decoder
from kdump.payloads.topics import INTERNAL_TOPICS

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
    from kdump.dump.dialects.versions import DIALECTS  # not needed by a dump as the newest makes it

    dialect = DIALECTS[version]
    given = click.get_current_context().params
    for name in sorted(dialect.lacks):
        if given[name.lstrip("-").replace("-", "_")]:
            raise click.UsageError(f"DumpLogSegments of Kafka {version} has no {name}")
    return dialect


def topic_decoder(given: DumpArguments) -> str | None:
    """The decoder of an internal topic that a flag asks for. Of several, the one that the Java tool prefers."""
    return next((name for name in INTERNAL_TOPICS if getattr(given, f"{name.replace('-', '_')}_decoder")), None)
