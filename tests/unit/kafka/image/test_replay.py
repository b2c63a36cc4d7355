"""The image against Kafka's own classes, at moments of real clusters and on logs that are odd."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kdump.format.batch import HEADER_SIZE, batch_crc
from kdump.kafka.image.faults import Grade
from kdump.kafka.image.image import MetadataDelta
from kdump.kafka.image.metadatalog import MetadataBatch, MetadataLog
from kdump.kafka.image.replay import Replayed, StatePoint, replay
from kdump.kafka.image.snapshotrecords import snapshot_records
from kdump.payloads.internal import DecodedMessage
from kdump.releases import KAFKA_4_3, NEWEST, newer
from kdump.state.metadatacommands import metadata_commands
from kdump.state.metadatarows import StateSelection, image_rows
from kdump.verify.metadatalog import check_metadata_log
from tests.harness.archives import unpack_cases
from tests.harness.examples import sparse
from tests.harness.metadatacases import as_counted, image_records, metadata_case, metadata_cases, metadata_log

CRC_AT = 17
"""Where a batch has its CRC."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("metadata", tmp_path_factory.mktemp("cases"))


def until(case: dict[str, Any]) -> StatePoint:
    return StatePoint(case["offset"], case["time_ms"])


def check(case: dict[str, Any], found: Replayed) -> None:
    provenance = case["provenance"]
    expected = (provenance["last_offset"], provenance["last_epoch"], provenance["last_time_ms"])
    assert found.image.provenance == expected
    if case["records"] is not None:
        assert image_records(found.image) == as_counted(case["records"])


@pytest.mark.parametrize("case", metadata_cases(), ids=lambda case: str(case["id"]))
def test_image(root: Path, case: dict[str, Any]) -> None:
    log = metadata_log(root, case["dir"])
    check(case, replay(log, until(case), release=KAFKA_4_3))
    if log.start_offset == 0 and "controller" not in case:
        check(case, replay(log, until(case), alone=True, release=KAFKA_4_3))


DAMAGED = [case for case in metadata_cases() if "controller" in case]


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: str(case["id"]))
def test_grades(root: Path, case: dict[str, Any]) -> None:
    """What the image refuses is what MetadataLoader reports, and where a controller stops there is a reason."""
    found = replay(metadata_log(root, case["dir"]), StatePoint(), release=KAFKA_4_3)
    in_log = [fault for fault in found.faults if fault.snapshot is None]
    if case["snapshot_exception"] is None:
        refused = [fault for fault in found.faults if fault.grade is Grade.IMAGE]
        assert len(refused) == len(case["faults"])
        for fault, message in zip(refused, case["faults"], strict=True):
            assert message.endswith(f" {fault.offset}")
    assert bool(found.refused) == (case["snapshot_exception"] is not None)
    error = found.unreadable
    if case["reader"]:
        assert error is not None
        assert error.offset == case["reader"][0] + 1
    serious = [fault for fault in in_log if fault.grade in (Grade.IMAGE, Grade.CONTROLLER)]
    stops = bool(serious or found.refused or found.lost_before or (error is not None and not error.is_cut))
    assert stops == (case["controller"] != "active controller")


@pytest.mark.parametrize("case", metadata_cases()[::6], ids=lambda case: str(case["id"]))
def test_a_watcher_changes_nothing(root: Path, case: dict[str, Any]) -> None:
    """Without one, a batch that only changes a partition is applied without a delta."""
    log, point = metadata_log(root, case["dir"]), until(case)
    found, watched = replay(log, point, alone=True), replay(log, point, Offsets(), alone=True)
    assert found.image == watched.image
    assert [*found.faults] == [*watched.faults]
    assert found.end_offset == watched.end_offset


@pytest.mark.parametrize("name", ["bitflip", "cut-middle", "cut-tail", "zero-tail"])
def test_a_node_cuts(root: Path, name: str) -> None:
    found = replay(metadata_log(root, f"damaged/{name}"), StatePoint())
    assert found.unreadable is not None
    assert found.unreadable.is_cut
    # The node wrote a batch of its own after the cut.
    assert found.unreadable.position < metadata_case(f"damaged/{name}")["log_bytes"]


@pytest.mark.parametrize("name", ["removed-EndTransaction", "open-transaction"])
def test_open_transaction(root: Path, name: str) -> None:
    found = replay(metadata_log(root, f"damaged/{name}"), StatePoint())
    assert found.open_transaction is not None
    assert [fault.grade for fault in found.faults] == [Grade.ODD]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gap-5", "offset 15 follows offset 13"),
        ("dup-batch", "offset 36 follows offset 36"),
        ("epoch-lower", "the leader epoch falls from 1 to 0"),
        ("swapped", "offset 70 follows offset 57"),
    ],
)
def test_odd(root: Path, name: str, message: str) -> None:
    faults = replay(metadata_log(root, f"damaged/{name}"), StatePoint()).faults
    assert message in [fault.message for fault in faults if fault.grade is Grade.ODD]


def test_a_snapshot_after_the_end_of_the_log(root: Path) -> None:
    found = replay(metadata_log(root, "damaged/snapshot-beyond"), StatePoint())
    assert found.beyond_log is not None
    assert found.beyond_log.end_offset == 158
    assert replay(metadata_log(root, "damaged/snapshot-sound"), StatePoint()).beyond_log is None


