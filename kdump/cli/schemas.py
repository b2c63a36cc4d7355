"""What commands do with the schemas of registries. No other module of the command line knows that package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from kdump.cli.params import NOW
from kdump.codes import ignore_error
from kdump.inputs import inputs_of
from kdump.system.blocks import escaped
from kdump.system.units import counted

if TYPE_CHECKING:
    from kdump.cli.command import Run
    from kdump.cli.options.convert import ConvertArguments
    from kdump.cli.options.declaring import Arguments
    from kdump.cli.options.dump import DumpArguments
    from kdump.cli.options.restore import RestoreArguments
    from kdump.cli.options.state import StateArguments
    from kdump.cli.options.stats import StatsArguments
    from kdump.payloads.choice import DecoderChoice
    from kdump.rows.arrowparts import Reshape
    from kdump.rows.columns import Row
    from kdump.verify.partitionentries import Partition, PartitionEntries


def with_schemas(choice: DecoderChoice, given: Arguments, path: str | None) -> DecoderChoice:
    """A choice of decoders that knows the schemas at ``path``, or those among the inputs of a command.

    Raises:
        KdumpError: the schemas that are named cannot be read.
    """
    from kdump.schemas.topic import with_schemas

    return with_schemas(choice, path, given.inputs)


def flattened(run: Run[DumpArguments]) -> Reshape:
    """What makes columns of decoded contents. UsageError where nothing is decoded by schemas."""
    given = run.given
    if given.decoding.schemas is None:
        raise click.UsageError("--flatten goes with --schemas, or with --decode auto where the schemas are found")
    from kdump.schemas.flatten import flattening

    found = flattening(given.decoding.schemas, given.inputs, ignore_error)
    for note in found.notes():
        run.console.note(note)
    return found


def flattened_topics(run: Run[ConvertArguments], decoding: DecoderChoice) -> Callable[[str | None], Reshape | None]:
    """By its topic, what makes columns of the decoded contents of a log. UsageError as of ``flattened``."""
    given = run.given
    if decoding.schemas is None:
        raise click.UsageError("--flatten goes with --schemas")
    from kdump.schemas.flatten import flattened_topics, flattening

    found = flattening(decoding.schemas, given.inputs, ignore_error)
    by_topic = dict(flattened_topics(found))
    for topic, one in by_topic.items():
        for text in one.notes():
            run.console.note(f"{topic}: {text}")
    return lambda topic: by_topic.get(topic or "", found._replace(used=()))


def schema_partitions(logs: PartitionEntries) -> list[Partition]:
    """The partitions that hold schemas."""
    from kdump.schemas.topic import schema_partitions

    return schema_partitions(logs)


def show_schemas(run: Run[StateArguments], logs: PartitionEntries, offset: int | None) -> bool:
    """Show the schemas of each registry whose topic is among the paths, or what changed in it; whether there is one.

    ``offset``: the last one that counts; None: all do, or a time says so.
    """
    from kdump.cli.staterows import show_rows
    from kdump.schemas import rows
    from kdump.schemas.registry import registry_of
    from kdump.schemas.topic import schema_records

    given = run.given
    partitions = schema_partitions(logs)
    for partition in partitions:
        if len(partitions) > 1:
            run.console.note(f"{partition.name}: the next rows are of this registry")
        records = schema_records(logs, partition, run.status.fail)
        if given.at is None and given.at_offset is None:
            subject = given.history.name if given.history is not None and given.history.kind == "subject" else None
            _show_changes(run, rows.change_rows(records, subject, given.between, given.between_offsets))
            continue
        registry = registry_of(records, None if given.at == NOW else given.at, offset)
        if registry.skipped:
            unread = counted(registry.skipped, "record")
            run.console.note(f"{partition.name}: {unread} that no registry can read")
        match given.output:
            case "commands":
                run.write_all(f"{line}\n" for line in rows.registry_commands(registry))
            case "records":
                run.write_rows(rows.registry_records(registry))
            case _:
                for kind, found in rows.state_rows(registry):
                    show_rows(run, kind, found)
    return bool(partitions)


def _show_changes(run: Run[StateArguments], changes: Iterable[Row]) -> None:
    from kdump.schemas.rows import change_line
    from kdump.state.changes import NO_CHANGE

    history = run.given.history
    if history is not None and history.kind != "subject":
        return
    is_any = False
    for row in changes:
        is_any = True
        if run.given.output == "jsonl":
            run.write_rows([row])
        else:
            run.write(change_line(row))
    if history is not None and not is_any:
        run.console.note(NO_CHANGE)


def show_usage(run: Run[StatsArguments]) -> None:
    """Show which schemas the topics use. Raises KdumpError where the schemas cannot be read."""
    from kdump.schemas.topic import find_schemas, registries_at, schema_places
    from kdump.schemas.usage import usage_rows
    from kdump.state.coordinatorpage import state_table

    given, console = run.given, run.console
    path = given.schemas or find_schemas(given.inputs)
    if path is None:
        raise click.UsageError("--by schema: the paths hold no schemas; --schemas PATH says where they are")
    rows = usage_rows(run.partition_entries(), registries_at(schema_places(path)), run.status.fail)
    if given.output == "jsonl":
        run.write_rows(rows)
    else:
        run.write_all(state_table("schemaUse", rows, width=console.width, color=console.color))


def show_ways_back(run: Run[RestoreArguments]) -> None:
    """Say what brings back the schemas that are left: the topic itself, or calls of an empty registry."""
    from kdump.schemas.registry import registry_of
    from kdump.schemas.rows import registry_commands
    from kdump.schemas.topic import schema_records
    from kdump.verify.partitionentries import PartitionEntries

    logs = PartitionEntries(inputs_of(run.given.paths, ignore_error), on_error=ignore_error)
    for partition in schema_partitions(logs):
        registry = registry_of(schema_records(logs, partition, run.status.fail))
        held = f"{escaped(partition.name)} holds {counted(len(registry.versions), 'schema')}"
        if run.given.output == "text":
            run.write(f"{held} of a registry: --output commands also has what an empty registry needs\n")
            continue
        run.write(f"# {held}. A registry that reads the topic needs nothing. For an empty one set REGISTRY.\n")
        run.write('if [ -n "${REGISTRY-}" ]; then\n')
        run.write_all(f"{line}\n" for line in registry_commands(registry))
        run.write("fi\n")
