"""Which partitions are served, and up to where."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kdump
from kdump import testing
from kdump.codes import Codes, KdumpError
from kdump.inputs import inputs_of
from kdump.serve.run import ServeOptions, Service
from kdump.serve.view import View
from tests.harness.kafkaclient import KafkaClient, consume

TIMES = [1_000, 2_000, 3_000, 2_500, 5_000]


def write(directory: Path, count: int = 5) -> Path:
    records = [{"key": f"k{n}", "value": f"v{n}", "timestamp": TIMES[n % 5]} for n in range(count)]
    testing.write_segment(directory, records, records_per_batch=1)
    return directory


def view(*paths: Path, until_time: int | None = None) -> tuple[View, list[KdumpError]]:
    errors: list[KdumpError] = []
    inputs = inputs_of(paths, errors.append)
    return View(inputs, on_error=errors.append, on_damage=lambda *_: None, until={}, until_time=until_time), errors


def test_partitions_of_a_log_directory(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-2", "other-0", "old-1.0123456789abcdef0123456789abcdef-delete"):
        write(tmp_path / name)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=3\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 2 3\n")
    with kdump.serving(tmp_path) as address, KafkaClient(address) as client:
        found = client.ask("Metadata", 12, topics=None)
        assert found["clusterId"] == "A" * 22
        leaders = {
            topic["name"]: [(one["partitionIndex"], one["leaderId"]) for one in topic["partitions"]]
            for topic in found["topics"]
        }
        assert leaders == {"orders": [(0, 0), (1, -1), (2, 0)], "other": [(0, 0)]}
        assert [record.offset for record in consume(client, "orders", 2, 3, 5, committed=False)] == [3, 4]
        by_id = client.ask("Metadata", 12, topics=[{"topicId": found["topics"][0]["topicId"], "name": None}])
        assert by_id["topics"][0]["name"] == "orders"
        unknown = client.ask("Metadata", 12, topics=[{"topicId": "B" * 21 + "A", "name": None}])
        assert unknown["topics"][0]["errorCode"] == 100


def test_the_same_partition_twice(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a" / "orders-0"), write(tmp_path / "b" / "orders-0", 3)
    found, errors = view(first, second)
    partition = found.partition("orders", 0)
    assert partition is not None
    assert partition.end_offset == 5
    assert [error.path for error in errors] == [str(second)]


def test_what_is_no_partition(tmp_path: Path) -> None:
    write(tmp_path / "orders")
    _, errors = view(tmp_path / "orders", tmp_path / "missing")
    assert [error.code for error in errors] == [Codes.NO_SEGMENTS, Codes.MISSING]
    with pytest.raises(KdumpError), kdump.serving(tmp_path / "missing"):
        pass


def test_the_view_ends_before_an_offset(tmp_path: Path) -> None:
    write(tmp_path / "orders-0")
    with kdump.serving(tmp_path / "orders-0", until={("orders", 0): 3}) as address, KafkaClient(address) as client:
        assert [record.offset for record in consume(client, "orders", 0, 0, 3, committed=False)] == [0, 1, 2]
        asked = {"topic": "orders", "partitions": [{"partition": 0, "fetchOffset": 4, "partitionMaxBytes": 100}]}
        answer = client.ask("Fetch", 12, maxWaitMs=0, maxBytes=100, topics=[asked])
        assert answer["responses"][0]["partitions"][0]["errorCode"] == 1


@pytest.mark.parametrize(("time", "end"), [(1_000, 0), (2_001, 2), (3_000, 2), (3_001, 4), (9_000, 5)])
def test_the_view_ends_before_a_time(tmp_path: Path, time: int, end: int) -> None:
    found, _ = view(write(tmp_path / "orders-0"), until_time=time)
    partition = found.partition("orders", 0)
    assert partition is not None
    assert (partition.end_offset, partition.last_stable_offset) == (end, end)


def test_a_transaction_that_was_open_then(tmp_path: Path) -> None:
    records = [{"value": "v", "timestamp": time} for time in (1_000, 2_000)]
    path = testing.write_segment(
        tmp_path / "t-0", records, producer=(7, 0), transactional="commit", records_per_batch=1
    )
    found, _ = view(tmp_path / "t-0")
    partition = found.partition("t", 0)
    assert partition is not None
    assert (partition.end_offset, partition.last_stable_offset) == (3, 3)
    found, _ = view(path, until_time=2_000)
    partition = found.partition("t", 0)
    assert partition is not None
    assert (partition.end_offset, partition.last_stable_offset) == (1, 0)


def test_damage_is_told_once_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    write(path)
    log = next(path.glob("*.log"))
    data = bytearray(log.read_bytes())
    size = len(data) // 5
    data[size * 2 + 65] ^= 1
    data[size * 4 + 65] ^= 1
    log.write_bytes(data)
    before = {file: file.read_bytes() for file in path.iterdir()}
    lines: list[str] = []
    report = tmp_path / "damage.jsonl"
    inputs = inputs_of([path], lambda error: None)
    service = Service(inputs, ServeOptions(report=str(report)), lambda error: None, lines.append)
    partition = service.view.partition("orders", 0)
    assert partition is not None
    assert partition.end_offset == 5
    first = partition.fetch(0, 1 << 20, committed=False, at_least_one=True)
    second = partition.fetch(first.end_offset, 1 << 20, committed=False, at_least_one=True)
    last = partition.fetch(second.end_offset, 1 << 20, committed=False, at_least_one=True)
    # What is missing at the end is an empty batch.
    assert [(one.first_offset, one.end_offset) for one in (first, second, last)] == [(0, 2), (3, 4), (4, 5)]
    service.close()
    assert [line.partition(" KD")[2][:3] for line in lines] == ["108", "108"]
    assert report.read_text().count('{"type":"finding"') == 2
    assert {file: file.read_bytes() for file in path.iterdir()} == before


def test_bytes_that_change_are_never_sent(tmp_path: Path) -> None:
    path = write(tmp_path / "orders-0")
    found, _ = view(path)
    partition = found.partition("orders", 0)
    assert partition is not None
    assert partition.fetch(0, 1 << 20, committed=False, at_least_one=True).end_offset == 5
    log = next(path.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    with pytest.raises(KdumpError, match="has changed"):
        partition.fetch(0, 1 << 20, committed=False, at_least_one=True)
    shutil.rmtree(path)
    with pytest.raises(KdumpError):
        partition.fetch(0, 1 << 20, committed=False, at_least_one=True)
