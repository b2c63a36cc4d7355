"""``kdump restore``: the plan for partitions that are left, and those that a stopped broker takes as its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

import click

from kdump.cli.command import Run, command
from kdump.cli.conversion import check_level, conversion_of, unwound
from kdump.cli.exit_status import RunStatus
from kdump.cli.options.restore import RestoreArguments
from kdump.codes import INPUT_CODES, REFUSALS, Codes, KdumpError
from kdump.convert.conversion import Conversion
from kdump.format.checkpoint import is_topic_id
from kdump.inputs import PathDirectory
from kdump.kafka.startup.logdirectory import FUTURE
from kdump.log import files, tiers
from kdump.log.files import strip_credentials
from kdump.log.named import STDIN
from kdump.log.names import CLUSTER_METADATA, is_topic_name
from kdump.log.siblings import read_topic_id
from kdump.releases import RELEASES
from kdump.repair.plan.location import is_of_broker
from kdump.repair.refusals import is_below
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.restore.plan import (
    UNFINISHED_COPY,
    LeftPartition,
    NoteKind,
    Placing,
    RestoreNote,
    RestoreOptions,
    RestorePlan,
    foreign_state,
    plan_restore,
)
from kdump.restore.report import left_lines, left_row, note_rows, plan_lines, restored_lines, restored_row
from kdump.restore.run import Restore
from kdump.restore.source import SourcePartition, directories_below, read_source
from kdump.restore.target import TargetCluster, TargetPartition
from kdump.system.paths import absolute_path
from kdump.verify.transactioncoordinator import ending_beside
from kdump.worlds import world_of_store

_POLICIES = {"abort": TxnPolicy.ABORT, "commit": TxnPolicy.COMMIT, "keep": TxnPolicy.LEAVE}


def is_converted(conversion: Conversion) -> bool:
    """Something is asked for that changes logs."""
    return replace(conversion, limit=0, keep_open=False) != Conversion(limit=0)


@command(
    RestoreArguments,
    most_used=(
        "-o --topic --partition --topic-id --metadata --from-log-dir --open-transactions --forget-producers "
        "--link --overwrite --output"
    ),
    examples="""\
  kdump restore /backup/kafka                       what is left, and how to bring it back
  kdump restore /backup/kafka --output commands     the same as a script
  kdump restore /backup/orders-0 -o /data/kafka --topic orders --metadata /data/kafka
  kdump restore --from-log-dir /backup/kafka -o /data/kafka --metadata /data/kafka""",
)
def restore(run: Run[RestoreArguments]) -> None:
    """Restore partitions into a log directory with -o; without it print a plan for log directories that are left.

    Each PATH is a segment, a partition directory, or for the plan a log directory. It is only read.
    Exit status 1 when something is missing or cannot be restored.
    """
    given = run.given
    given.paths = tuple(map(strip_credentials, given.paths))
    if given.from_log_dir is not None:
        given.from_log_dir = strip_credentials(given.from_log_dir)
    check_level(given)
    if given.destination is None:
        _show_plan(run)
    else:
        with unwound(), ExitStack() as buckets:
            try:
                _stage(given, given.destination, buckets)
                _restore(run, given.destination)
            except OSError as error:
                code = Codes.UNWRITABLE
                run.status.fail(KdumpError(code, error.strerror or str(error), path=error.filename))
            except KdumpError as error:
                run.status.fail(error, is_damage=error.code not in INPUT_CODES)


def _stage(given: RestoreArguments, destination: str, buckets: ExitStack) -> None:
    """Take files of this machine in place of what lies in buckets. Raises KdumpError, OSError, click.UsageError."""
    if not any(world_of_store(path) is not None for path in (*given.paths, given.from_log_dir or "")):
        return
    from kdump.tiered.staging import staged

    tiers.tell(tiers.Tier())
    if given.from_log_dir is None and given.topic is None:
        if given.metadata is None or len(given.paths) > 1:
            raise click.UsageError("a bucket goes with --metadata, or with --topic; one at a time")
        given.from_log_dir, given.paths = given.paths[0], ()
    if given.from_log_dir is not None:
        if world_of_store(given.from_log_dir) is not None:
            found = buckets.enter_context(staged(given.from_log_dir, destination))
            given.from_log_dir = os.path.dirname(found[0]) if found else given.from_log_dir
        return
    paths: list[str] = []
    for path in given.paths:
        found = [path] if world_of_store(path) is None else buckets.enter_context(staged(path, destination))
        if len(found) != 1:
            raise click.UsageError(f"{path} has {len(found):,} partitions: name one of them with --topic")
        paths += found
    given.paths = tuple(paths)


def _show_plan(run: Run[RestoreArguments]) -> None:
    """Print what is left and what to do; something that is missing counts as damage."""
    given, status = run.given, run.status
    from kdump.restore.adopt import plan_adoption
    from kdump.restore.adoptreport import adoption_commands, adoption_page, adoption_rows

    paths = []
    for found in run.find_inputs():
        if found.world is not None:
            message = f"is of {found.world.title}, which holds no partition: kdump state shows it"
            status.fail(KdumpError(Codes.NOT_A_SEGMENT_FILE, message, path=found.path))
        elif not isinstance(found, PathDirectory) and (found.path == STDIN or files.exists(found.path)):
            message = "is no directory: a plan is for log directories; -o LOGDIR restores a segment"
            status.fail(KdumpError(Codes.NOT_A_SEGMENT_FILE, message, path=found.path))
        else:
            paths.append(found.path)
    if not paths:
        return
    plan = plan_adoption(paths, status.fail)
    if not (plan.partitions or plan.left):
        if not status.code:
            status.fail(KdumpError(Codes.NO_SEGMENTS, "holds no partition", path=given.paths[0]))
        return
    shown = {"text": adoption_page, "jsonl": adoption_rows, "commands": adoption_commands}
    run.write_all(shown[given.output](plan))
    if given.output != "jsonl":
        from kdump.cli.schemas import show_ways_back

        show_ways_back(run)
    status.add(damaged=not plan.is_whole)


def _restore(run: Run[RestoreArguments], destination: str) -> None:
    """Restore what is named. Raises click.UsageError."""
    given, console, status = run.given, run.console, run.status
    conversion = conversion_of(given, run.find_inputs(), console)
    words = [one.rpartition("=") for one in (given.open_transactions or "").split(",")]
    needs_markers = any(word in ("abort", "refuse") for _, _, word in words)
    if needs_markers and not (conversion.keeps_markers or conversion.read_committed):
        message = "the result has no transactions, and shows the records of all; use --isolation read_committed"
        raise click.UsageError(f"--open-transactions {given.open_transactions}: {message}")
    options = RestoreOptions(
        conversion,
        is_converted(conversion),
        Placing(given.link or Placing.COPY),
        given.forget_producers,
        _POLICIES.get(given.open_transactions or ""),
        {int(producer_id): _POLICIES[word] for producer_id, _, word in words if producer_id},
        given.strict,
        given.overwrite,
        given.backup_dir,
        given.force,
        RELEASES[given.broker_version],
    )
    _check_backup(given)
    try:
        cluster = None if given.metadata is None else TargetCluster(given.metadata, destination)
        for doubt in () if cluster is None else cluster.doubts:
            console.note(doubt)
    except KdumpError as error:
        status.fail(error, is_damage=error.code in REFUSALS)
        return
    if given.from_log_dir is None or cluster is None:
        found: list[RestorePlan | LeftPartition] = [*_named_plans(given, cluster, options, status)]
    else:
        found = list(_plans_of_all(given, given.from_log_dir, destination, cluster, options))
    if found:
        _write(run, found, destination, options)


def _check_backup(given: RestoreArguments) -> None:
    """Raises click.UsageError for a backup in the source, which is only read."""
    if given.backup_dir is None:
        return
    named = map(absolute_path, given.paths or (given.from_log_dir or "",))
    sources = [path if os.path.isdir(path) else os.path.dirname(path) for path in named]
    above = map(os.path.dirname, sources if given.from_log_dir is None else ())
    for source in (*sources, *filter(is_of_broker, above)):
        if is_below(given.backup_dir, source):
            message = f"it lies in {source}, which is only read; name a directory outside of it"
            raise click.UsageError(f"--backup-dir {given.backup_dir}: {message}")


def _named_plans(
    given: RestoreArguments, cluster: TargetCluster | None, options: RestoreOptions, status: RunStatus
) -> Iterator[RestorePlan]:
    """The plan of each PATH; errors go to ``status``. Raises click.UsageError."""
    targets: dict[str, str] = {}
    for found in given.inputs:
        path = found.path
        try:
            source = read_source(found, given.max_decompressed_size)
            target = _target(given, cluster, source)
            other = targets.setdefault(target.name, path)
            if other != path:
                raise click.UsageError(f"{other} and {path} would both become {target.name}")
            yield plan_restore(source, target, options, ending_beside(source.place.directory))
        except KdumpError as error:
            status.fail(error, is_damage=error.code in REFUSALS)


def _plans_of_all(
    given: RestoreArguments, log_directory: str, destination: str, cluster: TargetCluster, options: RestoreOptions
) -> Iterator[RestorePlan | LeftPartition]:
    """The plans of all partitions of a log directory, and those for which there is no place."""
    # A broker that was started on the old directories has put them aside, and made empty ones.
    put_aside = os.path.realpath(log_directory) == os.path.realpath(destination)
    for name, (directory, *others) in directories_below(log_directory, put_aside=put_aside):
        target = cluster.partition(*name)
        foreign = foreign_state(name[0], read_topic_id(directory), cluster.topic_id(name[0]))
        if foreign is not None:
            message = f"{foreign.message}; PATH with --topic restores it all the same"
            yield LeftPartition(name, directory, replace(foreign, message=message))
        elif isinstance(target, str):
            yield LeftPartition(name, directory, RestoreNote(NoteKind.NO_TARGET, target))
        elif directory.endswith(FUTURE):
            yield LeftPartition(name, directory, UNFINISHED_COPY)
        elif others:
            message = "several directories hold it: name the right one as PATH, with --topic"
            yield LeftPartition(name, directory, RestoreNote(NoteKind.SEVERAL_SOURCES, message))
        else:
            try:
                source = read_source(PathDirectory(directory), given.max_decompressed_size)
                yield plan_restore(source, target, options, ending_beside(directory))
            except KdumpError as error:
                yield LeftPartition(name, directory, RestoreNote(NoteKind.UNREADABLE, str(error)))


def _target(given: RestoreArguments, cluster: TargetCluster | None, source: SourcePartition) -> TargetPartition:
    """The partition that is named. Raises click.UsageError."""
    name = source.place.name
    number = given.partition if given.partition is not None else 0 if name is None else name[1]
    topic, topic_id = given.topic, given.topic_id
    assert topic is not None
    if topic_id is not None and not is_topic_id(topic_id):
        raise click.UsageError(
            f"--topic-id {topic_id}: an id has 22 characters, as kafka-topics.sh --describe shows it"
        )
    if not is_topic_name(topic):
        message = "no name of a topic: only letters, digits, dots, underscores and hyphens, at most 249"
        raise click.UsageError(f"--topic {topic}: {message}")
    if topic == CLUSTER_METADATA:
        raise click.UsageError(f"--topic {topic}: the metadata of a cluster are never restored")
    if cluster is not None:
        known = cluster.partition(topic, number)
        if isinstance(known, str):
            raise click.UsageError(f"--topic {topic} --partition {number}: {known}")
        if topic_id not in (None, known.topic_id):
            raise click.UsageError(f"--topic-id {topic_id}: topic {topic} has the id {known.topic_id}")
        return known
    if topic_id is None:
        raise click.UsageError("--topic needs --topic-id or --metadata")
    return TargetPartition(topic, number, topic_id)


def _write(
    run: Run[RestoreArguments],
    found: Sequence[RestorePlan | LeftPartition],
    destination: str,
    options: RestoreOptions,
) -> None:
    """Show what cannot be restored, then restore the rest."""
    given, console, status = run.given, run.console, run.status
    is_text = given.output == "text"
    left = [one for one in found if isinstance(one, LeftPartition)]
    plans = [one for one in found if isinstance(one, RestorePlan)]
    notes = [*(one.note for one in left), *(note for plan in plans for note in plan.notes)]
    run.write_all(left_lines(left) if is_text else map(left_row, left))
    for plan in plans:
        run.write_all(plan_lines(plan) if is_text else note_rows(plan))
    # A reader that has gone does not decide the exit status.
    with suppress(BrokenPipeError):
        console.out.flush()
    status.add(damaged=any(one.note.is_loss for one in left))
    has_losses = any(note.is_loss for note in notes)
    is_open = any(note.kind is NoteKind.OPEN_TRANSACTION for note in notes)
    if (given.strict and has_losses) or (given.open_transactions == "refuse" and is_open):
        option = "--strict" if given.strict and has_losses else "--open-transactions refuse"
        console.note(f"nothing was written: not everything is restored as it was ({option})")
        status.add(damaged=True)
        return
    with Restore(destination, options) as job:
        checked = []
        for plan in plans:
            try:
                job.check(plan)
                checked.append(plan)
            except KdumpError as error:
                status.fail(error, is_damage=error.code in REFUSALS)
        for plan in checked:
            try:
                restored = job.restore(plan)
            except KdumpError as error:
                status.fail(error, is_damage=error.code in REFUSALS)
                continue
            status.add(damaged=any(note.is_loss for note in plan.notes))
            run.write_all(restored_lines(restored) if is_text else (restored_row(restored),))
