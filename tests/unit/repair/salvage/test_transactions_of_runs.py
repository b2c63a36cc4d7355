"""Salvage changes no record from committed to aborted or back, whichever marker is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kdump.inputs import input_of
from kdump.reading.transactionreader import TransactionReader
from kdump.repair.plan.plan import RepairMode
from kdump.repair.run import Repair, Repaired, RepairOptions
from kdump.repair.salvage import resolve
from kdump.repair.salvage.pieces import JudgedBefore, SalvageOptions, TouchedTransaction, TxnOutcome, TxnPolicy
from tests.harness.batches import ABORT, COMMIT, TRANSACTIONAL, marker, plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, kdump
from tests.harness.examples import sparse
from tests.harness.transaction_logs import Partition, Producer, View, random_partition, reader_view


def salvaged(directory: Path, output: Path, policy: TxnPolicy = TxnPolicy.LEAVE) -> Repaired:
    """A salvaged copy."""

    options = RepairOptions(
        RepairMode.SALVAGE, output=str(output), salvaging=SalvageOptions(transactions=policy), decides_transactions=True
    )
    with Repair(options, on_error=pytest.fail) as job:
        (repaired,) = job.of(input_of(directory))
    return repaired


def transactions(repaired: Repaired) -> list[TouchedTransaction]:
    return [one for segment in repaired.plan.segments if segment.salvaged for one in segment.salvaged.transactions]


def batch(offset: int, producer_id: int) -> bytes:
    """One record of a transaction."""
    header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    return v2_batch(plain_rows(1), base_offset=offset, **header)


def destroy(directory: Path, segment: int, position: int, size: int, filler: bytes = b"\0") -> None:
    log = directory / f"{segment:020}.log"
    data = log.read_bytes()
    log.write_bytes(data[:position] + (filler * size)[:size] + data[position + size :])


def changed(directory: Path, output: Path, before: View) -> tuple[Repaired, set[int]]:
    """Salvage; gives the offsets of records that readers see differently and of which the plan does not say so."""
    repaired = salvaged(directory, output)
    after = reader_view(output / directory.name)
    undecided = [one for one in transactions(repaired) if one.outcome.is_undecided]
    wrong = {
        offset
        for offset, (producer_id, state) in after.items()
        if state != before[offset][1]
        and not any(
            one.producer_id == producer_id and one.first_offset <= offset <= (one.ends_at or offset)
            for one in undecided
        )
    }
    return repaired, wrong


def shown_wrong(directory: Path, before: View) -> list[int]:
    """Offsets of records whose txnState is another outcome than readers saw before; open says that nobody knows."""
    logs = sorted(directory.glob("*.log"))
    reader = TransactionReader()
    wrong = []
    for number, log in enumerate(logs):
        transactions = reader.of(str(log))
        end = int(logs[number + 1].stem) if number + 1 < len(logs) else 1 << 60
        for offset, (producer_id, state) in before.items():
            if int(log.stem) <= offset < end and transactions.outcome(producer_id, offset) not in (state, "open"):
                wrong.append(offset)
    return wrong


def flip(index: bytes, random: Random) -> bytes:
    at = random.randrange(len(index))
    return index[:at] + bytes([index[at] ^ 1 << random.randrange(8)]) + index[at + 1 :]


EVIDENCE_DAMAGE: list[Callable[[bytes, Random], bytes | None]] = [
    lambda index, random: None,
    lambda index, random: b"",
    lambda index, random: index[: random.randrange(34)],
    lambda index, random: index[:-1],
    lambda index, random: bytes(len(index)),
    flip,
]


@pytest.mark.parametrize("seed", sparse(range(24), fast=8))
def test_one_marker_is_lost(tmp_path: Path, seed: int) -> None:
    """Anything else is whole."""
    random = Random(seed)
    partition = random_partition(random, random.randint(10, 90))
    markers = [batch for batch in partition.batches if batch.marker is not None]
    if not markers:
        return
    directory = tmp_path / "t-0"
    partition.write(directory)
    before = reader_view(directory)
    lost = random.choice(markers)
    destroy(directory, lost.segment, lost.position, lost.size, random.choice((b"\0", b"\x55")))
    assert not shown_wrong(directory, before)
    repaired, wrong = changed(directory, tmp_path / "out", before)
    assert not wrong
    index = partition.aborted.get(lost.segment, b"")
    is_closed = lost.segment != partition.base or partition.offset in partition.snapshots
    if index and (is_closed or int.from_bytes(index[-16:-8]) > lost.offset):
        # Of what kind the marker was is known then; whether it was this transaction's need not be.
        undecided = {one.outcome for one in transactions(repaired) if one.outcome.is_undecided}
        assert undecided <= {TxnOutcome.UNKNOWN, TxnOutcome.INFERRED_OPEN, TxnOutcome.INFERRED_ABORTED}


LOST = 9
"""Offset of the marker that the tests destroy."""


def interleaved(first: int, second: int, *, roll: bool = False) -> Partition:
    """As in the drill: producers 1 and 2 of one epoch, whose transactions overlap.

    Producer 1 has the offsets 2..5 and 13..16, with markers ``first`` at 9 and ``second`` at 19; producer 2 has 6..8,
    committed at 12, and 20..21, aborted at 22. A transaction of producer 3 is aborted at 1. ``roll``: another segment
    begins at 13.
    """
    partition = Partition(producers={number: Producer(number) for number in (1, 2, 3, 9)})
    partition.data(3, 1)
    partition.end(3, ABORT)
    partition.data(1, 4)
    partition.data(2, 3)
    partition.end(1, first)
    partition.data(9, 2, transactional=False)
    partition.end(2, COMMIT)
    if roll:
        partition.roll()
    partition.data(1, 4)
    partition.data(-1, 2, transactional=False)
    partition.end(1, second)
    partition.data(2, 2)
    partition.end(2, ABORT)
    return partition


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


def lose(partition: Partition, directory: Path, *offsets: int, with_indexes: bool = True) -> View:
    """Write the partition and destroy the batches that begin at ``offsets``; gives what readers saw before.

    ``with_indexes``: the .txnindex files stay.
    """
    partition.write(directory)
    before = reader_view(directory)
    for index in [] if with_indexes else directory.glob("*.txnindex"):
        index.unlink()
    for batch in partition.batches:
        if batch.offset in offsets:
            destroy(directory, batch.segment, batch.position, batch.size)
    return before


def outcomes(repaired: Repaired) -> dict[tuple[int, int], str]:
    return {(one.producer_id, one.first_offset): one.outcome.value for one in transactions(repaired)}


@pytest.mark.parametrize("roll", [False, True], ids=["one segment", "the next marker in another segment"])
@pytest.mark.parametrize("kinds", [(COMMIT, ABORT), (ABORT, COMMIT), (ABORT, ABORT), (COMMIT, COMMIT)])
def test_the_txnindex_proves_the_lost_marker(
    directory: Path, tmp_path: Path, kinds: tuple[int, int], roll: bool
) -> None:
    """Producers, as transactions before KIP-890, go on in the same epoch."""
    partition = interleaved(*kinds, roll=roll)
    before = lose(partition, directory, LOST)
    reader = TransactionReader()
    states = {offset: reader.of(str(directory / f"{0:020}.log")).outcome(1, offset) for offset in (2, 13)}
    assert states == {offset: before[offset][1] for offset in (2, 13)}
    repaired, wrong = changed(directory, tmp_path / "out", before)
    assert not wrong
    assert not repaired.leaves_damage
    assert reader_view(tmp_path / "out" / "t-0") == before
    first = "aborted" if kinds[0] == ABORT else "committed"
    assert outcomes(repaired) == {(1, 2): first, (2, 6): "committed"}
    indexes = {base: (tmp_path / "out" / "t-0" / f"{base:020}.txnindex").read_bytes() for base in partition.aborted}
    assert indexes == partition.aborted


@pytest.mark.parametrize("kinds", [(COMMIT, ABORT), (ABORT, COMMIT)])
def test_the_first_batch_of_the_next_transaction_is_lost_too(
    directory: Path, tmp_path: Path, kinds: tuple[int, int]
) -> None:
    partition = interleaved(*kinds)
    partition.data(1, 1)
    before = lose(partition, directory, LOST, 13)
    repaired, wrong = changed(directory, tmp_path / "out", before)
    assert not wrong
    assert outcomes(repaired)[1, 2] == ("aborted" if kinds[0] == ABORT else "committed")


@pytest.mark.parametrize("damage", EVIDENCE_DAMAGE[:-1], ids=["gone", "empty", "one entry cut", "cut", "zeros"])
@pytest.mark.parametrize("kinds", [(COMMIT, ABORT), (ABORT, COMMIT)])
def test_without_a_sound_txnindex_nothing_is_inferred(
    directory: Path, tmp_path: Path, kinds: tuple[int, int], damage: Callable[[bytes, Random], bytes | None]
) -> None:
    before = lose(interleaved(*kinds), directory, LOST)
    index = directory / f"{0:020}.txnindex"
    new = damage(index.read_bytes(), Random(1))
    index.unlink()
    if new is not None:
        index.write_bytes(new)
    words = ("--resync", "--output", "csv", "--records", "--fields", "txnState", "t-0", "--producer-id", "1", "-n", "1")
    assert kdump("dump", *words, cwd=tmp_path).stdout == b"txnState\nopen\n"
    run = kdump("repair", "--salvage", "t-0", cwd=tmp_path)
    assert run.returncode == DAMAGE
    inferred = "inferred aborted" if kinds[1] == ABORT else "inferred committed"
    assert f"producer 1 from offset 2 on touches the gap at 9: {inferred}, it is left as it is" in run.stdout.decode()
    run = kdump("repair", "--salvage", "--in-place", "t-0", cwd=tmp_path)
    assert (run.returncode, b"--txn decides" in run.stderr) == (DAMAGE, True)
    run = kdump("repair", "--salvage", "-o", "left", "t-0", cwd=tmp_path)
    assert run.returncode == DAMAGE
    assert b"readers take the marker at 19 for its end, which nothing proves: --txn decides" in run.stdout
    policy = "commit" if kinds[0] == COMMIT else "abort"
    run = kdump("repair", "--salvage", "--txn", policy, "-o", "out", "t-0", cwd=tmp_path)
    assert run.returncode == CLEAN
    after = reader_view(tmp_path / "out" / "t-0")
    assert {offset: after[offset] for offset in after if after[offset][0] == 1} == {
        offset: before[offset] for offset in before if before[offset][0] == 1
    }


def test_a_snapshot_tells_that_it_ended_not_how(directory: Path, tmp_path: Path) -> None:
    partition = interleaved(COMMIT, ABORT, roll=True)
    lose(partition, directory, LOST, with_indexes=False)
    assert outcomes(salvaged(directory, tmp_path / "out"))[1, 2] == "inferred-ended"


@pytest.mark.parametrize("lost", [6, 10], ids=["of a transaction", "of an idempotent producer"])
def test_a_gap_full_of_records_has_no_room_for_a_marker(directory: Path, tmp_path: Path, lost: int) -> None:
    """The sequence numbers tell; no .txnindex is needed."""
    partition = interleaved(COMMIT, COMMIT)
    partition.data(2, 1)
    partition.data(9, 1, transactional=False)
    before = lose(partition, directory, lost, with_indexes=False)
    repaired, wrong = changed(directory, tmp_path / "out", before)
    assert not wrong
    assert not [one for one in transactions(repaired) if one.outcome.is_undecided and one.producer_id == 1]
    assert not repaired.plan.guessed


def test_the_header_of_a_damaged_batch_tells_that_it_is_no_marker(directory: Path, tmp_path: Path) -> None:
    partition = interleaved(COMMIT, COMMIT)
    before = lose(partition, directory, with_indexes=False)
    log = directory / f"{0:020}.log"
    batch = next(one for one in partition.batches if one.offset == 17)
    destroy(directory, 0, batch.position + batch.size - 5, 5)
    assert log.stat().st_size == len(partition.logs[0])
    repaired, wrong = changed(directory, tmp_path / "out", before)
    assert not wrong
    assert outcomes(repaired) == {(1, 13): "committed"}


def test_a_transaction_that_is_left_is_judged_at_its_first_gap(tmp_path: Path) -> None:
    """Each gap of a later segment named, and judged, all transactions again that were left open before."""
    count, segments = 30, 20
    directory = tmp_path / "orders-0"
    directory.mkdir()
    opened = b"".join(batch(number, number) for number in range(count))
    (directory / f"{0:020}.log").write_bytes(opened + bytes(20) + v2_batch(plain_rows(1), base_offset=count + 2))
    bases = [count + 3 + 4 * number for number in range(segments)]
    for base in bases:
        log = batch(base, base) + bytes(20) + v2_batch(plain_rows(1), base_offset=base + 3)
        (directory / f"{base:020}.log").write_bytes(log)
    touched = transactions(salvaged(directory, tmp_path / "left"))
    assert [(one.producer_id, one.first_offset, one.gap_offset) for one in touched] == [
        *((number, number, count) for number in range(count)),
        *((base, base, base + 1) for base in bases),
    ]
    # There is room for two markers in each gap. What finds none in one is made in the next.
    ended = transactions(salvaged(directory, tmp_path / "ended", TxnPolicy.ABORT))
    made = [one.producer_id for one in ended if one.done is TxnPolicy.ABORT]
    assert len(set(made)) == len(made) == 2 + 2 * segments


@pytest.mark.parametrize("seed", sparse(range(16), fast=8))
def test_later_gaps_tell_nothing_new(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is the same where each gap of a later segment is judged for all transactions anew."""
    random = Random(seed)
    partition = random_partition(random, random.randint(30, 120))
    directory = tmp_path / "t-0"
    partition.write(directory)
    for lost in random.sample(partition.batches, min(len(partition.batches), random.randint(2, 12))):
        destroy(directory, lost.segment, lost.position, lost.size)
    found = salvaged(directory, tmp_path / "found")
    with monkeypatch.context() as patched:
        patched.setattr(resolve, "JudgedBefore", lambda is_left, until: JudgedBefore(is_left, 0))
        again = salvaged(directory, tmp_path / "again")
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name / "t-0").iterdir()} for name in ("found", "again")
    ]
    assert files[0] == files[1]
    first = dict[tuple[int, int], TouchedTransaction]()
    for one in transactions(again):
        first.setdefault((one.producer_id, one.first_offset), one)
    named = [(one.producer_id, one.first_offset) for one in transactions(found)]
    assert set(named) == set(first)
    assert len(transactions(found)) <= len(transactions(again))
    assert set(transactions(found)) >= set(first.values())


@pytest.mark.parametrize("way", [("-o", "out"), ("--in-place",)], ids=["copy", "in place"])
@pytest.mark.parametrize(
    ("policy", "status"), [("drop", DAMAGE), ("leave", CLEAN), ("abort", CLEAN)], ids=["drop", "leave", "abort"]
)
def test_readers_get_a_guess_that_was_not_asked_for(
    tmp_path: Path, way: tuple[str, ...], policy: str, status: int
) -> None:
    """The transaction begins in a segment before that of the gap, so its batches cannot be dropped there."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(batch(0, 1))
    plain = [v2_batch(plain_rows(1), base_offset=offset) for offset in (1, 4, 6)]
    (directory / f"{1:020}.log").write_bytes(plain[0] + bytes(20) + plain[1] + marker(5, 1, COMMIT) + plain[2])
    done = kdump("repair", "--salvage", "--txn", policy, *way, "orders-0", cwd=tmp_path)
    assert done.returncode == status, done.stderr
