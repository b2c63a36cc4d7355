"""``kdump dump``: what DumpLogSegments prints, and the same as rows for scripts and people."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import click

from kdump.cli import exit_status, view_options
from kdump.cli.common import common_options
from kdump.cli.java_options import JavaOptionsCommand, decoder, java_options, once, refuse_missing_decoders
from kdump.codes import Codes, KdumpError
from kdump.kafka.dumplog.options import MAX_BYTES, MAX_MESSAGE_SIZE, DumpOptions
from kdump.kafka.dumplog.targets import Target, target_by_java_name, target_by_path
from kdump.kafka.dumplog.tool import DumpTool
from kdump.kafka.java import split_commas
from kdump.log.names import SIBLING_TEXT_FILES
from kdump.log.partition import segment_files
from kdump.scan.run import FileRun
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.writers.blocks import BlockWriter

_STDOUT, _STDERR = 1, 2


@click.command(
    cls=JavaOptionsCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  kdump dump 00000000000000000000.log                  the batches of one segment
  kdump dump --print-data-log /data/kafka/orders-0     all records of a partition
  ssh broker cat X.log | kdump dump --deep-iteration - a segment from a pipe
  kdump dump --files a.log,b.index                     as kafka-dump-log.sh would
  kdump dump --output jsonl --records --key '^user-7$' --time -1d.. orders-0 | jq .value""",
)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@click.option(
    "--files",
    multiple=True,
    callback=once,
    metavar="A,B,...",
    help="Comma-separated files, taken as DumpLogSegments takes them; PATHs are then ignored, as there.",
)
@click.option("--all-files", is_flag=True, help="Of a directory: the siblings of the .log files too.")
@java_options
@view_options.view_options
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
    refuse_missing_decoders(given)
    if given["fields"] == "help":
        click.echo(view_options.list_fields())
        return exit_status.CLEAN
    if files is None and not paths:
        raise click.UsageError("no PATH given (kdump dump --help)")
    console = _Console(show_traceback=given["traceback"])
    run, dump_file = _text_run(given, console) if given["output"] == "kafka" else _row_run(given, console)
    if files is None:
        _dump_paths(run, dump_file, paths, all_files)
    else:
        for word in paths:
            console.complain(f"kdump: {word}: ignored, as DumpLogSegments ignores it beside --files")
        _dump_names(dump_file, run, files)
    console.out.flush()
    if isinstance(run, DumpTool):
        for line in run.finish():
            console.errors.write(os.fsencode(line))
    console.errors.flush()
    return exit_status.combined(damaged=run.damaged, unreadable=run.unreadable)


class _Console:
    """Standard output and standard error, in step with each other."""

    def __init__(self, *, show_traceback: bool) -> None:
        self.out = BlockWriter(_STDOUT)
        self.errors = BlockWriter(_STDERR)
        self._show_traceback = show_traceback

    def complain(self, line: str) -> None:
        """A line on standard error, behind all that was written before it."""
        self.out.flush()
        self.errors.write(os.fsencode(line) + b"\n")
        self.errors.flush()

    def show_error(self, error: KdumpError) -> None:
        """The same for what is wrong with a file."""
        self.complain(f"kdump: {error}")
        if self._show_traceback:
            self.complain("".join(traceback.format_exception(error)).rstrip())


def _text_run(given: Mapping[str, Any], console: _Console) -> tuple[DumpTool, Callable[[Target], None]]:
    selection = view_options.selection(given)
    decoders = given["key_decoder_class"], given["value_decoder_class"]
    options = DumpOptions(
        deep_iteration=given["deep_iteration"],
        print_data_log=given["print_data_log"]
        or given["view"] == "records"
        or selection.by_contents
        or any(name is not None for name in decoders),
        skip_record_metadata=given["skip_record_metadata"],
        verify_index_only=given["verify_index_only"],
        index_sanity_check=given["index_sanity_check"],
        max_bytes=MAX_BYTES if given["max_bytes"] is None else given["max_bytes"],
        max_message_size=MAX_MESSAGE_SIZE if given["max_message_size"] is None else given["max_message_size"],
        key_decoder=decoder(decoders[0]),
        value_decoder=decoder(decoders[1]),
        max_decompressed_size=given["max_decompressed_size"],
        selection=selection,
    )
    tool = DumpTool(
        options,
        console.out.write,
        console.complain,
        console.show_error,
        verbose=given["verbose"],
        budget=view_options.budget(given),
    )
    return tool, tool.dump


def _row_run(given: Mapping[str, Any], console: _Console) -> tuple[FileRun, Callable[[Target], None]]:
    from kdump.engine.rowdump import RowDump, RowOptions
    from kdump.scan.view import ViewOptions

    selection = view_options.selection(given)
    table = view_options.table(given, selection)
    options = RowOptions(
        syntax=given["output"],
        table=table,
        fields=view_options.fields(given, table),
        view=ViewOptions(
            with_records=table.type == "record",
            selection=selection,
            max_bytes=given["max_bytes"],
            max_decompressed_size=given["max_decompressed_size"],
        ),
    )
    run = RowDump(
        options,
        console.out.write,
        console.show_error,
        budget=view_options.budget(given),
        note=(lambda line: console.complain(f"kdump: {line}")) if given["verbose"] else None,
    )
    return run, run.dump


def _dump_names(dump_file: Callable[[Target], None], run: FileRun, files: str) -> None:
    for name in split_commas(files):
        target = target_by_java_name(name)
        if target is not None:
            dump_file(target)
        elif isinstance(run, DumpTool):
            run.ignore(name)


def _dump_paths(run: FileRun, dump_file: Callable[[Target], None], paths: tuple[str, ...], all_files: bool) -> None:
    for path in paths:
        if os.path.isdir(path):
            for name in segment_files(path, run.fail, all_files=all_files):
                target = target_by_path(name)
                if target is not None:
                    dump_file(target)
            continue
        target = target_by_path(path)
        if target is not None:
            dump_file(target)
        else:
            run.fail(_no_segment_file(path))


def _no_segment_file(path: str) -> KdumpError:
    if not os.path.lexists(path):
        return KdumpError(Codes.MISSING, "no such file or directory", path=path)
    if os.path.basename(path) in SIBLING_TEXT_FILES:
        return KdumpError(Codes.NOT_A_SEGMENT_FILE, "a text file, nothing to dump", path=path)
    return KdumpError(
        Codes.NOT_A_SEGMENT_FILE, "not a segment file by its name (a stream can be read with -)", path=path
    )
