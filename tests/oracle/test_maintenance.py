"""The models of compaction and retention against the real LogCleaner and UnifiedLog.deleteOldSegments."""

from __future__ import annotations

import base64
import os
import shutil
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kdump.format.checkpoint import EpochEntry
from kdump.inputs import resolve
from kdump.kafka.remoteretention import expired_segments, loaded_epochs
from kdump.kafka.remotesegments import RemotePart, RemoteSegments
from kdump.kafka.retention import RetainedSegment, Retention, deleted_segments, only_local_bytes
from kdump.stats.whatif.answer import Answer
from kdump.stats.whatif.retention import PartitionLimits
from kdump.stats.whatif.run import WhatIfRun
from kdump.verify.partitionentries import PartitionEntries
from tests.harness.batches import CONTROL, GZIP, LOG_APPEND_TIME, NONE, TRANSACTIONAL, message, v2_batch
from tests.harness.captures import Captures
from tests.harness.fast_reference import Row
from tests.oracle.maintenance import Expired, ExpiryRequest, Left, Maintainer
from tests.oracle.toolchain import DUMP_RELEASE, MODELLED, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

NOW = int(time.time() * 1000)
DAY = 86_400_000
LOGS = 60
EXPIRED_LOGS = 150
LIBRARIES_DIFFER = 0.02
"""Codecs other than gzip compress with libraries of other versions."""


@pytest.fixture
def maintainer(tmp_path: Path) -> Maintainer:
    try:
        return Maintainer(tmp_path / "work", java_command(DUMP_RELEASE, "LogMaintenance", options=("-Xmx1g",)))
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def fail(error: Exception) -> None:
    raise error


def ask(partition: Path) -> WhatIfRun:
    return WhatIfRun(PartitionEntries([resolve(str(partition))], on_error=fail), fail, MODELLED)


def figures(answer: Answer) -> Left:
    """As the real code's, of all segments together."""
    (row,) = answer.rows
    names = ("bytesAsV2", "batches", "records", "emptyBatches", "controlRecords")
    return Left(0, *(int(row[name] or 0) for name in names))


def together(segments: list[Left]) -> Left:
    return Left(0, *(sum(column) for column in zip(*(segment[1:] for segment in segments), strict=True)))


