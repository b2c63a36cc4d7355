"""What the logs of coordinators in log directories tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.kafka.transactionends import Ending
from kdump.verify.transactioncoordinator import coordinators_of, ending_beside
from tests.harness.archives import unpack_cases
from tests.harness.cli_runs import kdump
from tests.harness.decoder_logs import coordinated, write_log

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT = range(5)
T = ("t", 0)


def ending(home: Path, producer_id: int, epoch: int = 0, *others: Path) -> Ending:
    return ending_beside(str(home / "t-0"), *map(str, others))(producer_id, epoch).ending


def test_a_commit_that_was_acknowledged(tmp_path: Path) -> None:
    """A real log directory."""
    logs = unpack_cases("prepared-commit", tmp_path)
    for name in ("orders-0", "orders-1"):
        found = ending_beside(str(logs / name))(2, 1)
        assert (found.ending, found.transactional_id) == (Ending.COMMIT, "tx-orders")
    assert ending_beside(str(logs / "orders-2"))(2, 1).ending is Ending.UNKNOWN
    shown = kdump("verify", str(logs), cwd=tmp_path).stdout.decode()
    assert shown.count("; its coordinator commits it (PrepareCommit)\n") == 2
    assert "nobody can know" not in shown
    (logs / "__transaction_state-0").rename(tmp_path / "__transaction_state-0")
    shown = kdump("verify", str(logs), cwd=tmp_path).stdout.decode()
    words = "nobody can know whether it was committed: of __transaction_state only partition 1 is at hand"
    assert shown.count(words) == 2


def test_the_newest_value_counts(tmp_path: Path) -> None:
    rows = [coordinated("id", status, 7, 0, T) for status in (ONGOING, PREPARE_ABORT)]
    write_log(tmp_path, "__transaction_state-3", rows)
    assert ending(tmp_path, 7) is Ending.ABORT
    # The same process, and the log has grown.
    write_log(tmp_path, "__transaction_state-3", [*rows, coordinated("id", PREPARE_COMMIT, 7, 0, T)])
    assert ending(tmp_path, 7) is Ending.COMMIT
    assert ending(tmp_path, 8) is Ending.UNKNOWN


def test_several_log_directories(tmp_path: Path) -> None:
    """Of two copies of a partition the newer value counts, wherever it lies."""
    one, two = tmp_path / "one", tmp_path / "two"
    for place in (one, two):
        place.mkdir()
    write_log(one, "__transaction_state-3", [coordinated("id", ONGOING, 7, 0, T)])
    rows = [coordinated("id", status, 7, 0, T) for status in (ONGOING, PREPARE_COMMIT)]
    write_log(two, "__transaction_state-3", rows)
    assert ending(one, 7) is Ending.TIMEOUT
    assert ending(one, 7, 0, two) is ending(two, 7, 0, one) is Ending.COMMIT


def test_what_a_broker_put_aside_is_of_another_cluster(tmp_path: Path) -> None:
    aside = f".{'0' * 32}-stray"
    write_log(tmp_path, "__transaction_state-3", [coordinated("new", PREPARE_ABORT, 7, 0, T)])
    write_log(tmp_path, f"__transaction_state-3{aside}", [coordinated("old", PREPARE_COMMIT, 7, 0, T)])
    write_log(tmp_path, f"__transaction_state-4.{'0' * 32}-delete", [coordinated("gone", PREPARE_COMMIT, 8, 0, T)])
    assert ending(tmp_path, 7) is Ending.ABORT
    assert ending_beside(str(tmp_path / f"t-0{aside}"))(7, 0).transactional_id == "old"
    assert ending(tmp_path, 8) is Ending.UNKNOWN


def test_a_log_that_is_damaged_or_cut(tmp_path: Path) -> None:
    """Whoever was committing then may have committed since."""
    rows = [coordinated(name, ONGOING, number, 0, T) for number, name in enumerate("abcd")]
    log = write_log(tmp_path, "__transaction_state-3", rows, per_batch=1)
    whole = log.read_bytes()
    assert ending(tmp_path, 0) is Ending.TIMEOUT
    log.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    found = ending_beside(str(tmp_path / "t-0"))(0, 0)
    assert found.ending is Ending.UNKNOWN
    assert "is damaged" in str(found)
    log.write_bytes(whole)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\n__transaction_state 3 9\n")
    found = ending_beside(str(tmp_path / "t-0"))(0, 0)
    assert found.ending is Ending.UNKNOWN
    assert "ends at offset 4, and reached 9 (replication-offset-checkpoint)" in str(found)


def test_names_of_earlier_producer_ids(tmp_path: Path) -> None:
    """Whoever has the id now comes before whoever had it."""
    rows = [
        coordinated("a", COMPLETE_COMMIT, 8, 0, client_version=2, previous_producer_id=7),
        coordinated("b", EMPTY, 9, 0, previous_producer_id=8),
    ]
    write_log(tmp_path, "__transaction_state-3", rows)
    coordinators = coordinators_of(str(tmp_path / "t-0"))
    assert [coordinators.transactional_id(number) for number in (7, 8, 9, 10)] == ["a", "a", "b", None]
    assert ending(tmp_path, 7, 2**15 - 2) is Ending.COMMIT


@pytest.mark.parametrize("name", ["t", "s3://bucket/t-0"])
def test_nowhere(name: str) -> None:
    assert ending_beside(name)(7, 0).ending is Ending.UNKNOWN
