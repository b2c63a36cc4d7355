"""``kdump explain``: ``dump --explain`` under a name of its own, also by offset."""

from __future__ import annotations

import click

from kdump.cli.command import Run, command
from kdump.cli.console import Console
from kdump.cli.options.dump import DumpArguments
from kdump.cli.options.explain import ExplainArguments
from kdump.codes import Codes, KdumpError, raise_error
from kdump.inputs import Input, LogSegment, PathDirectory, WorldLog, input_of, resolve
from kdump.log.opening import open_source
from kdump.payloads.decoded import RecordDecoder


@command(
    ExplainArguments,
    examples="""\
  kdump explain 00000000000000000000.log 4096      the entry around a file position
  kdump explain orders-0 --offset 6                the entry that holds an offset""",
)
def explain(run: Run[ExplainArguments]) -> None:
    """Explain the bytes of a file, field by field, damage included.

    They are given by a POSITION in a file, or by an offset in a segment or partition.
    """
    given = run.given
    if (given.position is None) == (given.offset is None):
        raise click.UsageError("one of POSITION and --offset says what to explain")
    try:
        found, position = input_of(given.path, given.world), given.position
        if given.offset is not None:
            found, position = _place(found, given.offset, run.console)
        assert position is not None, "it or the offset is given"
        show_explanation(run, found, position, given.frame)
    except KdumpError as error:
        run.status.fail(error)


def show_explanation(
    run: Run[ExplainArguments] | Run[DumpArguments], found: Input, position: int, frame: str | None = None
) -> None:
    """Print the explanation of a position; ``frame``: as of --frame. Raises KdumpError where it cannot be read."""
    from kdump.explain import explain as lines_about
    from kdump.explain import is_damage
    from kdump.explain.layout import report

    world = found.world
    if frame is not None:
        from kdump.cli.frame import WORLD

        world = WORLD
    elif found.world is not None and not isinstance(found, WorldLog):
        what = f"a file of {found.world.title} is not explained: kdump dump shows it"
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, what, path=found.path)
    with open_source(found.path) as source:
        limit, decoder = run.given.max_decompressed_size, _decoder(run.given, found)
        lines = list(lines_about(source, position, limit=limit, world=world, frame=frame, decoder=decoder))
    run.write(report(lines, width=min(run.console.width, 120), color=run.console.color))
    run.status.add(damaged=any(map(is_damage, lines)))


def _decoder(given: ExplainArguments | DumpArguments, found: Input) -> RecordDecoder | None:
    """The decoder of a log by schemas that are named. Raises KdumpError where they cannot be read."""
    if given.schemas is None or not isinstance(found, LogSegment):
        return None
    from kdump.cli.schemas import with_schemas
    from kdump.payloads.choice import DecoderChoice

    return with_schemas(DecoderChoice(), given, given.schemas).decoder(found.topic)


def _place(found: Input, offset: int, console: Console) -> tuple[Input, int]:
    """The log and the position of an offset. Raises KdumpError."""
    from kdump.explain import WorldExplanation
    from kdump.explain.locate import place_of

    path = found.path
    if isinstance(found, PathDirectory):
        folders = [
            (world, logs)
            for folder in found.partitions(raise_error)
            for world, logs in ((None, folder.paths), *folder.world_logs.items())
            if logs
        ]
        if len(folders) != 1:
            what = "no segment files" if not folders else "several partitions; --offset takes one of them"
            raise KdumpError(Codes.NO_SEGMENTS, what, path=path)
        world, segments = folders[0]
    elif isinstance(found, LogSegment | WorldLog):
        world, segments = found.world, [path]
    else:
        raise KdumpError(Codes.NO_SEGMENTS, "is no log, --offset takes a .log or a partition", path=path)
    if world is not None:
        explanation: WorldExplanation = world.answer("explain")
        path, position = explanation.place_of(segments, offset)
        return resolve(path, world), position
    path, position, first_offset = place_of(segments, offset)
    if first_offset > offset:
        console.note(f"{path}: offset {offset} is not there; the next entry begins with {first_offset}")
    return resolve(path), position
