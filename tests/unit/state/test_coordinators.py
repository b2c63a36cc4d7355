"""Groups and transactions with the logs of their partitions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import KdumpError
from kdump.inputs import resolve
from kdump.kafka.image.names import TopicNames
from kdump.state.coordinators import abort_command, coordinator_rows
from kdump.stats.reach import PartitionReach, offset_rows
from kdump.verify.partitionentries import PartitionEntries
from tests.harness.batches import CONTROL, NOW, TRANSACTIONAL, v2_batch
from tests.harness.cli_runs import kdump
from tests.harness.decoder_logs import commit, coordinated, transaction, write_log
from tests.harness.fast_reference import Row

COMMIT = Row(0, 0, b"\0\0\0\1", bytes(6))


def batch(
    offset: int, *, at: int, producer: int = -1, marker: bool = False, keys: tuple[bytes, ...] = (b"k",)
) -> bytes:
    rows = [COMMIT] if marker else [Row(n, n, key, b"v%d" % (offset + n)) for n, key in enumerate(keys)]
    attributes = (TRANSACTIONAL if producer >= 0 else 0) | (CONTROL if marker else 0)
    return v2_batch(
        rows, attributes=attributes, base_offset=offset, base_timestamp=NOW + at, producer_id=producer, producer_epoch=0
    )


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """``t-0``: offsets 5 to 9, of which producer 7 left 8 open; two groups; a transactional id without a state."""
    (tmp_path / "t-0").mkdir()
    data = batch(5, at=0, keys=(b"a", b"b")) + batch(7, at=1000, producer=3) + batch(8, at=2000, producer=7)
    data += batch(9, at=3000, producer=3, marker=True)
    (tmp_path / "t-0" / f"{5:020}.log").write_bytes(data)
    write_log(
        tmp_path, "__consumer_offsets-4", [commit("in", "t", 0, 6), commit("out", "t", 0, 4), commit("x", "u", 0, 1)]
    )
    write_log(tmp_path, "__transaction_state-0", [transaction("id")])
    return tmp_path


def raised(error: KdumpError) -> None:
    raise error


def rows(logs: Path, at: int | None, count: int | None = None) -> dict[str, Collection[dict[str, Any]]]:
    entries = PartitionEntries([resolve(str(logs))], on_error=raised)
    return dict(coordinator_rows(entries, at, TopicNames([]), count, note=lambda note: None, on_error=raised))


def test_lag(logs: Path) -> None:
    names = ("group", "offset", "logStartOffset", "logEndOffset", "lag", "isOutOfRange")
    found = [tuple(row[name] for name in names) for row in rows(logs, None)["committedOffset"]]
    assert found == [("in", 6, 5, 10, 4, False), ("out", 4, 5, 10, 6, True), ("x", 1, None, None, None, None)]


def test_the_end_of_the_log_at_a_time(logs: Path) -> None:
    for at, end in ((-1, 5), (999, 7), (1000, 8), (2500, 9), (9999, 10)):
        reach = rows(logs, NOW + at)
        assert all(row["logEndOffset"] in (end, None) for row in reach["committedOffset"]), at


def test_a_hanging_transaction(logs: Path) -> None:
    (found,) = rows(logs, NOW + 5000, count=1)["openTransaction"]
    assert (found["producerId"], found["firstOffset"], found["startTimestamp"]) == (7, 8, NOW + 2000)
    assert (found["durationMs"], found["isKnown"]) == (3000, False)
    command = 'kafka-transactions.sh --bootstrap-server "$SERVER" abort --topic t --partition 0 --start-offset 8'
    assert found["abort"] == command
    (unknown,) = rows(logs, NOW + 5000)["openTransaction"]
    assert (unknown["isKnown"], unknown["abort"]) == (None, None), "49 other coordinators may know it"
    assert {row["producerId"] for row in rows(logs, NOW + 2500)["openTransaction"]} == {3, 7}


@pytest.mark.parametrize(("status", "is_committed"), [(4, True), (5, False)], ids=["CompleteCommit", "CompleteAbort"])
def test_what_its_coordinator_has_committed_is_not_to_be_aborted(logs: Path, status: int, is_committed: bool) -> None:
    """The marker is lost, and with it what it committed would be."""
    write_log(logs, "__transaction_state-0", [coordinated("id", status, 7, 0)])
    (found,) = rows(logs, NOW + 5000, count=1)["openTransaction"]
    assert (found["isKnown"], found["abort"] is None) == (False, is_committed)


def test_a_directory_gives_a_shell_no_command() -> None:
    for topic in ("a;touch x", "a$(id)", "a\nid", "it's"):
        command = abort_command(PartitionReach(topic, 0, "", 0, 9), 8)
        assert shlex.split(command)[4:6] == ["--topic", topic]


@pytest.mark.parametrize(
    ("at", "offset", "timestamp"), [(-5, 5, 0), (0, 5, 0), (1, 6, 1), (2, 7, 1000), (2001, 9, 3000), (3001, 10, None)]
)
def test_offsets_for(logs: Path, at: int, offset: int, timestamp: int | None) -> None:
    (row,) = offset_rows(PartitionEntries([resolve(str(logs))], on_error=raised), NOW + at, raised)
    assert (row["offset"], row["timestamp"]) == (offset, None if timestamp is None else NOW + timestamp)


def test_reset_csv(logs: Path) -> None:
    run = kdump("state", "--at", "now", "--output", "reset-csv", ".", cwd=logs)
    assert run.stdout.decode() == "in,t,0,6\nout,t,0,4\nx,u,0,1\n"
    run = kdump("stats", "--offsets-for", str(NOW + 2), "--output", "reset-csv", ".", cwd=logs)
    assert run.stdout.decode() == "t,0,7\n"


def test_values_by_key(logs: Path) -> None:
    def values(*words: str) -> dict[str, str]:
        run = kdump("state", *words, "--output", "jsonl", "t-0", cwd=logs)
        return {row["key"]: row["value"] for row in map(json.loads, run.stdout.splitlines())}

    assert values("--at", "now") == {"a": "v5", "b": "v6", "k": "v7"}, "what is open does not count"
    assert values("--at", str(NOW + 2500)) == {"a": "v5", "b": "v6"}
    assert values("--at", str(NOW)) == {"a": "v5"}
    assert values("--at", "now", "--key-decoder", "hex") == {"61": "v5", "62": "v6", "6b": "v7"}
    assert b'"key"' not in kdump("state", "--at", "now", "--output", "jsonl", ".", cwd=logs).stdout
