"""Ordered checks: offsets, epochs and magics from batch to batch and from segment to segment."""

from __future__ import annotations

import numpy as np
import pytest

from kdump.codes import Codes, Severity
from kdump.verify.ordered import OrderedChecks
from kdump.verify.table import cleaned, row_dtype
from tests.harness.batches import DELETE_HORIZON, message, plain_rows, v2_batch, wrapper
from tests.harness.checked import both_ways, check, codes


def batch(base: int, count: int = 5, **header: int) -> bytes:
    return v2_batch(plain_rows(count), base_offset=base, **header)


def log(*bases: int, **header: int) -> bytes:
    return b"".join(batch(base, **header) for base in bases)


def test_offsets_that_go_backwards() -> None:
    found = both_ways(log(0, 5, 15, 10, 20))
    assert codes(found) == [Codes.OFFSETS_BACKWARDS, Codes.OFFSET_GAP]
    assert found[0].position == len(log(0, 5, 15))
    assert found[0].severity is Severity.ERROR


def test_offsets_that_overlap() -> None:
    (found,) = both_ways(log(0, 5, 7, 12))
    assert (found.code, found.position) == (Codes.OFFSETS_OVERLAP, len(log(0, 5)))


@pytest.mark.parametrize("bases", [(0, 5, 5, 10), (0, 5, 10, 0, 15)])
def test_a_batch_that_is_there_twice(bases: tuple[int, ...]) -> None:
    (found,) = both_ways(log(*bases))
    again = next(number for number, base in enumerate(bases) if base in bases[:number])
    first = bases.index(bases[again])
    assert (found.code, found.position) == (Codes.DUPLICATE_BATCH, len(log(*bases[:again])))
    assert f"also at {len(log(*bases[:first]))}" in found.message


def test_equal_offsets_with_other_bytes_are_no_duplicate() -> None:
    (found,) = both_ways(
        log(0, 5) + batch(5, max_timestamp=1_700_000_000_004, base_timestamp=1_700_000_000_000, attributes=8)
    )
    assert found.code is Codes.OFFSETS_OVERLAP


@pytest.mark.parametrize(("base_offset", "bad"), [(3, 0), (0, 2**31), (0, 2**40)])
def test_offsets_that_the_name_cannot_hold(base_offset: int, bad: int) -> None:
    (found,) = both_ways(log(bad), base_offsets=[base_offset])
    assert (found.code, found.position) == (Codes.OFFSET_RANGE, 0)
    assert both_ways(log(2**31 - 5)[:0] + log(5), base_offsets=[5]) == []


def test_a_flipped_base_offset_out_of_range_does_not_condemn_the_others() -> None:
    (found,) = both_ways(log(0, 5, 10 + 2**41, 15, 20))
    assert (found.code, found.position) == (Codes.OFFSET_RANGE, len(log(0, 5)))


def test_a_gap_on_a_log_that_is_not_compacted() -> None:
    (found,) = both_ways(log(0, 5, 15, 20))
    assert (found.code, found.severity, found.position) == (Codes.OFFSET_GAP, Severity.WARNING, len(log(0, 5)))
    assert (found.first_offset, found.last_offset, found.continue_at) == (10, 14, 15)


def test_a_gap_before_the_first_batch() -> None:
    (found,) = both_ways(log(9), base_offsets=[4])
    assert (found.code, found.first_offset, found.last_offset) == (Codes.OFFSET_GAP, 4, 8)


@pytest.mark.parametrize("sign", [{"last_offset_delta": 9}, {"attributes": DELETE_HORIZON}])
@pytest.mark.parametrize("sign_first", [True, False])
def test_gaps_of_a_compacted_log_are_counted(sign: dict[str, int], sign_first: bool) -> None:
    cleaned = [batch(20 if sign_first else 60, **sign)]
    plain = [log(0, 10) if not sign_first else log(40), log(45, 50)]
    data = b"".join([*cleaned, *plain] if sign_first else [*plain, *cleaned])
    (found,) = both_ways(data)
    assert (found.code, found.severity) == (Codes.OFFSET_GAP, Severity.INFO)


def test_many_gaps_look_compacted() -> None:
    (found,) = both_ways(log(0, 10, 20, 30))
    assert found.severity is Severity.INFO
    assert "15 offsets are missing in 3 gaps" in found.message


def test_the_topic_may_be_known_to_be_compacted_or_not() -> None:
    for is_compacted, severity in ((True, Severity.INFO), (False, Severity.WARNING)):
        found = check(log(0, 10, 20, 30, 35), ordered=OrderedChecks(is_compacted=is_compacted))
        assert {one.severity for one in found} == {severity}


