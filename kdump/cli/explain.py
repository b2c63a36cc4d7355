"""``kdump explain``: ``dump --explain`` under a name of its own, also by offset."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.arguments import ExplainArguments
from kdump.cli.common import begin, color_option, common_options, limit_option, reading_options
from kdump.cli.console import Console
from kdump.cli.exit_status import RunStatus
from kdump.cli.options import Command, OptionGroup, option
from kdump.cli.params import FilePosition
from kdump.cli.tier_options import tier_options
from kdump.codes import Codes, KdumpError
from kdump.inputs import Input, LogSegment, PathDirectory, WorldLog, input_of
from kdump.log.opening import open_source


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  kdump explain 00000000000000000000.log 4096      the entry around a file position
  kdump explain orders-0 --offset 6                the entry that holds an offset""",
)
@click.argument("path", type=click.Path())
@click.argument("position", type=FilePosition(), required=False)
@option(
    OptionGroup.READ,
    "--offset",
    type=click.IntRange(0),
    metavar="N",
    help="Explain the entry of the log that holds offset N.",
)
@tier_options
@limit_option()
@color_option("the text")
@reading_options
@common_options
def explain(**given: Any) -> int:
    """Explain the bytes of a file, field by field, damage included.

    They are given by a POSITION in a file, or by an offset in a segment or partition.
    """
    arguments = ExplainArguments(given)
    if (arguments.position is None) == (arguments.offset is None):
        raise click.UsageError("one of POSITION and --offset says what to explain")
    console = Console(color=arguments.color, output="text", show_traceback=arguments.traceback)
    begin(arguments, console)
    status = RunStatus(console.show_error)
    try:
        found, position = input_of(arguments.path), arguments.position
        if arguments.offset is not None:
            found, position = _place(found, arguments.offset, console)
        assert position is not None, "it or the offset is given"
        show_explanation(found, position, arguments.max_decompressed_size, console, status)
    except KdumpError as error:
        status.fail(error)
    return status.code


def show_explanation(found: Input, position: int, limit: int, console: Console, status: RunStatus) -> None:
    """Print the explanation of a position. Raises KdumpError where the file cannot be read."""
    from kdump.explain import report

    if found.world is not None and not isinstance(found, WorldLog):
        what = f"a file of {found.world.title} is not explained: kdump dump shows it"
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, what, path=found.path)
    with open_source(found.path) as source:
        width = max(80, min(console.width, 120))
        explained = report(source, position, limit=limit, width=width, color=console.color)
    console.out.write(explained.text.encode("utf-8", "surrogateescape"))
    console.close()
    status.add(damaged=explained.is_damaged)


def _place(found: Input, offset: int, console: Console) -> tuple[Input, int]:
    """The log and the position of an offset. Raises KdumpError."""
    from kdump.explain.offsets import place_of

    def fail(error: KdumpError) -> None:
        raise error

    path = found.path
    if isinstance(found, PathDirectory):
        folders = [folder.paths for folder in found.partitions(fail) if folder.names]
        if len(folders) != 1:
            what = "no segment files" if not folders else "several partitions; --offset takes one of them"
            raise KdumpError(Codes.NO_SEGMENTS, what, path=path)
        segments = folders[0]
    elif isinstance(found, LogSegment):
        segments = [path]
    else:
        raise KdumpError(Codes.NO_SEGMENTS, "is no log, --offset takes a .log or a partition", path=path)
    place = place_of(segments, offset)
    if place.first_offset > offset:
        console.note(f"{place.path}: offset {offset} is not there; the next entry begins with {place.first_offset}")
    return input_of(place.path), place.position
