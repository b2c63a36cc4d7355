"""The functions that give rows of what the commands tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Final, Literal

from kdump.codes import Codes, Finding, KdumpError, ignore_error, raise_error
from kdump.inputs import Input, input_of
from kdump.library.answerrows import AnswerRow, ClusterState, Differences
from kdump.library.arguments import Paths, Time, check_choice, milliseconds, named_inputs
from kdump.library.logfindings import LogFinding
from kdump.releases import NEWEST, RELEASES
from kdump.rows.columns import Row
from kdump.wire.compression import DEFAULT_LIMIT

By = Literal[
    "segment", "partition", "topic", "producer", "codec", "magic", "leader-epoch", "minute", "hour", "day", "key"
]  # fmt: skip
Mode = Literal["like-broker", "salvage", "indexes"]
Path = str | PathLike[str]
_FEWEST: Final = 2
"""Copies that are compared."""


def figures(
    paths: Paths, *, by: By | str = "segment", quick: bool = False, max_decompressed_size: int = DEFAULT_LIMIT
) -> list[AnswerRow]:
    """Figures of logs, a value for each group, as ``kdump stats`` gives them. Damage is skipped and counted.

    Args:
        paths: segments, partition and log directories, URIs of them; one or many.
        by: what makes a group; also ``header:NAME``, the values of a header.
        quick: read headers only.
        max_decompressed_size: bytes; a batch that decompresses to more is damage.

    Raises:
        ValueError: there is no such ``by``.
        KdumpError: a path cannot be read.
    """
    from kdump.stats.grouping import By as Grouping
    from kdump.stats.grouping import grouping_of
    from kdump.stats.report import stats_row
    from kdump.stats.run import FindingDeduplicator, StatsOptions, StatsRun
    from kdump.verify.run import Verification

    if not by.startswith("header:"):
        check_choice(by, "by", [one.value for one in Grouping if one is not Grouping.HEADER])
    kind, header = grouping_of(by)
    if kind.is_of_contents and quick:
        raise ValueError(f"by={by!r} reads every record, quick reads headers only")
    options = StatsOptions(kind, with_records=not quick, limit=max_decompressed_size, header=header)
    run = StatsRun(options)
    verification = Verification(run.judge(), on_error=raise_error)
    new = FindingDeduplicator()
    for found in named_inputs(paths):
        for item in new.of(verification.items(found)):
            if isinstance(item, Finding):
                run.see_finding(item)
            elif item.batches is None:
                raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "no log is beside it to be counted", path=item.path)
    return [AnswerRow(stats_row(group, kind, header)) for group in run.report().groups]


def start_prediction(
    path: Path | Iterable[Path],
    *,
    is_clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: Time = None,
    broker_version: str = NEWEST.name,
) -> list[AnswerRow]:
    """What the next start of a broker makes of partitions, as ``kdump verify --startup`` tells it.

    Args:
        path: a partition directory or a log directory; several are log directories of one broker.
        is_clean: the broker was stopped cleanly; None: as the log directory says.
        recovery_point: of each partition; None: as the log directory says.
        log_start_offset: of each partition; None: as the log directory says.
        now: the time of the start; None: now.
        broker_version: the release of Kafka whose broker will run, such as ``4.3``.

    Returns:
        A value for each partition, and for what stops its log directory or the broker.

    Raises:
        KdumpError: a directory cannot be read.
        ValueError: kdump does not know this release.
    """
    from kdump.verify.fates import Fates
    from kdump.verify.startreport import startup_row
    from kdump.verify.startups import StartOptions, start_all

    if broker_version not in RELEASES:
        raise ValueError(f"broker_version {broker_version!r} is none of {', '.join(RELEASES)}")
    options = StartOptions(
        is_clean,
        recovery_point,
        log_start_offset,
        now=milliseconds(now),
        checksums=True,
        release=RELEASES[broker_version],
    )
    inputs = named_inputs(path)
    fates = Fates.of(inputs, raise_error)
    found = start_all(inputs, options, raise_error, fates=fates)
    rows = (startup_row(item, fates.folders.get(item.path)) for item in found)
    return [AnswerRow(row) for row in rows if row is not None]


def repair_plan(
    path: Path, *, mode: Mode | None = None, deep: bool = False, first_segment: bool = False
) -> list[AnswerRow]:
    """What a repair would do and what it would cost, as ``kdump repair`` prints it. No file is changed.

    Args:
        path: a segment, a partition directory or a log directory.
        mode: ``like-broker``, ``salvage`` or ``indexes``; None: like-broker, with the losses of both modes.
        deep: salvage drops batches whose records do not decode, too.
        first_segment: the segment is the first of its log, so that no producer is known before it.

    Returns:
        A plan for each partition or segment.

    Raises:
        ValueError: there is no such mode.
        KdumpError: the path cannot be read, or a repair is refused.
    """
    from kdump.repair.plan.plan import RepairMode, RepairSettings
    from kdump.repair.run import Repair, Repaired, RepairOptions
    from kdump.repair.salvage.pieces import SalvageOptions

    if mode is not None:
        check_choice(mode, "mode", [one.value for one in RepairMode])
    settings = RepairSettings(first_segment=first_segment)
    options = RepairOptions(None if mode is None else RepairMode(mode), settings, salvaging=SalvageOptions(deep=deep))
    given = input_of(path)
    with Repair(options, on_error=raise_error) as job:
        found = []
        for repaired in job.of(given):
            if not isinstance(repaired, Repaired):
                what = f"a log of {repaired.title}, of which there is no plan as a row: kdump repair shows it"
                raise KdumpError(Codes.REPAIR_REFUSED, what, path=given.path)
            found.append(AnswerRow(repaired.row()))
        return found


def group_offsets(
    path: Paths, *, at: Time = None, group: str | None = None, max_decompressed_size: int = DEFAULT_LIMIT
) -> list[AnswerRow]:
    """What consumer groups had committed at a time, as ``kdump state`` gives it.

    Args:
        path: partitions of ``__consumer_offsets``, or a log directory with some of them; one or many.
        at: the time, by the timestamps of the records; a datetime (without a time zone: UTC) or ms since 1970. None:
            the end of the log.
        group: only this group.
        max_decompressed_size: bytes; a batch that decompresses to more is left out as damage is.

    Raises:
        KdumpError: a path cannot be read, or holds no partition of ``__consumer_offsets``.
    """
    inputs = named_inputs(path, with_patterns=True)
    found = dict(_coordinators(inputs, milliseconds(at), None, is_alone=True, limit=max_decompressed_size))
    if "committedOffset" not in found:
        what = "no partition of __consumer_offsets, by the name of its directory"
        raise KdumpError(Codes.NO_SEGMENTS, what, path=inputs[0].path)
    return [row for row in found["committedOffset"] if group is None or row.group == group]


def cluster_state(
    path: Paths,
    *,
    at: Time = None,
    at_offset: int | None = None,
    show_secrets: bool = False,
    max_decompressed_size: int = DEFAULT_LIMIT,
) -> ClusterState:
    """What a cluster knew at a time, as ``kdump state`` gives it: its metadata, its groups, its transactions.

    The last value of each key of a partition, which the command also shows, is left out.

    Args:
        path: ``__cluster_metadata-0``, its files, log directories, partitions of ``__consumer_offsets`` and of
            ``__transaction_state``; one or many. Copies of one metadata log are one log with several witnesses.
        at: the time; a datetime (without a time zone: UTC) or ms since 1970. None: the end of the logs.
        at_offset: in place of a time the last offset of the metadata log that counts; groups and transactions are left
            out then.
        show_secrets: with passwords, keys and token ids.
        max_decompressed_size: bytes; a batch that decompresses to more is left out as damage is.

    Raises:
        ValueError: both a time and an offset.
        KdumpError: a path cannot be read, or none holds anything that has a state.
    """
    if at is not None and at_offset is not None:
        raise ValueError("a state is that at a time or that at an offset, not both")
    inputs = named_inputs(path, with_patterns=True)
    moment = milliseconds(at)
    clusters = list(_metadata([one.path for one in inputs], moment, at_offset, show_secrets=show_secrets))
    state = [row for _, rows in clusters for row in rows]
    if at_offset is None:
        partitions = clusters[-1][0] if clusters else None
        found = _coordinators(inputs, moment, partitions, is_alone=not clusters, limit=max_decompressed_size)
        state += (row for _, rows in found for row in rows)
    if not state:
        raise KdumpError(
            Codes.NO_SEGMENTS, "nothing that has a state, by the names of directories", path=inputs[0].path
        )
    return ClusterState(state)


def differences(
    *paths: str | PathLike[str],
    content: bool = False,
    records: bool = False,
    max_decompressed_size: int = DEFAULT_LIMIT,
) -> Differences:
    """What copies of partitions differ in, as ``kdump diff`` tells it.

    Args:
        paths: two or more: segments, partition directories, log directories, URIs of them; one may be a manifest.
        content: the copies are no replicas: only their records count.
        records: also each record that differs, with what each copy holds.
        max_decompressed_size: bytes; a batch that decompresses to more is damage.

    Raises:
        ValueError: there are not two paths.
        KdumpError: a path or a copy cannot be read.
    """
    from kdump.diff.against import FileDifference
    from kdump.diff.contents import DiffOptions
    from kdump.diff.report import file_row, record_row, report_rows
    from kdump.diff.run import PartitionReport, diff

    if len(paths) < _FEWEST:
        raise ValueError("two paths or more are compared")
    rows: list[Row] = []
    options = DiffOptions(max_decompressed_size, content, records)
    for item in diff(named_inputs(paths, with_patterns=True), options, raise_error):
        if isinstance(item, PartitionReport):
            rows += report_rows(item)
        else:
            rows.append(file_row(item) if isinstance(item, FileDifference) else record_row(item))
    return Differences(map(AnswerRow, rows))


def _metadata(
    paths: Sequence[str], at: int | None, at_offset: int | None, *, show_secrets: bool
) -> Iterator[tuple[int | None, list[AnswerRow]]]:
    """For each cluster the number of its transaction coordinators' partitions, and the rows."""
    from kdump.kafka.image.copies import by_cluster, find_copies
    from kdump.kafka.image.replay import StatePoint
    from kdump.state.metadatarows import StateSelection, image_rows
    from kdump.state.metadatastate import MetadataState

    selected = StateSelection(show_secrets=show_secrets)
    for copies in by_cluster(find_copies(paths, raise_error)):
        state = MetadataState.of(copies, StatePoint(at_offset, at))
        rows = list(map(AnswerRow, (state.head(), *state.voters(), *image_rows(state.image, selected))))
        rows += (LogFinding(finding, finding.path or "") for finding in state.findings)
        yield state.transaction_partitions, rows


def _coordinators(
    inputs: Sequence[Input], at: int | None, transaction_partitions: int | None, *, is_alone: bool, limit: int
) -> Iterator[tuple[str, list[AnswerRow]]]:
    """The rows of each type: groups, committed offsets, transactional ids, open transactions."""
    from kdump.kafka.image.names import TopicNames
    from kdump.state.coordinators import coordinator_rows
    from kdump.verify.partitionentries import PartitionEntries

    # A path may hold a metadata log and nothing else.
    logs = PartitionEntries(inputs, on_error=raise_error if is_alone else ignore_error, limit=limit)
    names = TopicNames([one.path for one in inputs])
    for kind, found in coordinator_rows(
        logs, at, names, transaction_partitions, note=lambda note: None, on_error=raise_error
    ):
        yield kind, [AnswerRow({"type": kind, **row}) for row in found]
