"""The rules of the expiration of remote segments; the real ones are in tests/oracle."""

from __future__ import annotations

from collections.abc import Mapping

from kdump.format.checkpoint import EpochEntry
from kdump.kafka.remoteretention import RemoteExpiry, expired_segments, loaded_epochs
from kdump.kafka.remotesegments import RemotePart, RemoteSegments, SegmentState
from kdump.kafka.retention import Reason, Retention

NOW = 1_000_000
EPOCHS = [EpochEntry(1, 0), EpochEntry(3, 100)]
END = 250


class Tier:
    """Remote segments of one partition, 100 bytes each; names are their ids."""

    def __init__(self) -> None:
        self._known = RemoteSegments()

    def copied(
        self,
        name: str,
        first: int,
        last: int,
        epochs: Mapping[int, int],
        *,
        age: int = 0,
        state: SegmentState = SegmentState.COPY_SEGMENT_FINISHED,
    ) -> Tier:
        for number in range(state + 1):
            values = {
                "remoteLogSegmentId": {"id": name, "topicIdPartition": {"name": "t", "id": "i", "partition": 0}},
                "remoteLogSegmentState": number,
                "eventTimestampMs": 0,
                "brokerId": 1,
                "customMetadata": None,
                "startOffset": first,
                "endOffset": last,
                "segmentSizeInBytes": 100,
                "maxTimestampMs": NOW - age,
                "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": at} for epoch, at in epochs.items()],
            }
            self._known.take(min(number, 1), values, 0, 0, 0)
        return self

    @property
    def part(self) -> RemotePart:
        return self._known.parts()["i", 0]

    def expire(self, retention: Retention, *, start: int = 0, only_local: int = 0) -> RemoteExpiry:
        return expired_segments(
            self.part,
            EPOCHS,
            retention,
            now=NOW,
            log_start_offset=start,
            log_end_offset=END,
            only_local=only_local,
        )


def three() -> Tier:
    """Of one lineage, the second one of both epochs."""
    tier = Tier().copied("a", 0, 49, {1: 0}, age=900)
    return tier.copied("b", 50, 149, {1: 50, 3: 100}, age=500).copied("c", 150, 199, {3: 150}, age=700)


def test_by_time() -> None:
    assert three().expire(Retention(600)) == ({"a": Reason.TIME}, 50), "it stops at the first that stays"
    assert three().expire(Retention(499)) == (dict.fromkeys("abc", Reason.TIME), 200)
    assert three().expire(Retention()) == ({}, 0)
    assert three().expire(Retention(NOW + 1)) == ({}, 0), "nothing is older than 1970"


def test_by_size_of_remote_and_only_local_bytes() -> None:
    assert three().expire(Retention(size=200)) == ({"a": Reason.SIZE}, 50)
    assert three().expire(Retention(size=201)) == ({}, 0), "a segment goes only if as much is too much"
    assert three().expire(Retention(size=201), only_local=99) == ({"a": Reason.SIZE}, 50)


def test_what_goes_by_time_counts_for_the_size() -> None:
    assert three().expire(Retention(600, 200)) == ({"a": Reason.TIME}, 50)
    reasons = {"a": Reason.TIME, "b": Reason.SIZE, "c": Reason.TIME}
    assert three().expire(Retention(600, 100)) == (reasons, 200)


def test_before_the_log_start() -> None:
    assert three().expire(Retention(), start=50) == ({"a": Reason.LOG_START_OFFSET}, 50)
    assert three().expire(Retention(), start=49) == ({}, 49)


def test_other_leaders_copies() -> None:
    """What is not of the lineage stays and keeps nothing; what is older than all epochs of the log goes."""
    tier = three().copied("other", 10, 60, {2: 10}, age=900).copied("older", 0, 9, {0: 0})
    assert tier.expire(Retention(600)).reasons == {"a": Reason.TIME, "older": Reason.LEADER_EPOCH}
    beyond = Tier().copied("a", 0, 250, {1: 0, 3: 100}, age=900)
    assert beyond.expire(Retention(1)).reasons == {}, "it ends after the log"


def test_unfinished_ones() -> None:
    tier = three().copied("dying", 0, 20, {1: 0}, state=SegmentState.DELETE_SEGMENT_STARTED)
    assert tier.expire(Retention()) == ({"dying": Reason.DELETION_STARTED}, 0)
    tier = three().copied("begun", 0, 20, {1: 0}, age=900, state=SegmentState.COPY_SEGMENT_STARTED)
    assert tier.expire(Retention(600)).reasons == {"a": Reason.TIME, "begun": Reason.TIME}


def test_a_shorter_copy_takes_the_place() -> None:
    """Of two that begin alike in an epoch a broker lists there the later one (RemoteLogLeaderEpochState)."""
    tier = Tier().copied("long", 0, 90, {1: 0}).copied("short", 0, 40, {1: 0})
    assert [one.segment_id for one in tier.part.listed(1)] == ["short"]
    tier = Tier().copied("short", 0, 40, {1: 0}).copied("long", 0, 90, {1: 0})
    assert [one.segment_id for one in tier.part.listed(1)] == ["long", "short"]


def test_the_last_copied_offset() -> None:
    assert three().part.last_copied(EPOCHS, END) == 199
    assert three().part.last_copied(EPOCHS, 180) == 179
    assert three().part.last_copied([*EPOCHS, EpochEntry(4, 160)], END) == 159
    assert three().part.last_copied([EpochEntry(1, 0)], END) == 99, "of the epochs that the log has"
    assert three().part.last_copied([EpochEntry(7, 0)], END) == -1
    deleted = Tier().copied("a", 0, 49, {1: 0}, state=SegmentState.DELETE_SEGMENT_FINISHED)
    assert deleted.part.segments == []
    assert deleted.part.last_copied(EPOCHS, END) == 49, "also after its deletion"


def test_epochs_as_a_broker_loads_them() -> None:
    entries = [EpochEntry(1, 0), EpochEntry(2, 10), EpochEntry(3, 10), EpochEntry(4, 30)]
    assert loaded_epochs(entries, 0, 30) == [(1, 0), (3, 10)]
    assert loaded_epochs(entries, 15, 40) == [(3, 15), (4, 30)]
    assert loaded_epochs(entries, 30, 40) == [(4, 30)]
