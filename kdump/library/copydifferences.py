"""``kdump.differences``: what copies of partitions differ in, and what each would lose."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from kdump.inputs import inputs_of
from kdump.library.arguments import paths_of
from kdump.library.jsonvalues import JsonRow, JsonRows, JsonValue, fail
from kdump.wire.compression import DEFAULT_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPartition(JsonValue):
    topic: str | None
    partition: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCopy(_OfPartition):
    """A copy of a partition: a line ``copy``. ``copy``: the PATH; ``directory``: of the partition."""

    copy: str
    log_start: int
    log_end: int
    high_watermark: int
    epochs: Sequence[Sequence[int]]
    """Leader epoch and first offset of each."""
    topic_id: str | None
    cluster_id: str | None
    node_id: int | None
    is_damaged: bool
    is_future: bool
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOffsets(_OfPartition):
    """The offsets that all copies may hold: a line ``common``."""

    first_offset: int
    last_offset: int
    equal_to: int | None
    """The last offset up to which all are equal; None: nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentCopy(_OfPartition):
    """A PATH that does not hold a partition which others hold: a line ``absent``."""

    copy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDifference(_OfPartition):
    """Offsets, both inclusive, at which copies differ: a line ``difference``."""

    kind: str
    code: str
    severity: str
    explained: bool
    """What Kafka does of itself: it is no finding."""
    first_offset: int | None
    last_offset: int | None
    copies: Sequence[str]
    """The PATHs that it is about."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerTruncation(_OfPartition):
    """Where a copy truncates that follows another one, and what it loses: a line ``truncation``."""

    leader: str
    follower: str
    truncation_offset: int | None
    records_lost: int
    records_lost_ranges: Sequence[Sequence[int]]
    loops: bool
    """It truncates and fetches for ever."""
    fails: bool
    """It gives the partition up."""
    refused: bool
    """The copies are of different topics, so the leader gives it nothing. The rest is as if they were of one topic."""
    records_nowhere_else: int
    records_nowhere_else_ranges: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BestCopy(_OfPartition):
    """The copy that should lead: a line ``recommendation``."""

    copy: str
    records_lost: int
    records_nowhere_else: int
    possible_leaders: Sequence[int] | None
    """The nodes that the cluster may elect when all of them start; None: its metadata is not at hand."""
    expected_leader: int | None
    """The only one of them; None where there are none or several."""
    expected_leader_copy: str | None
    """Its PATH; None where no PATH holds its copy."""
    expected_records_lost: int | None
    """What that costs at most; None where it is not known."""
    expected_records_nowhere_else: int | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRecord(_OfPartition):
    """A record in which copies differ: a line ``record``."""

    offset: int
    kind: str
    copies: Sequence[str]
    records: Sequence[Mapping[str, Any] | None]
    """What each copy holds; None: nothing."""


_FEWEST: Final = 2
_KINDS: Final[Mapping[str, type[JsonValue]]] = {
    "copy": ComparedCopy,
    "common": CommonOffsets,
    "absent": AbsentCopy,
    "difference": FoundDifference,
    "truncation": FollowerTruncation,
    "recommendation": BestCopy,
    "record": DifferingRecord,
}
"""By the type of the line."""


class Differences(JsonRows):
    """What ``kdump diff`` tells, partition after partition. Iterating gives the differences."""

    def __iter__(self) -> Iterator[FoundDifference]:
        return iter(self.select(FoundDifference))

    def __len__(self) -> int:
        return len(self.select(FoundDifference))

    @property
    def copies(self) -> list[ComparedCopy]:
        """The copies that were compared."""
        return self.select(ComparedCopy)

    @property
    def common(self) -> list[CommonOffsets]:
        """For each partition the offsets that all copies may hold."""
        return self.select(CommonOffsets)

    @property
    def absent(self) -> list[AbsentCopy]:
        """Which PATH lacks which partition."""
        return self.select(AbsentCopy)

    @property
    def truncations(self) -> list[FollowerTruncation]:
        """What each copy loses as the follower of each other one."""
        return self.select(FollowerTruncation)

    @property
    def recommendations(self) -> list[BestCopy]:
        """Which copy of each partition should lead."""
        return self.select(BestCopy)

    @property
    def records(self) -> list[DifferingRecord]:
        """The records that differ, if they were asked for."""
        return self.select(DifferingRecord)


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
    from kdump.diff.contents import ContentOptions
    from kdump.diff.report import file_json, record_json, report_json
    from kdump.diff.run import DiffOptions, PartitionReport, diff

    if len(paths) < _FEWEST:
        raise ValueError("two paths or more are compared")
    lines: list[str] = []
    options = DiffOptions(ContentOptions(max_decompressed_size, content), records)
    for item in diff(inputs_of(dict.fromkeys(paths_of(paths)), fail, with_patterns=True), options, fail):
        if isinstance(item, PartitionReport):
            lines += report_json(item)
        else:
            lines.append(file_json(item) if isinstance(item, FileDifference) else record_json(item))
    return Differences(map(_row, lines))


def _row(line: str) -> JsonRow:
    members: dict[str, Any] = json.loads(line)
    return _KINDS[members["type"]].of_members(members)
