"""``kdump dump``: what DumpLogSegments prints, for the files it names and kdump's own PATHs."""

from __future__ import annotations

import os
import traceback
from typing import Any

import click

from kdump.cli import exit_status
from kdump.cli.common import common_options
from kdump.codes import Codes, KdumpError
from kdump.kafka.dumplog.options import DECODER_PACKAGE, DECODERS, MAX_BYTES, MAX_MESSAGE_SIZE, Decoder, DumpOptions
from kdump.kafka.dumplog.tool import DumpTool, target_by_java_name, target_by_path
from kdump.kafka.java import split_commas
from kdump.log.names import SIBLING_TEXT_FILES
from kdump.log.partition import segment_files
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.writers.blocks import BlockWriter

_STDOUT, _STDERR = 1, 2

_JAVA_FLAGS = (
    "print-data-log",
    "deep-iteration",
    "verify-index-only",
    "index-sanity-check",
    "skip-record-metadata",
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
)
_JAVA_VALUED = ("files", "max-bytes", "max-message-size", "key-decoder-class", "value-decoder-class")
_TOPIC_DECODERS = tuple(name for name in _JAVA_FLAGS if name.endswith("-decoder"))


class JavaOptionsCommand(click.Command):
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


def _once(ctx: click.Context, parameter: click.Parameter, values: tuple[Any, ...]) -> Any:
    """The Java parser refuses an option that is given twice."""
    if len(values) > 1:
        raise click.BadParameter("given more than once", ctx=ctx, param=parameter)
    return values[0] if values else None


def _decoder(name: str | None) -> Decoder:
    simple = (name or "StringDecoder").removeprefix(DECODER_PACKAGE)
    if simple not in DECODERS:
        raise click.UsageError(f"unknown decoder class '{name}' (known: {', '.join(DECODERS)})")
    return DECODERS[simple]


