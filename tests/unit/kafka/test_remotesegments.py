"""What is in remote storage, by real logs of __remote_log_metadata, and what follows from it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from kdump.codes import Codes
from kdump.format.batch import parse_header
from kdump.format.record import read_records
from kdump.kafka.remotesegments import (
    metadata_directories,
    metadata_partitions,
    read_remote_segments,
    remote_ranges,
)
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.start import start
from kdump.log.source import MemorySource
from kdump.log.walk import Walk
from kdump.verify.run import findings
from kdump.verify.startups import StartOptions, task_of
from tests.harness.archives import unpack_cases
from tests.harness.batches import v2_batch
from tests.harness.cli_runs import kdump
from tests.harness.fast_reference import Row


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a broker with Kafka's LocalTieredStorage, killed and clean, and the clean bucket."""
    return unpack_cases("tier", tmp_path_factory.mktemp("tier"))


@pytest.fixture
def logs(tier: Path, tmp_path: Path) -> Path:
    shutil.copytree(tier / "clean" / "logs", tmp_path / "logs")
    return tmp_path / "logs"


def lost(directory: Path) -> list[tuple[int | None, int | None]]:
    return [
        (found.first_offset, found.last_offset)
        for found in findings(str(directory))
        if found.code is Codes.ALREADY_LOST
    ]


def test_ranges(logs: Path) -> None:
    mixed = remote_ranges(str(logs / "mixed-0"))
    assert [tuple(one) for one in mixed] == [(0, 388), (389, 799), (800, 1181), (1182, 1622)]
    assert remote_ranges(str(logs / "plain-0")) == []
    (logs / "mixed-0" / "partition.metadata").unlink()
    assert remote_ranges(str(logs / "mixed-0")) == [], "the topic id is not known"


def test_the_metadata_says_how_many_partitions_there_are(logs: Path) -> None:
    """One of two partitions is not all, though its number is 0; without the metadata of the cluster nobody knows."""
    assert metadata_partitions(str(logs)) == 2
    folders = metadata_directories(str(logs))
    assert read_remote_segments(folders, partitions=2).is_complete
    assert not read_remote_segments(folders[:1], partitions=2).is_complete
    assert read_remote_segments(folders[:1]).is_complete
    assert not read_remote_segments(folders[1:]).is_complete
    shutil.rmtree(logs / "__cluster_metadata-0")
    assert metadata_partitions(str(logs)) is None


def test_copies_of_the_metadata_count_once(tier: Path, logs: Path) -> None:
    """Those of two brokers, of which one has less: a broker that reads an event twice refuses it."""
    folders = metadata_directories(str(logs))
    once = read_remote_segments(folders)
    older = metadata_directories(str(tier / "killed9" / "logs"))
    for both in ([*folders, *older], [*older, *folders]):
        twice = read_remote_segments(both)
        assert (twice.listed(), twice.refused, twice.is_complete) == (once.listed(), 0, True)


def test_a_compacted_topic(logs: Path, tmp_path: Path) -> None:
    """As KIP-1266 has it: a record with a key states all of a segment, and a tombstone takes it away."""
    log = next((logs / "__remote_log_metadata-0").glob("*.log"))
    walk = Walk(MemorySource(str(log), log.read_bytes()))
    batches = [chunk.data[a:b] for chunk in walk.chunks() for a, b in chunk.entries()]
    values = [bytes(one.value or b"") for batch in batches for one in read_records(parse_header(batch), batch)]
    first, second = [value for value in values if value[1] == 0][:2]
    rows = [Row(0, 0, b"a", first), Row(0, 4, b"b", second), Row(0, 9, b"a", None), Row(0, 10, b"c", None)]
    folder = tmp_path / "__remote_log_metadata-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(v2_batch(rows))
    found = read_remote_segments([str(folder)], partitions=1)
    (alone,) = read_remote_segments([str(folder)], at_offset=0).listed()
    (kept,) = found.listed()
    assert (found.deleted, found.is_complete) == ({alone.segment_id}, True)
    assert kept.segment_id not in found.deleted
    assert len(read_remote_segments([str(folder)], at_offset=8).listed()) == 2


