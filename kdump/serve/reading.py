"""Answers with what is in the logs: offsets, epochs, batches.

Source: Kafka's KafkaApis and ReplicaManager (fetchOffset, readFromLog), FetchSession.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from threading import BoundedSemaphore, Lock
from typing import Any, Final

from kdump.codes import KdumpError, OnError
from kdump.serve.partition import OutOfRangeError, ServedPartition
from kdump.serve.segment import SoundRun, Timed
from kdump.serve.view import View
from kdump.serve.wire import Error, Request

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING = range(-1, -7, -1)
_FIRST_WITH: Final = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING: 11}
"""The first version of ListOffsets that knows a special time."""
_TOPIC_IDS: Final = 13
"""The first version of Fetch with topic ids in place of names."""
_ZSTD: Final = 10
"""The first version of Fetch whose clients know zstd (KIP-110)."""
_FINAL_EPOCH: Final = -1
_LONGEST_WAIT: Final = 30.0
_IN_FLIGHT: Final = 24 << 20
"""Bytes of batches that wait to be sent, of all clients."""
_LEAST: Final = 1 << 16
"""Bytes that each client gets, however many wait."""
_MOST: Final = 4 << 20
"""Bytes of batches in one response."""
_MOST_LARGE: Final = 4
"""Responses at a time that hold one batch which is larger than their share."""


class Sent(ExitStack):
    """A response on its way: when it is to be sent, and what must be given back after that, or if it could not be."""

    not_before = 0.0
    """When it is to be sent, by the monotonic clock."""

    def wait(self) -> None:
        """Wait until it is to be sent."""
        time.sleep(max(0.0, self.not_before - time.monotonic()))


class Reading:
    """Answers from the partitions of a view.

    Args:
        view: the topics.
        on_error: takes what cannot be read.
    """

    def __init__(self, view: View, on_error: OnError) -> None:
        self._view = view
        self._on_error = on_error
        self._lock = Lock()
        self._in_flight = 0
        self._large = BoundedSemaphore(_MOST_LARGE)

    def list_offsets(self, request: Request) -> dict[str, Any]:
        """ListOffsets."""
        committed = request.values["isolationLevel"] == 1
        seen: set[tuple[str, int]] = set()
        topics = []
        for topic in request.values["topics"]:
            partitions = []
            for one in topic["partitions"]:
                place = topic["name"], one["partitionIndex"]
                answer: Mapping[str, Any] = {"errorCode": Error.INVALID_REQUEST}
                if place not in seen:
                    seen.add(place)
                    answer = self._listed(*place, one, committed=committed, version=request.version)
                partitions.append({"partitionIndex": one["partitionIndex"], **answer})
            topics.append({"name": topic["name"], "partitions": partitions})
        return {"topics": topics}

    def epochs(self, request: Request) -> dict[str, Any]:
        """OffsetForLeaderEpoch."""
        topics = []
        for topic in request.values["topics"]:
            partitions = []
            for one in topic["partitions"]:
                number = one["partition"]
                found: Mapping[str, Any] = {}
                error, partition = self._partition(topic["topic"], number, one["currentLeaderEpoch"])
                if partition is not None:
                    try:
                        epoch, end = partition.end_of_epoch(one["leaderEpoch"])
                        found = {"leaderEpoch": epoch, "endOffset": end}
                    except KdumpError as failure:
                        error = self._failed(failure)
                partitions.append({"partition": number, "errorCode": error, **found})
            topics.append({"topic": topic["topic"], "partitions": partitions})
        return {"topics": topics}

    def fetch(self, request: Request, sent: Sent) -> dict[str, Any]:
        """Fetch. Without a session, as a broker answers whose cache of sessions is full (KIP-227)."""
        values = request.values
        if values["sessionId"] and values["sessionEpoch"] != _FINAL_EPOCH:
            return {"errorCode": Error.FETCH_SESSION_ID_NOT_FOUND}
        by_id = request.version >= _TOPIC_IDS
        committed = values["isolationLevel"] == 1
        left = self._take(max(values["maxBytes"], 0), sent)
        until = time.monotonic() + min(max(values["maxWaitMs"], 0) / 1000, _LONGEST_WAIT)
        found: dict[tuple[str | None, str], list[dict[str, Any]]] = {}
        # A response without partitions is sent at once.
        is_done, is_first = not any(topic["partitions"] for topic in values["topics"]), True
        for topic in values["topics"]:
            name = self._name_of(topic, by_id=by_id)
            answers = found.setdefault((name, topic["topicId"]), [])
            for one in topic["partitions"]:
                answer, size, error = self._fetched(
                    name, one, request.version, left, sent, committed=committed, first=is_first
                )
                left -= min(size, left)
                is_first = is_first and not size
                is_done = is_done or size > 0 or error is not Error.NONE
                answers.append(answer)
        if not is_done and values["minBytes"] > 0:
            # Nothing will come, and a client that waits for it asks again after this time.
            sent.close()
            sent.not_before = until
        return {
            "responses": [
                {"topic": topic, "topicId": topic_id, "partitions": answers}
                for (topic, topic_id), answers in found.items()
                if answers
            ]
        }

    def _name_of(self, topic: Mapping[str, Any], *, by_id: bool) -> str | None:
        """The name of a topic that a Fetch asks for; None: nobody knows its id."""
        known = self._view.by_id.get(topic["topicId"])
        name: str = topic["topic"]
        return (None if known is None else known.name) if by_id else name

    def _fetched(
        self,
        topic: str | None,
        one: Mapping[str, Any],
        version: int,
        left: int,
        sent: Sent,
        *,
        committed: bool,
        first: bool,
    ) -> tuple[dict[str, Any], int, Error]:
        """What a partition answers, the bytes in it, and its error."""
        answer: dict[str, Any] = {
            "partitionIndex": one["partition"],
            "highWatermark": -1,
            "abortedTransactions": None,
            "records": b"",
        }
        error, size = Error.UNKNOWN_TOPIC_ID, 0
        if topic is not None:
            error, partition = self._partition(topic, one["partition"], one["currentLeaderEpoch"])
            if partition is not None:
                try:
                    size = self._read(answer, partition, one, left, sent, committed=committed, first=first)
                    if answer.pop("hasZstd") and version < _ZSTD:
                        answer["records"], size, error = b"", 0, Error.UNSUPPORTED_COMPRESSION_TYPE
                except OutOfRangeError:
                    error = Error.OFFSET_OUT_OF_RANGE
                    answer["logStartOffset"] = partition.log_start
                except KdumpError as failure:
                    error = self._failed(failure)
        answer["errorCode"] = error
        return answer, size, error

    def _read(
        self,
        answer: dict[str, Any],
        partition: ServedPartition,
        one: Mapping[str, Any],
        left: int,
        sent: Sent,
        *,
        committed: bool,
        first: bool,
    ) -> int:
        """Read the batches of a partition into its answer; returns their bytes."""
        answer["hasZstd"] = False
        size = min(max(one["partitionMaxBytes"], 0), left)
        offset, last_epoch = one["fetchOffset"], one["lastFetchedEpoch"]
        if last_epoch >= 0:
            epoch, end = partition.end_of_epoch(last_epoch)
            if epoch < 0:
                raise OutOfRangeError
            if epoch < last_epoch or end < offset:
                answer["divergingEpoch"] = {"epoch": epoch, "endOffset": end}
                size, first = 0, False
        found = self._batches(partition, offset, size, sent, committed=committed, first=first)
        answer |= {
            "highWatermark": partition.end_offset,
            "lastStableOffset": partition.last_stable_offset,
            "logStartOffset": partition.log_start,
            "records": found.data,
            "hasZstd": found.has_zstd,
        }
        if committed:
            answer["abortedTransactions"] = [
                {"producerId": producer, "firstOffset": offset} for producer, offset in found.aborted
            ]
        return len(found.data)

    def _batches(
        self, partition: ServedPartition, offset: int, size: int, sent: Sent, *, committed: bool, first: bool
    ) -> SoundRun:
        """The batches from an offset on. A batch that is larger than all may take is sent to one client at a time."""
        found = partition.fetch(offset, size, committed=committed, at_least_one=False)
        limit = partition.last_stable_offset if committed else partition.end_offset
        if found.data or not first or offset >= limit or not self._large.acquire(timeout=_LONGEST_WAIT):
            return found
        sent.callback(self._large.release)
        return partition.fetch(offset, size, committed=committed, at_least_one=True)

    def _take(self, wanted: int, sent: Sent) -> int:
        """How many bytes a response may hold. The more wait to be sent, the fewer."""
        with self._lock:
            most = min(max((_IN_FLIGHT - self._in_flight) // 4, _LEAST), _MOST, wanted)
            self._in_flight += most

        def give_back() -> None:
            with self._lock:
                self._in_flight -= most

        sent.callback(give_back)
        return most

    def _listed(
        self, topic: str, number: int, one: Mapping[str, Any], *, committed: bool, version: int
    ) -> Mapping[str, Any]:
        """The answer of ListOffsets for one partition."""
        error, partition = self._partition(topic, number, one["currentLeaderEpoch"])
        if partition is None:
            return {"errorCode": error}
        timestamp = one["timestamp"]
        if timestamp < _EARLIEST_PENDING or version < _FIRST_WITH.get(timestamp, 0):
            return {"errorCode": Error.UNSUPPORTED_VERSION}
        try:
            end = partition.last_stable_offset if committed else partition.end_offset
            found = _found(partition, timestamp, end)
        except KdumpError as failure:
            return {"errorCode": self._failed(failure)}
        if found is None:
            return {}
        epoch = found.leader_epoch if found.leader_epoch <= partition.leader_epoch else -1
        return {"timestamp": found.timestamp, "offset": found.offset, "leaderEpoch": epoch}

    def _partition(self, topic: str, number: int, leader_epoch: int) -> tuple[Error, ServedPartition | None]:
        """The partition that a request is about, with the leader epoch that the client knows (-1: none)."""
        partition = self._view.partition(topic, number)
        if partition is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION, None
        if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
            is_old = leader_epoch < partition.leader_epoch
            return Error.FENCED_LEADER_EPOCH if is_old else Error.UNKNOWN_LEADER_EPOCH, None
        return Error.NONE, partition

    def _failed(self, error: KdumpError) -> Error:
        self._on_error(error)
        return Error.KAFKA_STORAGE_ERROR


def _found(partition: ServedPartition, timestamp: int, end: int) -> Timed | None:
    """What a partition, which ends at ``end`` for the client, has at a time or a special one."""
    if timestamp == _LATEST:
        return Timed(end, -1, partition.leader_epoch)
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        start = partition.log_start if timestamp == _EARLIEST else partition.local_start()
        return Timed(start, -1, partition.epoch_at(start))
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING):
        remote_end = partition.remote_end()
        if remote_end is None:
            return None
        offset = remote_end if timestamp == _LATEST_TIERED else remote_end + 1
        return Timed(offset, -1, partition.epoch_at(offset))
    found = partition.of_max_timestamp() if timestamp == _MAX_TIMESTAMP else partition.at_or_after(timestamp)
    return None if found is None or found.offset >= end else found