@click.command(
    cls=JavaOptionsCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  kdump dump 00000000000000000000.log                  the batches of one segment
  kdump dump --print-data-log /data/kafka/orders-0     all records of a partition
  ssh broker cat X.log | kdump dump --deep-iteration - a segment from a pipe
  kdump dump --files a.log,b.index                     as kafka-dump-log.sh would""",
)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@click.option(
    "--files",
    multiple=True,
    callback=_once,
    metavar="A,B,...",
    help="Comma-separated files, taken as DumpLogSegments takes them; PATHs are then ignored, as there.",
)
@click.option("--all-files", is_flag=True, help="Of a directory: the siblings of the .log files too.")
@click.option("--deep-iteration", is_flag=True, help="Show records, not only batches.")
@click.option("--print-data-log", is_flag=True, help="Show records with keys and values.")
@click.option("--skip-record-metadata", is_flag=True, help="Show only keys and values of records.")
@click.option("--verify-index-only", is_flag=True, help="Check .index and .timeindex without showing entries.")
@click.option("--index-sanity-check", is_flag=True, help="Only the check a broker makes when it loads an index.")
@click.option(
    "--max-bytes",
    multiple=True,
    callback=_once,
    type=click.IntRange(0, MAX_BYTES),
    metavar="N",
    help="Look at the first N bytes of each .log only.",
)
@click.option(
    "--max-message-size",
    multiple=True,
    callback=_once,
    type=click.IntRange(0, 2**31 - 1),
    metavar="N",
    help=f"Bytes of the log read at each .index entry. [default: {MAX_MESSAGE_SIZE}]",
)
@click.option(
    "--key-decoder-class",
    multiple=True,
    callback=_once,
    is_flag=False,
    flag_value="StringDecoder",
    metavar="[CLASS]",
    help="StringDecoder (default), IntegerDecoder, LongDecoder or DefaultDecoder; implies --print-data-log.",
)
@click.option(
    "--value-decoder-class",
    multiple=True,
    callback=_once,
    is_flag=False,
    flag_value="StringDecoder",
    metavar="[CLASS]",
    help="The same for values.",
)
@click.option("--offsets-decoder", is_flag=True, help="Decode __consumer_offsets (not available yet).")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode __transaction_state (not available yet).")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode __cluster_metadata (not available yet).")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Decode __remote_log_metadata (not available yet).")
@click.option("--share-group-state-decoder", is_flag=True, help="Decode __share_group_state (not available yet).")
@click.option(
    "--max-decompressed-size",
    type=click.IntRange(1),
    default=DEFAULT_LIMIT,
    metavar="BYTES",
    help="Refuse a batch that decompresses to more.  [default: 1 GiB]",
)
@common_options
def dump(paths: tuple[str, ...], files: str | None, all_files: bool, **given: Any) -> int:
    """Print Kafka segment files as DumpLogSegments 4.3.1 does, byte for byte.

    A PATH is a segment file (.log .index .timeindex .txnindex .snapshot .checkpoint, also with .deleted, .swap or
    .cleaned behind it), a partition directory, a log directory, or - for standard input.
    """
    _refuse_missing_decoders(given)
    if files is None and not paths:
        raise click.UsageError("no PATH given (kdump dump --help)")
    decoders = given["key_decoder_class"], given["value_decoder_class"]
    options = DumpOptions(
        deep_iteration=given["deep_iteration"],
        print_data_log=given["print_data_log"] or any(name is not None for name in decoders),
        skip_record_metadata=given["skip_record_metadata"],
        verify_index_only=given["verify_index_only"],
        index_sanity_check=given["index_sanity_check"],
        max_bytes=MAX_BYTES if given["max_bytes"] is None else given["max_bytes"],
        max_message_size=MAX_MESSAGE_SIZE if given["max_message_size"] is None else given["max_message_size"],
        key_decoder=_decoder(decoders[0]),
        value_decoder=_decoder(decoders[1]),
        max_decompressed_size=given["max_decompressed_size"],
    )
    out = BlockWriter(_STDOUT)
    errors = BlockWriter(_STDERR)

    def complain(line: str) -> None:
        out.flush()
        errors.write(os.fsencode(line) + b"\n")
        errors.flush()

    def show_error(error: KdumpError) -> None:
        complain(f"kdump: {error}")
        if given["traceback"]:
            complain("".join(traceback.format_exception(error)).rstrip())

    tool = DumpTool(options, out.write, complain, show_error, verbose=given["verbose"])
    if files is not None:
        for word in paths:
            complain(f"kdump: {word}: ignored, as DumpLogSegments ignores it beside --files")
        _dump_names(tool, files)
    else:
        _dump_paths(tool, paths, all_files)
    out.flush()
    for line in tool.finish():
        errors.write(os.fsencode(line))
    errors.flush()
    return exit_status.combined(damaged=tool.damaged, unreadable=tool.unreadable)


def _refuse_missing_decoders(given: dict[str, Any]) -> None:
    for name in _TOPIC_DECODERS:
        if given[name.replace("-", "_")]:
            raise click.UsageError(f"--{name} is not available in this version of kdump")


def _dump_names(tool: DumpTool, files: str) -> None:
    for name in split_commas(files):
        target = target_by_java_name(name)
        if target is None:
            tool.ignore(name)
        else:
            tool.dump(target)


def _dump_paths(tool: DumpTool, paths: tuple[str, ...], all_files: bool) -> None:
    for path in paths:
        if os.path.isdir(path):
            for name in segment_files(path, tool.fail, all_files=all_files):
                target = target_by_path(name)
                if target is not None:
                    tool.dump(target)
            continue
        target = target_by_path(path)
        if target is not None:
            tool.dump(target)
        else:
            tool.fail(_no_segment_file(path))


def _no_segment_file(path: str) -> KdumpError:
    if not os.path.lexists(path):
        return KdumpError(Codes.MISSING, "no such file or directory", path=path)
    if os.path.basename(path) in SIBLING_TEXT_FILES:
        return KdumpError(Codes.NOT_A_SEGMENT_FILE, "a text file, nothing to dump", path=path)
    return KdumpError(
        Codes.NOT_A_SEGMENT_FILE, "not a segment file by its name (a stream can be read with -)", path=path
    )
