"""The audit, of a listing that nobody stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kdump.codes import Codes, Finding
from kdump.format.checkpoint import EpochEntry
from kdump.kafka.remotesegments import RemoteSegments
from kdump.tiered import bucket as buckets
from kdump.tiered.audit import Audit, LocalLog
from kdump.tiered.bucket import Bucket
from kdump.tiered.keys import KeyRing

TOPIC_ID = "T" * 22
SIZES = {"log": 1000, "index": 16, "timeindex": 24, "snapshot": 10, "leader_epoch_checkpoint": 8}


def segment_id(number: int) -> str:
    return f"{number:022d}"


def objects(numbers: Iterable[int]) -> list[tuple[str, int]]:
    return [
        (f"t-0-{TOPIC_ID}/{number * 10:020d}-{segment_id(number)}.{kind}", size)
        for number in numbers
        for kind, size in SIZES.items()
    ]


def event(number: int, state: int, **more: Any) -> tuple[int, dict[str, Any]]:
    owner = {"topicIdPartition": {"name": "t", "id": TOPIC_ID, "partition": 0}, "id": segment_id(number)}
    shared = {"remoteLogSegmentId": owner, "brokerId": 1, "eventTimestampMs": 1, "customMetadata": None}
    if state:
        return 1, shared | {"remoteLogSegmentState": state}
    about = {
        "startOffset": number * 10,
        "endOffset": number * 10 + 9,
        "segmentSizeInBytes": 1000,
        "maxTimestampMs": 0,
        "segmentLeaderEpochs": [{"leaderEpoch": 0, "offset": number * 10}],
    }
    return 0, shared | {"remoteLogSegmentState": 0} | about | more


def known(*events: tuple[int, dict[str, Any]]) -> RemoteSegments:
    found = RemoteSegments()
    for offset, (kind, values) in enumerate(events):
        found.take(kind, values, 0, offset, offset)
    return found


def finished(numbers: Iterable[int]) -> RemoteSegments:
    return known(*(one for number in numbers for one in (event(number, 0), event(number, 1))))


def audited(
    monkeypatch: pytest.MonkeyPatch, stored: list[tuple[str, int]], what: RemoteSegments, local: LocalLog | None = None
) -> list[Finding]:
    monkeypatch.setattr(buckets, "_objects", lambda root: iter(stored))
    audit = Audit(Bucket("bucket", KeyRing({})), what)
    locals_ = {} if local is None else {(TOPIC_ID, 0): local}
    return [one for one in audit.findings(locals_) if one.code is not Codes.REMOTE_TOTALS]


def test_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalLog(0, 20, 35, [EpochEntry(0, 0)])
    assert audited(monkeypatch, objects(range(3)), finished(range(3)), local) == []


def test_a_large_bucket_takes_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 objects: each segment is looked at once."""
    found = audited(monkeypatch, objects(range(20_000)), finished(range(20_001)))
    assert [(one.code, one.segment_id) for one in found] == [(Codes.REMOTE_MISSING, segment_id(20_000))]


def test_states(monkeypatch: pytest.MonkeyPatch) -> None:
    what = known(event(0, 0), event(1, 0), event(1, 1), event(1, 2), event(2, 0), event(2, 1), event(3, 0), event(3, 2))
    what.take(*event(3, 3), 0, 9, 9)
    found = audited(monkeypatch, objects(range(5)), what)
    codes = {one.segment_id: one.code for one in found}
    assert codes == {
        segment_id(0): Codes.REMOTE_COPY,
        segment_id(1): Codes.REMOTE_DELETION,
        segment_id(3): Codes.REMOTE_ORPHAN,
        segment_id(4): Codes.REMOTE_ORPHAN,
    }


def test_a_wrong_size(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [(path, size + path.endswith(".log")) for path, size in objects([0])]
    assert [one.code for one in audited(monkeypatch, stored, finished([0]))] == [Codes.REMOTE_OBJECT]


@pytest.mark.parametrize(
    ("numbers", "local", "gap"),
    [
        ([0, 2], None, (10, 19)),
        ([0], LocalLog(0, 15, 30, []), (10, 14)),
        ([1], LocalLog(5, 20, 30, []), (5, 9)),
        ([1], LocalLog(10, 20, 30, []), None),
        ([0, 1], LocalLog(0, 12, 30, []), None),
    ],
)
def test_gaps(
    monkeypatch: pytest.MonkeyPatch, numbers: list[int], local: LocalLog | None, gap: tuple[int, int] | None
) -> None:
    found = audited(monkeypatch, objects(numbers), finished(numbers), local)
    assert [(one.code, one.first_offset, one.last_offset) for one in found] == (
        [] if gap is None else [(Codes.REMOTE_GAP, *gap)]
    )


def test_offsets_that_were_deleted_are_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    what = known(event(0, 0), event(0, 1), event(0, 2), event(0, 3), event(1, 0), event(1, 1))
    assert audited(monkeypatch, objects([1]), what, LocalLog(0, 20, 30, [])) == []


def test_two_segments_with_the_same_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    what = known(
        event(0, 0),
        event(0, 1),
        event(1, 0, startOffset=0, segmentLeaderEpochs=[{"leaderEpoch": 0, "offset": 0}]),
        event(1, 1),
    )
    stored = [(path.replace(f"{10:020d}", f"{0:020d}"), size) for path, size in objects([0, 1])]
    assert Counter(one.code for one in audited(monkeypatch, stored, what)) == {Codes.REMOTE_DOUBLED: 1}


def test_another_leader_epoch_in_the_local_log(monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalLog(0, 5, 20, [EpochEntry(0, 0), EpochEntry(3, 7)])
    (found,) = audited(monkeypatch, objects([0]), finished([0]), local)
    assert (found.code, found.first_offset, found.segment_id) == (Codes.REMOTE_DIFFERS, 7, segment_id(0))