def test_damage_in_between_is_no_gap() -> None:
    damaged = bytearray(log(0, 5, 10, 15))
    damaged[len(log(0, 5)) + 70] ^= 1
    assert codes(both_ways(bytes(damaged))) == [Codes.BATCH_CRC]
    damaged[len(log(0)) + 10] = 0xFF
    assert set(codes(both_ways(bytes(damaged)))) <= {Codes.BATCH_CRC, Codes.LENGTH_TOO_LARGE}


def test_segments_follow_one_another() -> None:
    assert both_ways(log(0, 5), log(10, 15), base_offsets=[0, 10]) == []
    (found,) = both_ways(log(0, 5), log(20), base_offsets=[0, 20])
    assert (found.code, found.severity) == (Codes.SEGMENT_MISSING, Severity.WARNING)
    assert (found.first_offset, found.last_offset, found.continue_at) == (10, 19, 20)
    (found,) = both_ways(log(0, 5), log(20, last_offset_delta=8), base_offsets=[0, 20])
    assert found.code is Codes.SEGMENT_GAP
    found_twice = both_ways(log(0, 5), log(5), base_offsets=[0, 5])
    assert codes(found_twice) == [Codes.SEGMENT_OVERLAP, Codes.DUPLICATE_BATCH]


def listing(**arguments: object) -> OrderedChecks:
    return OrderedChecks(lists_gaps=True, **arguments)  # type: ignore[arg-type]


def test_each_gap_of_a_compacted_log_is_listed() -> None:
    data = log(0, 10, 20, 30) + batch(35, last_offset_delta=8)
    found = check(data, log(50), base_offsets=[0, 46], ordered=listing())
    assert codes(found) == [Codes.OFFSET_GAP] * 4 + [Codes.SEGMENT_GAP, Codes.OFFSET_GAP]
    assert {finding.severity for finding in found} == {Severity.INFO}
    ranges = [(finding.first_offset, finding.last_offset) for finding in found]
    assert ranges == [(5, 9), (15, 19), (25, 29), (None, None), (44, 45), (46, 49)]
    assert found[3].message == "4 offsets have no record inside of batches, as compaction leaves them"
    for finding in found:
        assert "lost" not in str(finding)
        assert finding.continue_at is None
        if finding.first_offset is not None:
            assert f"{finding.first_offset}..{finding.last_offset}" in str(finding)


def test_listed_gaps_and_their_summary_come_to_the_same() -> None:
    data = log(*range(0, 10 * 1200, 10))
    (summary,) = check(data, ordered=OrderedChecks(is_compacted=False))
    listed = check(data, ordered=listing(is_compacted=False))
    assert summary.message == f"{5 * len(listed):,} offsets are missing in {len(listed):,} gaps"
    assert {finding.severity for finding in listed} == {Severity.WARNING}
    missing = [number for finding in listed for number in range(finding.first_offset or 0, finding.continue_at or 0)]
    assert missing == [offset for offset in range(10 * 1199) if offset % 10 >= 5]


def test_gaps_of_a_log_that_is_not_compacted_are_listed_anyway() -> None:
    for data in (log(0, 10, 15), log(0, 5), log(0, 5) + batch(10)[:-3]):
        assert check(data, ordered=listing()) == check(data, ordered=OrderedChecks())


def test_a_segment_that_ends_in_a_hole_is_not_followed_by_a_gap() -> None:
    found = both_ways(log(0, 5) + batch(10)[:-3], log(15), base_offsets=[0, 15])
    assert codes(found) == [Codes.TRUNCATED]


def test_leader_epochs() -> None:
    data = [batch(5 * number, partition_leader_epoch=epoch) for number, epoch in enumerate((3, 4, 2, 4))]
    (found,) = both_ways(b"".join(data))
    assert (found.code, found.position) == (Codes.LEADER_EPOCH_BACKWARDS, len(data[0]) * 2)


def test_formats() -> None:
    assert both_ways(message(0, 0, b"", b"") + message(1, 1, b"", b"") + batch(2)) == []
    (found,) = both_ways(batch(0) + message(1, 5, b"", b""))
    assert (found.code, found.severity) == (Codes.MAGIC_BACKWARDS, Severity.WARNING)


def test_a_thinned_wrapper_explains_a_gap_to_repair_only() -> None:
    """One predicate says that the log cleaner was there; verify asks it of batches of magic 2."""

    def wrapped(first: int, *offsets: int) -> bytes:
        inner = [message(1, offset, b"key", b"value") for offset in offsets]
        return wrapper(1, first + offsets[-1], inner)

    (found,) = both_ways(wrapped(0, 0, 1, 2) + wrapped(3, 0, 2) + wrapped(9, 0, 1))
    assert (found.code, found.severity) == (Codes.OFFSET_GAP, Severity.WARNING)
    rows = np.zeros(2, row_dtype())
    rows["is_valid"], rows["magic"], rows["record_count"] = True, (1, 2), 2
    rows["last_offset"] = 4
    assert cleaned(rows).tolist() == [False, True]
    assert cleaned(rows, wrappers=True).tolist() == [True, True]
