"""What the commands give as JSON, as values: figures, starts, plans of repair, committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

from kdump.codes import Codes, Finding, KdumpError
from kdump.inputs import input_of, inputs_of
from kdump.library.arguments import Paths, Time, check_choice, milliseconds, paths_of
from kdump.library.jsonvalues import JsonValue, fail
from kdump.wire.compression import DEFAULT_LIMIT

By = Literal[
    "segment", "partition", "topic", "producer", "codec", "magic", "leader-epoch", "minute", "hour", "day", "key"
]  # fmt: skip
Mode = Literal["like-broker", "salvage", "indexes"]
Path = str | PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFigures(JsonValue):
    """The figures of one group: a line of ``kdump stats --output jsonl``. Sizes in bytes, times in ms since 1970.

    With ``quick``, members that only records show are None.
    """

    by: str
    group: str
    files: int
    bytes: int
    batches: int
    control_batches: int
    records: int
    control_records: int
    null_keys: int | None
    tombstones: int | None
    min_offset: int | None
    max_offset: int | None
    min_timestamp: int | None
    max_timestamp: int | None
    bytes_per_second: float | None
    records_per_second: float | None
    batch_size: Mapping[str, Any] | None
    record_size: Mapping[str, Any] | None
    key_size: Mapping[str, Any] | None
    value_size: Mapping[str, Any] | None
    key_bytes: int | None
    value_bytes: int | None
    headers: int | None
    header_bytes: int | None
    records_with_headers: int | None
    codecs: Mapping[str, Any]
    magics: Mapping[str, Any]
    timestamp_types: Mapping[str, int]
    timestamps_back: int | None
    largest_step_back: int | None
    missing_offsets: int | None
    index_entries: int | None
    time_index_entries: int | None
    bytes_per_index_entry: float | None
    transactions: Mapping[str, Any]
    producers: int
    largest_producers: Sequence[Mapping[str, Any]]
    distinct_keys: Mapping[str, int] | None
    heaviest_keys: Sequence[Mapping[str, Any]] | None
    damaged_batches: int
    damaged_bytes: int | None
    errors: int | None
    warnings: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPrediction(JsonValue):
    """What a broker's start makes of a partition: a line of ``kdump verify --startup --output jsonl``."""

    file: str
    """The directory."""
    topic: str | None
    partition: int | None
    outcome: str | None
    """``starts``, ``dir-offline`` or ``broker-stops``; None: a broker keeps changing the files."""
    exception: str | None
    """The Java class of the error that ends the start."""
    log_start_offset: int | None
    recovery_point: int | None
    log_end_offset: int | None
    segments: Sequence[Sequence[int]]
    """Base offset and bytes of each."""
    files: Sequence[Mapping[str, Any]]
    """What becomes of each file."""
    deleted_later: Sequence[str]
    lost: Sequence[Mapping[str, Any]]
    """Ranges of offsets that the start loses, with the number of records and the reason."""
    already_lost: Sequence[Mapping[str, Any]] = ()
    """Ranges that were lost before."""
    swapped: Sequence[Sequence[str]] = ()
    """Pairs of logs whose contents are exchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan(JsonValue):
    """What a repair of a partition or segment would do: a line of ``kdump repair --output jsonl``. Nothing is done."""

    path: str
    way: str
    """The mode that the plan is for."""
    is_damaged: bool
    losses: Mapping[str, Mapping[str, Any] | None]
    """What each mode costs, by its name; None: it cannot repair the log, or was not planned."""
    left: Sequence[Mapping[str, Any]]
    """Damage that no repair undoes."""
    snapshots: Sequence[Mapping[str, Any]]
    unfinished: Sequence[str]
    """Repairs in place that were begun and not finished."""
    starts: Mapping[str, Any] | None
    """The next start of a broker without and with the repair."""
    logs: Sequence[Mapping[str, Any]]
    """What becomes of each log, piece by piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset(JsonValue):
    """The committed offset of a group in a partition: a line of ``kdump state --output jsonl``."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_timestamp: int | None = None
    """Milliseconds since 1970."""
    expire_timestamp: int | None = None
    record_offset: int
    """Of the record in ``__consumer_offsets``."""
    timestamp: int
    """Of that record, ms."""
    log_start_offset: int | None = None
    """Of the partition, where its log is among the paths."""
    log_end_offset: int | None = None
    lag: int | None = None
    """Records that the group had still to read then."""
    is_out_of_range: bool | None = None
    """The log has no such offset."""


def figures(
    paths: Paths, *, by: By | str = "segment", quick: bool = False, max_decompressed_size: int = DEFAULT_LIMIT
) -> list[LogFigures]:
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
    from kdump.stats.report import stats_json
    from kdump.stats.run import FindingDeduplicator, StatsOptions, StatsRun
    from kdump.verify.run import Verification

    if not by.startswith("header:"):
        check_choice(by, "by", [one.value for one in Grouping if one is not Grouping.HEADER])
    kind, header = grouping_of(by)
    if kind.is_of_contents and quick:
        raise ValueError(f"by={by!r} reads every record, quick reads headers only")
    options = StatsOptions(kind, with_records=not quick, limit=max_decompressed_size, header=header)
    run = StatsRun(options)
    verification = Verification(run.judge(), on_error=fail)
    new = FindingDeduplicator()
    for found in inputs_of(dict.fromkeys(paths_of(paths)), fail):
        for item in new.of(verification.items(found)):
            if isinstance(item, Finding):
                run.see_finding(item)
            elif item.batches is None:
                raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "no log is beside it to be counted", path=item.path)
    return [LogFigures.of(stats_json(group, kind, header)) for group in run.report().groups]


def start_prediction(
    path: Path | Iterable[Path],
    *,
    is_clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: Time = None,
) -> list[StartPrediction]:
    """What the next start of a broker makes of partitions, as ``kdump verify --startup`` tells it.

    Args:
        path: a partition directory or a log directory; several are log directories of one broker.
        is_clean: the broker was stopped cleanly; None: as the log directory says.
        recovery_point: of each partition; None: as the log directory says.
        log_start_offset: of each partition; None: as the log directory says.
        now: the time of the start; None: now.

    Returns:
        A value for each partition, and for what stops its log directory or the broker.

    Raises:
        KdumpError: a directory cannot be read.
    """
    from kdump.verify.startcheck import Obstacle, StartCheck
    from kdump.verify.startreport import keeps_changing_json, obstacle_json, startup_json
    from kdump.verify.startups import KeepsChanging, StartOptions, start_all

    options = StartOptions(is_clean, recovery_point, log_start_offset, now=milliseconds(now), checksums=True)
    found = []
    for item in start_all(inputs_of(dict.fromkeys(paths_of(path)), fail), options, fail):
        if isinstance(item, StartCheck):
            found.append(StartPrediction.of(startup_json(item)))
        elif isinstance(item, Obstacle):
            found.append(StartPrediction.of(obstacle_json(item)))
        elif isinstance(item, KeepsChanging):
            found.append(StartPrediction.of(keeps_changing_json(item.path)))
    return found


def repair_plan(
    path: Path, *, mode: Mode | None = None, deep: bool = False, first_segment: bool = False
) -> list[RepairPlan]:
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
    from kdump.repair.resultjson import repair_json
    from kdump.repair.run import Repair, Repaired, RepairOptions
    from kdump.repair.salvage.pieces import SalvageOptions

    if mode is not None:
        check_choice(mode, "mode", [one.value for one in RepairMode])
    settings = RepairSettings(first_segment=first_segment)
    options = RepairOptions(None if mode is None else RepairMode(mode), settings, salvaging=SalvageOptions(deep=deep))
    named = input_of(path)
    with Repair(options, on_error=fail) as job:
        found = []
        for repaired in job.of(named):
            if not isinstance(repaired, Repaired):
                what = f"a log of {repaired.title}, of which there is no plan as a value: kdump repair shows it"
                raise KdumpError(Codes.REPAIR_REFUSED, what, path=named.path)
            found.append(RepairPlan.of(b"".join(repair_json(repaired)).decode()))
        return found


def group_offsets(
    path: Paths, *, at: Time = None, group: str | None = None, max_decompressed_size: int = DEFAULT_LIMIT
) -> list[GroupOffset]:
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
    from kdump.kafka.image.names import TopicNames
    from kdump.state.coordinators import KnownTopics, coordinator_rows
    from kdump.verify.partitionentries import PartitionEntries

    inputs = inputs_of(dict.fromkeys(paths_of(path)), fail, with_patterns=True)
    paths = [one.path for one in inputs]
    logs = PartitionEntries(inputs, on_error=fail, limit=max_decompressed_size)
    kinds = dict(coordinator_rows(logs, milliseconds(at), KnownTopics(TopicNames(paths)), lambda line: None, fail))
    if "committedOffset" not in kinds:
        what = "no partition of __consumer_offsets, by the name of its directory"
        raise KdumpError(Codes.NO_SEGMENTS, what, path=paths[0])
    found = (GroupOffset.of_row({"type": "committedOffset", **row}) for row in kinds["committedOffset"])
    return [one for one in found if group is None or one.group == group]
