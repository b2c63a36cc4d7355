"""What a coordinator would write, by the newest value of a transactional id."""

from __future__ import annotations

import pytest

from kdump.kafka.transactionends import (
    CoordinatedTransaction,
    CoordinatorAnswer,
    Ending,
    ending_of,
    may_be_committed,
    not_at_hand,
)

PREPARED = ("PrepareCommit", "PrepareAbort", "Ongoing", "PrepareEpochFence")


def known(
    state: object, epoch: int, *partitions: str, raises: bool = False, producer: int = 7
) -> CoordinatedTransaction:
    return CoordinatedTransaction("id", state, producer, 7, epoch, raises, frozenset(partitions), 0)


def answer(value: CoordinatedTransaction, epoch: int, lost: str | None = None) -> CoordinatorAnswer:
    return ending_of(value, 7, epoch, "t-0", lost)


@pytest.mark.parametrize(
    ("state", "ending"),
    list(zip(PREPARED, (Ending.COMMIT, Ending.ABORT, Ending.TIMEOUT, Ending.TIMEOUT), strict=True)),
)
@pytest.mark.parametrize("epoch", [0, 4, 5])
def test_markers_that_it_has_to_write(state: str, ending: Ending, epoch: int) -> None:
    """Into the partitions that the value names, with an epoch that a broker does not refuse."""
    assert answer(known(state, 5, "t-0", "u-1"), epoch).ending is ending
    assert answer(known(state, 5, "u-1"), epoch).ending is Ending.UNKNOWN
    assert answer(known(state, 5, "t-0", producer=8), epoch).ending is Ending.UNKNOWN
    assert answer(known(state, epoch - 1, "t-0"), epoch).ending is Ending.UNKNOWN
    assert "ends before it began" in str(answer(known(state, epoch - 1, "t-0"), epoch))


@pytest.mark.parametrize(("state", "ending"), [("CompleteCommit", Ending.COMMIT), ("CompleteAbort", Ending.ABORT)])
def test_markers_that_were_written(state: str, ending: Ending) -> None:
    """The epoch tells whether the value is about the transaction: with KIP-890 it is one above that of the batches."""
    assert answer(known(state, 5), 4).ending is Ending.UNKNOWN
    assert answer(known(state, 5, raises=True), 4).ending is ending
    assert str(answer(known(state, 5, raises=True), 4, "the log is damaged")).endswith("and the marker is lost")
    for other in (3, 5, 6):
        found = answer(known(state, 5, raises=True), other)
        assert found.ending is Ending.UNKNOWN
        assert ("ends before it began" in str(found)) is (other > 4)


@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort"])
def test_before_kip_890_all_transactions_have_one_epoch(state: str) -> None:
    """The value may be about the transaction before. What may have been committed is not to be aborted."""
    value = known(state, 5)
    assert answer(value, 5).ending is Ending.UNKNOWN
    assert "had the same epoch" in str(answer(value, 5))
    assert may_be_committed(value, 7, 5, "t-0") is (state == "CompleteCommit")
    assert not may_be_committed(value, 7, 4, "t-0")


def test_the_next_producer_id() -> None:
    """After the last epoch of a producer id the value has the next one."""
    value = known("CompleteCommit", 0, raises=True, producer=8)
    assert answer(value, 2**15 - 2).ending is Ending.COMMIT
    assert answer(value, 5).ending is Ending.UNKNOWN
    assert answer(value._replace(state="Empty"), 2**15 - 2).ending is Ending.UNKNOWN
    assert answer(value._replace(raises_epochs=False), 2**15 - 2).ending is Ending.UNKNOWN


@pytest.mark.parametrize("state", ["Empty", "Dead", 99])
def test_no_transaction(state: object) -> None:
    for epoch in (0, 5, 6):
        assert answer(known(state, 5, "t-0"), epoch).ending is Ending.UNKNOWN


@pytest.mark.parametrize("raises", [True, False])
def test_records_that_may_be_lost(raises: bool) -> None:
    """A decision stands where its epoch tells that it is about this transaction."""
    for state in PREPARED:
        found = answer(known(state, 5, "t-0", raises=raises), 5, "the log is damaged")
        stands = raises and state in ("PrepareCommit", "PrepareAbort")
        assert (found.ending is Ending.UNKNOWN) is not stands
        assert ("the log is damaged" in str(found)) is not stands


def test_words() -> None:
    found = answer(known("PrepareCommit", 5, "t-0"), 5)
    assert (str(found), found.whose) == ("its coordinator commits it (PrepareCommit)", " of transactional id 'id'")
    nobody = not_at_hand(7, 5)
    assert str(nobody).startswith("nobody can know whether it was committed: no partition")
    assert nobody.whose == ""
