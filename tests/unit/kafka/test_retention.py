"""The rules of deletion by retention; the real ones are in tests/oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.index import TimeEntry
from kdump.inputs import resolve
from kdump.kafka.retention import (
    Reason,
    RetainedSegment,
    Retention,
    deleted_segments,
    largest_timestamp,
    only_local_bytes,
)
from kdump.releases import KAFKA_4_3, NEWEST
from kdump.stats.whatif.retention import PartitionLimits
from kdump.stats.whatif.run import WhatIfRun
from kdump.verify.partitionentries import PartitionEntries
from tests.harness.batches import plain_rows, v2_batch

NOW = 1_000_000


def segments(*pairs: tuple[int, int]) -> list[RetainedSegment]:
    """By size and age; ten offsets each."""
    return [RetainedSegment(10 * number, size, NOW - age) for number, (size, age) in enumerate(pairs)]


def gone(found: list[RetainedSegment], *, milliseconds: int | None = None, size: int | None = None) -> list[Reason]:
    return deleted_segments(found, Retention(milliseconds, size), now=NOW)


def test_by_time() -> None:
    found = segments((1, 900), (1, 500), (1, 700), (1, 0))
    assert gone(found, milliseconds=600) == [Reason.TIME], "it stops at the first that stays"
    assert gone(found, milliseconds=500) == [Reason.TIME], "older than the limit, not as old"
    assert gone(found, milliseconds=499) == [Reason.TIME] * 3
    assert gone(found, milliseconds=-1) == []


def test_the_active_segment_goes_too() -> None:
    assert gone(segments((1, 900), (1, 900)), milliseconds=1) == [Reason.TIME] * 2
    assert gone(segments((1, 900), (0, 900)), milliseconds=1) == [Reason.TIME], "but not an empty one"


def test_a_timestamp_of_tomorrow_keeps_all_that_follow() -> None:
    assert gone(segments((1, 900), (1, -5), (1, 900)), milliseconds=1) == [Reason.TIME]


def test_by_size() -> None:
    found = segments((100, 0), (100, 0), (100, 0))
    assert gone(found, size=300) == []
    assert gone(found, size=250) == [], "as much as is left must not be less than the limit"
    assert gone(found, size=200) == [Reason.SIZE]
    assert gone(found, size=0) == [Reason.SIZE] * 3


def test_size_comes_before_time() -> None:
    found = segments((100, 900), (100, 900), (100, 0))
    assert gone(found, size=200, milliseconds=600) == [Reason.SIZE, Reason.TIME]


def test_log_start() -> None:
    found = segments((1, 0), (1, 0), (1, 0))
    for start, count in ((0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (99, 2)):
        reasons = deleted_segments(found, Retention(), now=NOW, log_start_offset=start)
        assert reasons == [Reason.LOG_START_OFFSET] * count


def test_a_tiered_log_loses_only_what_remote_storage_holds() -> None:
    """Segments of offsets 0..9, 10..19 and so on; the active one goes up first."""
    found = segments((1, 900), (1, 900), (1, 900))
    for end, count in ((-1, 0), (8, 0), (9, 1), (19, 2), (99, 2)):
        reasons = deleted_segments(found, Retention(1, remote_end=end), now=NOW)
        assert reasons == [Reason.TIME] * count
    reasons = deleted_segments(found, Retention(1, remote_end=-1), now=NOW, log_start_offset=10)
    assert reasons == [Reason.LOG_START_OFFSET], "what lies before the log start may go"


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(-50, 500)), max_size=9),
    st.none() | st.integers(0, 400),
    st.none() | st.integers(0, 300),
)
def test_what_is_left_keeps_the_limits(
    pairs: list[tuple[int, int]], milliseconds: int | None, size: int | None
) -> None:
    found = segments(*pairs)
    left = found[len(gone(found, milliseconds=milliseconds, size=size)) :]
    if left and left != found[-1:] and size is not None:
        assert sum(segment.size for segment in left) - left[0].size < size
    if left and milliseconds is not None and (len(left) > 1 or left[0].size):
        assert NOW - left[0].largest_timestamp <= milliseconds


@pytest.mark.parametrize(
    ("index", "newest", "expected"),
    [
        ([TimeEntry(5, 0), TimeEntry(7, 3)], None, 7),
        ([TimeEntry(5, 0)], 9, 5),
        ([], 9, 100),
        (None, 9, 9),
        (None, -1, 100),
        (None, None, 100),
    ],
)
def test_largest_timestamp(index: list[TimeEntry] | None, newest: int | None, expected: int) -> None:
    assert largest_timestamp(index, newest, 100) == expected


def test_a_directory_is_not_listed_for_each_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def after(path: str) -> list[str]:
        asked.append(path)
        return []

    logs = [tmp_path / f"{2 * number:020}.log" for number in range(9)]
    for number, log in enumerate(logs):
        log.write_bytes(v2_batch(plain_rows(2), base_offset=2 * number))
        log.with_suffix(".timeindex").write_bytes(bytes(12))
    monkeypatch.setattr("kdump.stats.whatif.run.segments_after", after)
    answer = WhatIfRun(PartitionEntries([resolve(str(tmp_path))], on_error=pytest.fail), pytest.fail).retention(
        lambda _: PartitionLimits(Retention(size=1)), NOW
    )
    assert len(answer.rows) == len(logs)
    assert asked == [str(logs[-1])]


def test_what_is_only_local() -> None:
    """A segment that begins at the last remote offset is one to 4.3, and none to 4.4."""
    found = segments((100, 0), (10, 0), (1, 0))
    assert only_local_bytes(found, -1, NEWEST) == 111
    assert only_local_bytes(found, 9, NEWEST) == 11
    assert only_local_bytes(found, 10, NEWEST) == 1
    assert only_local_bytes(found, 10, KAFKA_4_3) == 11