class Offsets:
    """A watcher that remembers offsets."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def record(self, batch: MetadataBatch, offset: int, message: DecodedMessage, before: MetadataDelta) -> None:
        self.seen.append(offset)

    def refused(self) -> None:
        self.seen.pop()

    def election(self, batch: MetadataBatch, offset: int, kind: int, values: dict[str, Any]) -> None:
        self.seen.append(offset)


@pytest.mark.parametrize(
    ("segments", "damage", "expected"),
    [
        ((0,), None, (None, 129)),
        ((0,), "cut", (89, 89)),
        ((0,), "bit", (89, 129)),
        ((0, 129, 277), "bit", (89, 312)),
        ((), None, (89, 89)),
    ],
)
def test_the_newest_snapshot_is_damaged(
    root: Path, tmp_path: Path, segments: tuple[int, ...], damage: str | None, expected: tuple[int | None, int]
) -> None:
    """The log alone where it can be read up to the older snapshot, else that snapshot and what is after it."""
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(root / "cluster" / "n1" / "__cluster_metadata-0", directory)
    newest = directory / f"{248:020}-{2:010}.checkpoint"
    newest.write_bytes(newest.read_bytes()[:80])
    for log in directory.glob("*.log"):
        if int(log.stem) not in segments:
            log.unlink()
    if damage is not None:
        log = directory / f"{0:020}.log"
        data = bytearray(log.read_bytes())
        data[3000] ^= 1
        log.write_bytes(data if damage == "bit" else data[:3000])
    found = replay(MetadataLog.of(str(directory)), StatePoint())
    assert [one.end_offset for one, _ in found.refused] == [248]
    snapshot = None if found.snapshot is None else found.snapshot.end_offset
    assert (snapshot, found.end_offset) == expected


def test_only_what_is_after_the_snapshot_is_read(root: Path) -> None:
    watch = Offsets()
    replay(metadata_log(root, "cluster/n1"), StatePoint(), watch)
    assert watch.seen == list(range(248, 312))


@pytest.mark.parametrize("seed", sparse(range(40), fast=8))
def test_no_damage_stops_the_reading(root: Path, tmp_path: Path, seed: int) -> None:
    """Bytes are changed under a right CRC: whatever a record says then, it is a fault or it counts."""
    random = Random(seed)
    folder = tmp_path / "__cluster_metadata-0"
    shutil.copytree(root / "cluster" / "n1" / folder.name, folder)
    for path in [*folder.glob("*.log"), *folder.glob("*.checkpoint")]:
        data = bytearray(path.read_bytes())
        starts = [0]
        while starts[-1] < len(data):
            starts.append(starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12], "big"))
        for start, end in random.choices(list(pairwise(starts)), k=2):
            data[random.randrange(start + HEADER_SIZE, end)] = random.randrange(256)
            data[start + CRC_AT : start + CRC_AT + 4] = batch_crc(memoryview(data), start, end).to_bytes(4, "big")
        path.write_bytes(data)
    found = replay(MetadataLog.of(str(folder)), StatePoint())
    assert sum(image_records(found.image).values()) == sum(1 for _ in snapshot_records(found.image))
    list(image_rows(found.image, StateSelection()))
    list(metadata_commands(found.image, StateSelection()))
    list(check_metadata_log(str(folder)))


@pytest.mark.parametrize(("offset", "leader"), [(171, 101), (196, 101), (197, 103), (255, 103), (311, 103)])
def test_the_leader_is_known_after_a_snapshot(root: Path, offset: int, leader: int) -> None:
    """A snapshot does not hold the election: it stands in the log before it, or in quorum-state."""
    assert replay(metadata_log(root, "cluster/n1"), StatePoint(offset)).quorum.leader == leader


def test_the_leader_by_quorum_state(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "cluster" / "n1" / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    log = MetadataLog.of(str(tmp_path / "__cluster_metadata-0"))
    (tmp_path / "__cluster_metadata-0" / "leader-epoch-checkpoint").unlink()
    assert replay(log, StatePoint()).quorum.leader == 103
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text('{"leaderId":103,"leaderEpoch":3}')
    assert replay(log, StatePoint()).quorum.leader is None, "it leads in another epoch"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("unknown-type", "record type 99"),
        ("unknown-version", "version 9 of TopicRecord"),
        ("feature-unknown", "level 1 of no.such.feature"),
        ("feature-mv-high", "metadata.version 99"),
    ],
)
def test_what_a_newer_kafka_wrote_is_no_error(root: Path, name: str, what: str) -> None:
    log = metadata_log(root, f"damaged/{name}")
    told = [fault for fault in replay(log, StatePoint()).faults if fault.grade is Grade.NEWER]
    assert [fault.message for fault in told] == [newer(what)]
    strict = replay(log, StatePoint(), release=NEWEST)
    assert not [fault for fault in strict.faults if fault.grade is Grade.NEWER]
    assert strict.unreadable or strict.faults
    sound = replay(metadata_log(root, "damaged/sound"), StatePoint())
    assert not [fault for fault in sound.faults if fault.grade is Grade.NEWER]