class Writer:
    """A random partition of magic 2: keys that come again, tombstones, transactions, several segments."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.random = Random(seed)
        self.directory = directory
        directory.mkdir(parents=True)
        self.offset = self.random.choice((0, 0, 5_000_000_000))
        self.open: set[int] = set()
        self.clock = NOW - self.random.choice((1_000_000, 3 * DAY))
        self.epochs: dict[int, int] = {}
        self.sequence = 0

    def write(self, *, close_transactions: bool, without_key: float) -> Path:
        for _ in range(self.random.randint(2, 4)):
            self.segment(without_key)
        while close_transactions and self.open:
            self.parts = [self.marker(producer) for producer in list(self.open)]
            self.flush()
        return self.directory

    def segment(self, without_key: float) -> None:
        self.parts: list[bytes] = []
        self.base = self.offset
        for _ in range(self.random.randint(1, 25)):
            self.parts.append(self.marker() if self.open and self.random.random() < 0.3 else self.data(without_key))
        self.flush()

    def flush(self) -> None:
        base = getattr(self, "base", self.offset)
        path = self.directory / f"{base:020}.log"
        path.write_bytes((path.read_bytes() if path.exists() else b"") + b"".join(self.parts))

    def data(self, without_key: float) -> bytes:
        random = self.random
        producer = random.choice((-1, -1, 1, 2, 3))
        attributes = LOG_APPEND_TIME if random.random() < 0.1 else 0
        if producer >= 0 and (producer in self.open or random.random() < 0.5):
            attributes |= TRANSACTIONAL
            self.open.add(producer)
        rows = []
        for number in range(random.choice((1, 1, 3, 20))):
            key = None if random.random() < without_key else b"key-%d" % random.randrange(12)
            value = None if random.random() < 0.2 else random.randbytes(random.choice((0, 6, 90)))
            headers: list[tuple[bytes, bytes | None]] = [(b"h", None)] if random.random() < 0.1 else []
            rows.append(Row(random.randrange(-50, 4000), number * random.choice((1, 1, 2)), key, value, headers))
        rows = [replace(row, offset_delta=delta) for delta, row in enumerate(rows)]
        fields = self.fields(producer)
        if producer >= 0:
            fields |= {"base_sequence": self.sequence}
            self.sequence += len(rows)
        batch = v2_batch(rows, codec=random.choice((NONE, NONE, GZIP)), attributes=attributes, **fields)
        self.offset += len(rows) + random.choice((0, 0, 3))
        return batch

    def marker(self, producer: int | None = None) -> bytes:
        producer = self.random.choice(sorted(self.open)) if producer is None else producer
        self.open.discard(producer)
        kind = self.random.choice((0, 1))
        # Since KIP-890 the epoch rises with every transaction.
        if self.random.random() < 0.5:
            self.epochs[producer] = self.epochs.get(producer, 0) + 1
        row = Row(0, 0, b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\5")
        batch = v2_batch([row], attributes=TRANSACTIONAL | CONTROL, **self.fields(producer))
        self.offset += 1
        return batch

    def fields(self, producer: int) -> dict[str, Any]:
        self.clock += self.random.randrange(5000)
        return {
            "base_offset": self.offset,
            "base_timestamp": self.clock,
            "producer_id": producer,
            "producer_epoch": self.epochs.get(producer, 0) if producer >= 0 else -1,
        }


@pytest.mark.parametrize("without_key", [0.0, 0.1], ids=["keyed", "some-without-key"])
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "open-transactions"])
def test_seeded_logs(maintainer: Maintainer, seed: int, tmp_path: Path, is_closed: bool, without_key: float) -> None:
    partitions = [
        Writer(seed * 1000 + number, tmp_path / f"log-{number}" / "t-0").write(
            close_transactions=is_closed, without_key=without_key
        )
        for number in range(LOGS)
    ]
    real = maintainer.clean(partitions, NOW)
    differing = []
    for partition, left in zip(partitions, real, strict=True):
        got = figures(ask(partition).compaction(NOW))
        if got != together(left):
            differing.append(f"{partition}: cleaner {together(left)}, model {got}")
    assert not differing, "\n".join(differing)


def test_cleaned_again(maintainer: Maintainer, seed: int, tmp_path: Path) -> None:
    """Tombstones and markers of logs that were cleaned before: some are due, some are not."""
    partitions = [
        Writer(seed * 1000 + number, tmp_path / f"log-{number}" / "t-0").write(close_transactions=True, without_key=0)
        for number in range(LOGS // 2)
    ]
    maintainer.clean(partitions, NOW, delete_retention_ms=1000)
    cleaned = [maintainer.work / "1" / f"s{number}" / "t-0" for number in range(len(partitions))]
    for now in (NOW + 500, NOW + 2000, NOW + 2 * DAY):
        for partition, left in zip(cleaned, maintainer.clean(cleaned, now), strict=True):
            assert figures(ask(partition).compaction(now)) == together(left), (partition, now)


def test_captures(maintainer: Maintainer, captures: Captures, tmp_path: Path) -> None:
    names = [
        name
        for name in captures.partitions()
        if not name.startswith(("damaged/", "cli")) and "/_" not in name and "nullkey" not in name
    ]
    partitions = []
    for name in names:
        copy = tmp_path / name.replace("/", "-") / "t-0"
        shutil.copytree(captures.root / name, copy, ignore=lambda *_: {"golden"})
        for path in copy.iterdir():
            # Captures are of 1970, where the cleaner's rule about old tombstones begins.
            os.utime(path)
        if len(list(copy.glob("*.log"))) > 1:
            partitions.append(copy)
    assert len(partitions) > 10
    for partition, left in zip(partitions, maintainer.clean(partitions, NOW), strict=True):
        got, expected = figures(ask(partition).compaction(NOW)), together(left)
        assert got[2:] == expected[2:], partition
        assert got.size == pytest.approx(expected.size, rel=LIBRARIES_DIFFER), partition


def aging_log(random: Random, directory: Path) -> Path:
    """Segments, some of them without any timestamp, whose files were changed at other times."""
    directory.mkdir(parents=True)
    offset = 0
    for _ in range(random.randint(1, 6)):
        path = directory / f"{offset:020}.log"
        parts = []
        for _ in range(random.randint(0 if offset else 1, 5)):
            age = random.randrange(10 * DAY)
            if random.random() < 0.2:
                parts.append(message(0, offset, b"k", bytes(50)))
            else:
                parts.append(v2_batch([Row(0, 0, b"k", bytes(50))], base_offset=offset, base_timestamp=NOW - age))
            offset += 1
        offset += 1
        path.write_bytes(b"".join(parts))
        modified = (NOW - random.randrange(10 * DAY)) / 1000
        os.utime(path, (modified, modified))
    return directory


@pytest.mark.parametrize("is_tiered", [False, True])
def test_retention(maintainer: Maintainer, seed: int, tmp_path: Path, *, is_tiered: bool) -> None:
    random = Random(seed)
    logs = [aging_log(random, tmp_path / f"log-{number}" / "t-0") for number in range(30)]
    # Once through a broker, which makes the indexes.
    maintainer.clean(logs, NOW)
    for number, log in enumerate(logs):
        for index in (maintainer.work / "1" / f"s{number}" / "t-0").glob("*index"):
            shutil.copy(index, log)
        (log.parent / ".kafka_cleanshutdown").touch()
        for index in log.glob("*.timeindex"):
            # A broker of 4.4 does not cut the index of the active segment here.
            if index.stat().st_size < 1 << 10 and random.random() < 0.2:
                index.write_bytes(index.read_bytes() + bytes(12 * random.randint(1, 5) + random.choice((0, 5))))
    for days, size in ((1, -1), (3, -1), (7, -1), (-1, 200), (-1, 600), (-1, 0), (2, 700), (0, -1)):
        milliseconds = days * DAY if days >= 0 else -1
        starts = [int(random.choice(sorted(log.glob("*.log"))).stem) for log in logs]
        ends = [int(random.choice(sorted(log.glob("*.log"))).stem) - random.randrange(2) for log in logs]
        remote_ends = ends if is_tiered else None
        real = maintainer.delete(logs, starts, NOW, milliseconds=milliseconds, size=size, remote_ends=remote_ends)
        for log, start, end, left in zip(logs, starts, ends, real, strict=True):
            limits = milliseconds if days >= 0 else None, size if size >= 0 else None
            retention = Retention(*limits, remote_end=end if is_tiered else None)
            (log.parent / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
            given = PartitionLimits(retention, retention if is_tiered else None)
            rows = ask(log).retention(lambda _, limits=given: limits, NOW).rows
            kept = [int(Path(str(row["segment"])).stem) for row in rows if not row["goes"]]
            # A new segment takes the place of all, and follows one of a tiered log that is closed because it is to go.
            here = [one.base_offset for one in left if (log / f"{one.base_offset:020}.log").exists()]
            assert kept == here, (log, retention)


class TieredLog:
    """A random tiered partition: leader epochs, local segments of one batch each, remote ones, some of other epochs."""

    def __init__(self, random: Random, directory: Path) -> None:
        self.random = random
        self.directory = directory
        self.end = random.randint(20, 300)
        starts = sorted(random.choice((0, random.randrange(self.end), random.randrange(self.end))) for _ in range(4))
        numbers = sorted(random.sample(range(2, 9), 4))
        self.epochs = [EpochEntry(*entry) for entry in zip(numbers, starts, strict=True)]
        self.start = random.choice((0, random.randrange(self.end)))
        self.remote = RemoteSegments()
        self.asked: list[str] = []
        self.local = self._write()
        for first in self._cuts(random.randrange(self.end)):
            self._copy(first)

    def _cuts(self, start: int) -> list[int]:
        cuts = {start, *(self.random.randrange(start, self.end) for _ in range(self.random.randrange(7)))}
        return sorted(cuts)

    def _write(self) -> list[RetainedSegment]:
        self.directory.mkdir(parents=True)
        found = []
        bases = self._cuts(self.random.randrange(self.end))
        for base, end in pairwise([*bases, self.end]):
            at = NOW - self.random.randrange(10 * DAY)
            data = v2_batch([Row(0, end - base - 1, b"k", bytes(50))], base_offset=base, base_timestamp=at)
            (self.directory / f"{base:020}.log").write_bytes(data)
            found.append(RetainedSegment(base, len(data), at))
        lines = "".join(f"{entry.epoch} {entry.start_offset}\n" for entry in self.epochs)
        (self.directory / "leader-epoch-checkpoint").write_text(f"0\n{len(self.epochs)}\n{lines}")
        return found

    def _copy(self, first: int) -> None:
        """A remote segment, whose records begin at ``first``."""
        random = self.random
        last = min(first + random.randrange(80), self.end + random.choice((-1, -1, -1, 5)))
        epochs = {
            entry.epoch: max(first, entry.start_offset)
            for number, entry in enumerate(self.epochs)
            if entry.start_offset <= last and all(next_.start_offset > first for next_ in self.epochs[number + 1 :][:1])
        } or {self.epochs[0].epoch: first}
        if random.random() < 0.2:
            epochs = {random.choice((1, 3, 5, 9)) if random.random() < 0.5 else old: at for old, at in epochs.items()}
        if random.random() < 0.1:
            epochs = {epoch: at + random.choice((0, 1)) for epoch, at in epochs.items()}
        if random.random() < 0.1:
            epochs[min(epochs) - 1] = first
        state = random.choice((0, 1, 1, 1, 1, 1, 2, 3))
        segment_id = base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
        newest, size = NOW - random.randrange(10 * DAY), random.randrange(300)
        for number in range(state + 1):
            values = {
                "remoteLogSegmentId": {"id": segment_id, "topicIdPartition": {"name": "t", "id": "i", "partition": 0}},
                "remoteLogSegmentState": number,
                "eventTimestampMs": 0,
                "brokerId": 1,
                "customMetadata": None,
                "startOffset": first,
                "endOffset": last,
                "segmentSizeInBytes": size,
                "maxTimestampMs": newest,
                "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": at} for epoch, at in epochs.items()],
            }
            self.remote.take(min(number, 1), values, 0, 0, 0)
        spoken = "/".join(f"{epoch}={at}" for epoch, at in epochs.items())
        self.asked.append(f"{segment_id}:{first}:{last}:{newest}:{size}:{state}:{spoken}")

    def request(self, whole: tuple[int, int], local: tuple[int, int]) -> ExpiryRequest:
        return ExpiryRequest(self.directory, self.start, whole, local, ";".join(self.asked))

    def expire(self, whole: Retention, local: Retention) -> Expired:
        """As the model has it."""
        known = self.remote.parts().get(("i", 0), RemotePart())
        copied = known.last_copied(loaded_epochs(self.epochs, self.start, self.end), self.end)
        done = expired_segments(
            known,
            self.epochs,
            whole,
            now=NOW,
            log_start_offset=self.start,
            log_end_offset=self.end,
            only_local=only_local_bytes(self.local, copied, MODELLED),
        )
        gone = deleted_segments(
            self.local,
            local._replace(remote_end=copied),
            now=NOW,
            log_start_offset=done.log_start_offset,
            log_end_offset=self.end,
        )
        left = {one.segment_id for one in known.segments} - done.reasons.keys()
        return Expired(left, done.log_start_offset, [one.base_offset for one in self.local[len(gone) :]])


def test_expiration_of_remote_segments(maintainer: Maintainer, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    logs = [TieredLog(random, tmp_path / f"log-{number}" / "t-0") for number in range(EXPIRED_LOGS)]
    limits = [
        ((days * DAY if days >= 0 else -1, size), (local_days * DAY if local_days >= 0 else -1, local_size))
        for days, size, local_days, local_size in (
            random.choice(((5, -1, 2, -1), (-1, 400, -1, 200), (-1, 0, -1, 0), (8, 900, 3, 300), (-1, -1, -1, -1)))
            for _ in logs
        )
    ]
    real = maintainer.expire([log.request(*own) for log, own in zip(logs, limits, strict=True)], NOW)
    goes = 0
    for log, (whole, local), answer in zip(logs, limits, real, strict=True):
        got = log.expire(*(Retention(*(one if one >= 0 else None for one in own)) for own in (whole, local)))
        here = [base for base in answer.local if base in {one.base_offset for one in log.local}]
        assert got == answer._replace(local=here), (log.directory, log.epochs, log.start, log.end, whole, log.asked)
        goes += len(log.remote.listed()) - len(got.remote)
    assert goes > EXPIRED_LOGS / 4