def test_what_is_lost_before_the_log(logs: Path) -> None:
    assert lost(logs / "mixed-0") == []
    # The same files of a topic that is not tiered.
    other = logs / "other-0"
    shutil.copytree(logs / "mixed-0", other)
    (other / "partition.metadata").write_text("version: 0\ntopic_id: Mz9MvD4GQBWf0fc1V7Wm0Q\n")
    assert lost(other) == [(0, 1181)]
    # The events of the second and the third segment are gone: nothing says that they are there.
    for log in logs.glob("__remote_log_metadata-*/*.log"):
        data = bytearray(log.read_bytes())
        for position in _positions(bytes(data), "RliLvqv5Q26JTgZaJhfzyw", "U8RGfmoSSDSFq5FSLPsOFA"):
            data[position] ^= 1
        log.write_bytes(data)
    assert lost(logs / "mixed-0") == [(389, 1181)]


def _positions(data: bytes, *ids: str) -> list[int]:
    from base64 import urlsafe_b64decode

    found = []
    for name in ids:
        position = data.find(wanted := urlsafe_b64decode(name + "=="))
        while position >= 0:
            found.append(position)
            position = data.find(wanted, position + 1)
    return found


@pytest.mark.parametrize("state", ["clean", "killed9"])
def test_snapshots_after_a_start(tier: Path, state: str) -> None:
    """The real broker kept the first local snapshot, but not where all remote segments are gone."""
    listed = json.loads((tier / "results.json").read_text())[state]
    options = StartOptions(now=1_790_000_000_000)
    for name in ("mixed-0", "short-0", "txn-0", "plain-0"):
        path = tier / state / "logs" / name
        directory = Directory.on_disk(str(path))
        assert start(directory, task_of(str(path), options).settings).failure is None
        kept = {f"{name}/{file}" for file in directory.names() if file.endswith(".snapshot")}
        real = {file for file in listed["after_start"] if file.startswith(name) and file.endswith(".snapshot")}
        assert kept == real, name


def test_a_start_builds_indexes_as_the_topic_says(tier: Path, tmp_path: Path) -> None:
    """index.interval.bytes of the topic is 2048: the index is the one of the real broker. An option comes first."""
    logs = shutil.copytree(tier / "killed9" / "logs", tmp_path / "logs")
    name = "00000000000000001182.index"
    written = (logs / "mixed-0" / name).read_bytes()
    (logs / "mixed-0" / name).unlink()

    def built(*words: str) -> str:
        done = kdump("verify", "--startup", "--output", "jsonl", *words, str(logs / "mixed-0"), cwd=tmp_path)
        (file,) = (one for one in json.loads(done.stdout)["files"] if one["name"] == name)
        return str(file["sha256"])

    assert built() == hashlib.sha256(written).hexdigest()
    assert built("--index-interval-bytes", "4096") != built()
    shutil.rmtree(logs / "__cluster_metadata-0")
    assert built("--index-interval-bytes", "2048") == hashlib.sha256(written).hexdigest()
    assert built("--index-interval-bytes", "4096") == built(), "the default"


def test_without_remote_storage_the_first_snapshot_goes(logs: Path) -> None:
    settings = task_of(str(logs / "mixed-0"), StartOptions()).settings
    assert settings.remote_by == "__remote_log_metadata"
    directory = Directory.on_disk(str(logs / "mixed-0"))
    start(directory, settings._replace(remote_by=None))
    assert "00000000000000001182.snapshot" not in directory.names()


def test_snapshots_of_a_bucket_are_those_of_the_next_offset(tier: Path, tmp_path: Path) -> None:
    for folder in (tier / "clean" / "bucket").iterdir():
        codes = {found.code for found in findings(str(folder))}
        assert not codes & {Codes.SNAPSHOT_ENTRY, Codes.SEQUENCE_DUPLICATE, Codes.START_STOPS}, folder
    # Under the names of a broker the same files are wrong.
    folder = next((tier / "clean" / "bucket").glob("txn-0*"))
    renamed = tmp_path / "txn-0"
    renamed.mkdir()
    for file in folder.iterdir():
        shutil.copy(file, renamed / f"{file.name[:20]}{file.suffix}")
    codes = {found.code for found in findings(str(renamed))}
    assert {Codes.SNAPSHOT_ENTRY, Codes.SEQUENCE_DUPLICATE} <= codes


def test_the_cache_of_remote_indexes_is_no_partition(logs: Path) -> None:
    (logs / "remote-log-index-cache").mkdir(exist_ok=True)
    assert not [found for found in findings(str(logs)) if found.code is Codes.DIRECTORY_NAME]
    (logs / "other").mkdir()
    assert [found for found in findings(str(logs)) if found.code is Codes.DIRECTORY_NAME]
