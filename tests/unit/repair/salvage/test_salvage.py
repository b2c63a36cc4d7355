"""Salvage of made logs: what is kept, what is restored, corrected, held and dropped."""

from __future__ import annotations

import struct

import pytest

from kdump.format.checkpoint import EpochEntry
from kdump.format.index import OffsetEntry, TimeEntry
from kdump.repair.salvage import gapreader
from kdump.repair.salvage.draft import _merged
from kdump.repair.salvage.pieces import Dropped, Lost, PieceOrigin, SalvageOptions
from kdump.repair.salvage.placeholders import MOST_EPOCHS
from kdump.repair.salvage.salvage import salvage
from kdump.repair.salvage.siblingcontext import SiblingContext
from kdump.verify.reach import KnownOffsets, PartitionEvidence
from tests.harness.batches import GZIP, NOW, compress, entries, message, plain_rows, v2_batch, wrapper
from tests.harness.fast_reference import Row
from tests.harness.memory import MemorySource
from tests.harness.salvaged import PATH, Mended, base_offset, mend, put

SPAN = 5


def log(count: int = 8, *, first: int = 0, **header: int) -> list[bytes]:
    """``count`` batches of five records whose offsets follow on one another."""
    return [
        v2_batch(plain_rows(SPAN, 10 + number), base_offset=first + SPAN * number, **header) for number in range(count)
    ]


def joined(batches: list[bytes]) -> bytes:
    return b"".join(batches)


def restored(result: Mended) -> list[tuple[str, int, int]]:
    return [(one.field, one.old, one.new) for one in result.log.restored]


def test_a_clean_log_is_one_piece() -> None:
    data = joined(log())
    result = mend(data)
    assert result.data == data
    assert result.origins == [PieceOrigin.KEPT]
    assert (result.log.pieces[0].batches, result.log.records) == (8, 40)
    assert (result.log.dropped, result.log.lost, result.log.restored, result.log.transactions) == ((), (), (), ())


def test_an_empty_log_stays_empty() -> None:
    assert mend(b"").log.pieces == ()
    assert mend(b"\0" * 100).log.size == 0


def test_good_batches_after_a_hole_are_kept_and_the_hole_is_held() -> None:
    batches = log()
    position = len(joined(batches[:3]))
    result = mend(put(joined(batches), position + 8, b"\xff" * 40))
    assert result.spans == [("kept", 0, 14), ("held", 15, 19), ("kept", 20, 39)]
    assert [batch for batch in result.batches if len(batch) > 61] == batches[:3] + batches[4:]
    assert result.log.lost == (Lost(15, 19, is_held=True),)
    (dropped,) = result.log.dropped
    assert (dropped.position, dropped.length, dropped.batches) == (position, len(batches[3]), 0)


@pytest.mark.parametrize("kept", [(1, 2, 3), (0, 1, 3), (3,)])
def test_offsets_that_the_cleaner_took_before_the_next_segment_are_not_lost(kept: tuple[int, ...]) -> None:
    batches = log()
    data = joined([batches[number] for number in kept])
    around = SiblingContext(base_offset=0, next_base=30)
    for deep in (True, False):
        result = mend(data, around, deep=deep)
        assert (result.data, result.log.lost) == (data, ())
        assert mend(data + b"\x55" * 40, around, deep=deep).log.lost == (Lost(20, 29, is_held=True),)


def test_offsets_of_batches_cut_off_where_one_ends_are_lost() -> None:
    for data in (joined(log(4)), b"\x55" * 90 + joined(log(4)[1:])):
        assert mend(data, SiblingContext(base_offset=0, next_base=30)).log.lost[-1] == Lost(20, 29, is_held=True)


def test_holding_is_optional() -> None:
    batches = log()
    result = mend(put(joined(batches), len(batches[0]) + 70, b"\xff" * 5), hold_offsets=False)
    assert result.spans == [("kept", 0, 4), ("kept", 10, 39)]
    assert result.log.lost == (Lost(5, 9, is_held=False),)


@pytest.mark.parametrize(
    ("at", "new", "field"),
    [
        (0, base_offset(2**40), "baseOffset"),
        (0, base_offset(16), "baseOffset"),
        (0, base_offset(-1), "baseOffset"),
        (8, struct.pack(">i", 20), "length"),
        (8, struct.pack(">i", 2**30), "length"),
        (12, struct.pack(">i", 2**20), "partitionLeaderEpoch"),
        (16, b"\x03", "magic"),
        (16, b"\x82", "magic"),
        (16, b"\x01", "magic"),
    ],
)
@pytest.mark.parametrize("number", [0, 3, 7])
def test_fields_under_no_crc_are_restored(number: int, at: int, new: bytes, field: str) -> None:
    if field == "partitionLeaderEpoch" and number in (0, 7):
        pytest.skip("at the ends nothing fixes the epoch")
    if number == 7 and new == base_offset(2**40):
        pytest.skip("after the last batch every offset may be right")
    batches = log()
    data = joined(batches)
    result = mend(put(data, len(joined(batches[:number])) + at, new))
    assert result.data == data
    assert [name for name, _, _ in restored(result)] == [field]


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("bit", [40, 63])
def test_a_flipped_bit_of_the_first_base_offset(bit: int, deep: bool) -> None:
    """With the sign bit 0 becomes the least int64."""
    data = joined(log())
    wrong = bytes(1 << bit % 8 if place == 7 - bit // 8 else 0 for place in range(8))
    assert mend(put(data, 0, wrong), deep=deep).data == data


def test_epochs_by_the_checkpoint() -> None:
    batches = log(4, partition_leader_epoch=2) + log(4, first=20, partition_leader_epoch=5)
    data = joined(batches)
    damaged = put(data, len(joined(batches[:4])) + 12, struct.pack(">i", 77))
    assert mend(damaged).data == damaged
    around = SiblingContext(base_offset=0, epochs=[EpochEntry(2, 0), EpochEntry(5, 20)])
    assert mend(damaged, around).data == data


@pytest.mark.parametrize("count", [10, MOST_EPOCHS + 500])
def test_lost_offsets_get_the_newest_epochs_of_the_checkpoint(count: int) -> None:
    """A file without a checksum, which somebody wrote, does not become millions of batches."""
    around = SiblingContext(
        base_offset=0, epochs=[EpochEntry(number, 5 * number) for number in range(count)], next_base=5 * count
    )
    held = mend(joined(log(partition_leader_epoch=0, count=1)), around).log.pieces[1:]
    assert [piece.first_offset for piece in held] == [
        5,
        *(entry.start_offset for entry in around.epochs[2:][-MOST_EPOCHS:]),
    ]
    assert {piece.origin for piece in held} == {PieceOrigin.HELD}
    assert [piece.last_offset for piece in held] == [*(piece.first_offset - 1 for piece in held[1:]), 5 * count - 1]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(("wrong", "is_set_back"), [(5 | 1 << 25, True), (5 | 3 << 25, False), (5 | 1 << 4, False)])
def test_the_last_epoch_by_the_checkpoint(count: int, wrong: int, is_set_back: bool) -> None:
    """Nothing after it says that it is too high: one flipped bit has to explain it, and no new leader can."""
    batches = log(count, partition_leader_epoch=5)
    data = joined(batches)
    damaged = put(data, len(joined(batches[:-1])) + 12, struct.pack(">i", wrong))
    around = SiblingContext(base_offset=0, epochs=[EpochEntry(2, 0), EpochEntry(5, 0)])
    assert mend(damaged, around).data == (data if is_set_back else damaged)


def test_the_last_batch_jumps_ahead_by_a_flipped_bit() -> None:
    batches = log()
    data = joined(batches)
    damaged = put(data, len(joined(batches[:7])), base_offset(35 ^ 1 << 25))
    assert mend(damaged).data == data
    # A gap that no flipped bit explains is believed.
    damaged = put(data, len(joined(batches[:7])), base_offset(1_000_000))
    assert mend(damaged).data == damaged


# (the first offset of the batch with most records, what damage makes of it)
JUMPS = [(100, 100 ^ 1 << bit) for bit in (3, 16, 25, 40)]
NO_FLIPS = [(100, 100 ^ 3 << 16), (100, 100 ^ 3 << 3)]


def heavy(before: int, at: int) -> list[bytes]:
    """``before`` batches, one with 40 records, bytes of nothing, two batches with a record each."""
    after = (v2_batch(plain_rows(1), base_offset=at + 40 + SPAN + number) for number in range(2))
    return [*log(before, first=at - before * SPAN), v2_batch(plain_rows(40), base_offset=at), b"\x55" * 90, *after]


@pytest.mark.parametrize(("right", "wrong"), JUMPS)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_batch_too_far_ahead_does_not_cost_lighter_ones_after_it(before: int, right: int, wrong: int) -> None:
    batches = heavy(before, right)
    place = len(joined(batches[:before]))
    damaged = put(joined(batches), place, base_offset(wrong))
    result = mend(damaged, SiblingContext(base_offset=right - before * SPAN))
    assert set(result.batches) > {*batches[: before + 1], *batches[before + 2 :]}
    assert [(name, new) for name, _, new in restored(result)] == [("baseOffset", right)]


@pytest.mark.parametrize(("right", "wrong"), NO_FLIPS)
def test_what_no_flipped_bit_explains_takes_more_neighbours(right: int, wrong: int) -> None:
    for before, is_told in ((1, False), (5, True)):
        batches = heavy(before, right)
        place = len(joined(batches[:before]))
        damaged = put(joined(batches), place, base_offset(wrong))
        result = mend(damaged, SiblingContext(base_offset=right - before * SPAN))
        assert (result.batches.count(batches[before]) == 1) is is_told
        assert bool(restored(result)) is is_told


def test_batches_of_a_log_with_gaps_are_not_moved_beside_each_other() -> None:
    """Both have their own offsets: the one that is out of order is the lighter one."""
    batches = [*log(2), *log(2, first=100), v2_batch(plain_rows(40), base_offset=200), b"\x55" * 90]
    batches += [v2_batch(plain_rows(1), base_offset=170)]
    result = mend(joined(batches))
    assert batches[4] in result.batches
    assert not restored(result)


@pytest.mark.parametrize("wrong", [7, 2**33])
def test_the_index_knows_a_base_offset(wrong: int) -> None:
    """On a log with gaps the neighbours leave more than one value."""
    batches = [v2_batch(plain_rows(SPAN), base_offset=100 * number, last_offset_delta=9) for number in range(6)]
    data = joined(batches)
    position = len(joined(batches[:3]))
    damaged = put(data, position, base_offset(wrong))
    assert mend(damaged).data != data
    # Another entry shows that the index names last offsets.
    index = [OffsetEntry(109, len(batches[0])), OffsetEntry(309, position)]
    around = SiblingContext(base_offset=0, index=index)
    result = mend(damaged, around)
    assert result.data == data
    assert result.log.restored[0].reason == "the .index has it at this position"


def test_one_flipped_bit_of_an_offset_between_gaps() -> None:
    batches = [v2_batch(plain_rows(SPAN), base_offset=100 * number, last_offset_delta=9) for number in range(6)]
    data = joined(batches)
    assert mend(put(data, len(joined(batches[:3])), base_offset(300 ^ 1 << 20))).data == data


def test_sequences_know_a_base_offset() -> None:
    """All offsets between two batches of the producer are its own, and one of three batches is gone."""
    batches = [
        v2_batch(
            plain_rows(SPAN), base_offset=SPAN * number, producer_id=7, producer_epoch=0, base_sequence=SPAN * number
        )
        for number in range(6)
    ]
    data = joined(batches[:2]) + b"\x55" * 90 + put(batches[3], 0, base_offset(2)) + joined(batches[4:])
    result = mend(data)
    assert batches[3] in result.batches
    assert result.log.restored[0].reason == "the producer's sequence numbers account for every offset here"


def test_batches_out_of_order_are_put_in_order() -> None:
    batches = log()
    swapped = [*batches[:2], batches[3], batches[2], *batches[4:]]
    result = mend(joined(swapped))
    assert result.data == joined(batches)
    assert PieceOrigin.MOVED in result.origins
    assert not result.log.dropped
    assert mend(joined(batches[::-1])).data == joined(batches)


def test_a_batch_that_is_there_twice_is_there_once() -> None:
    batches = log()
    result = mend(joined([*batches[:6], batches[2], *batches[6:]]))
    assert result.data == joined(batches)
    (dropped,) = result.log.dropped
    assert (dropped.batches, dropped.records, dropped.reason) == (1, SPAN, "the same batch is there twice")
    assert mend(joined(batches * 2)).data == joined(batches)
    assert not mend(joined(batches * 2)).log.lost


def test_a_batch_inside_a_good_batch_is_payload() -> None:
    inner = v2_batch(plain_rows(2), base_offset=5, last_offset_delta=4)
    outer = v2_batch([Row(0, 0, b"k", inner * 3)], base_offset=0, last_offset_delta=4)
    batches = [outer, *log(3, first=5)]
    assert mend(joined(batches)).data == joined(batches)


def test_a_batch_that_a_length_swallowed_is_found() -> None:
    batches = log()
    both = batches[3] + batches[4]
    merged = v2_batch(body=both[61:], base_offset=15, last_offset_delta=4, record_count=5)
    result = mend(joined([*batches[:3], merged, *batches[5:]]))
    assert batches[4] in result.batches
    assert result.spans == [("kept", 0, 14), ("held", 15, 19), ("kept", 20, 39)]


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("place", [17, 21, 22, 26, 40, 50, 60, 70, -1])
def test_flipped_bits_are_corrected(codec: int, place: int) -> None:
    batches = [v2_batch(plain_rows(20, 30), base_offset=20 * number, codec=codec) for number in range(4)]
    data = joined(batches)
    start, end = len(batches[0]), len(joined(batches[:2]))
    position = start + place if place >= 0 else end - 1
    damaged = put(data, position, bytes([data[position] ^ 0x10]))
    result = mend(damaged, correct=True)
    assert result.data == data
    assert result.origins == [PieceOrigin.KEPT, PieceOrigin.CORRECTED, PieceOrigin.KEPT]
    assert restored(result) == [("bit 4", damaged[position], data[position])]
    assert mend(damaged).spans == [("kept", 0, 19), ("held", 20, 39), ("kept", 40, 79)]


def test_so_many_entries_are_corrected_as_the_size_of_the_log_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = log(8)
    data = joined(batches)
    damaged = data
    for number in range(1, 6):
        last = len(joined(batches[: number + 1])) - 1
        damaged = put(damaged, last, bytes([damaged[last] ^ 1]))
    assert mend(damaged, correct=True).data == data
    monkeypatch.setattr(gapreader, "_MOST_ENTRIES", 2)
    monkeypatch.setattr(gapreader, "_BYTES_PER_ENTRY", len(data))
    assert mend(damaged, correct=True).log.corrected == 3 * SPAN


def test_two_flipped_bits_are_not_corrected() -> None:
    batches = log()
    damaged = put(joined(batches), len(batches[0]) + 80, b"\x00\x00\x00")
    assert PieceOrigin.CORRECTED not in mend(damaged, correct=True).origins


def test_shallow_keeps_what_deep_drops() -> None:
    batches = log()
    bad = v2_batch(body=b"\xff" * 50, base_offset=15, last_offset_delta=4, record_count=5)
    data = joined([*batches[:3], bad, *batches[4:]])
    log_, _ = mend(data).log, None
    assert [one.batches for one in log_.dropped] == [1]
    shallow = salvage(MemorySource(data), SiblingContext(base_offset=0), SalvageOptions(deep=False))
    assert shallow.size == len(data)


class TestLegacy:
    def messages(self, magic: int) -> list[bytes]:
        return [message(magic, number, b"key", b"value %d" % number, timestamp=NOW + number) for number in range(9)]

    def wrappers(self, magic: int) -> list[bytes]:
        made = []
        for number in range(6):
            inner = [
                message(magic, (0 if magic else 4 * number) + place, b"k", b"%d" % number, timestamp=NOW)
                for place in range(4)
            ]
            made.append(wrapper(magic, 4 * number + 3, inner))
        return made

    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("kind", ["messages", "wrappers"])
    def test_offsets_are_restored(self, magic: int, kind: str) -> None:
        batches = getattr(self, kind)(magic)
        data = joined(batches)
        for number in (0, 3):
            # Offset 0 of a wrapper of magic 1 means that the offsets inside are absolute.
            for wrong in (2**40, -7) if magic and kind == "wrappers" else (2**40, 0, -7):
                damaged = put(data, len(joined(batches[:number])), base_offset(wrong))
                assert mend(damaged).data == data, (number, wrong)

    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("named", [0, 3])
    def test_offsets_of_wrappers_are_restored_without_deep(self, magic: int, named: int) -> None:
        """How many offsets a wrapper has is in it only, and the .index names the first or the last of them."""
        batches = self.wrappers(magic)
        data = joined(batches)
        starts = [len(joined(batches[:number])) for number in range(6)]
        index = [OffsetEntry(4 * number + named, starts[number]) for number in range(1, 6)]
        around = SiblingContext(base_offset=0, index=index)
        for number in (1, 3, 5):
            for wrong in (2**40, -7):
                damaged = put(data, starts[number], base_offset(wrong))
                assert mend(damaged, around, deep=False).data == data, (number, wrong)

    def test_warnings_about_a_wrapper_are_no_damage(self) -> None:
        """Those with a key stay as they are where another one is restored."""
        batches = self.wrappers(1)
        inner = compress(GZIP, joined([message(1, place, b"k", b"v", timestamp=NOW) for place in range(4)]))
        batches[1] = message(1, 7, b"key", inner, attributes=GZIP)
        data = joined(batches)
        damaged = put(data, len(joined(batches[:3])), base_offset(2**40))
        found = mend(damaged, SiblingContext(base_offset=0, next_base=24), deep=False)
        assert found.data == data
        assert [one.position for one in found.log.restored] == [len(joined(batches[:3]))]

    def test_a_wrapper_that_does_not_decode_is_not_moved(self) -> None:
        batches = self.wrappers(1)
        batches[3] = message(1, 2**40, None, b"no gzip", attributes=1)
        start = len(joined(batches[:3]))
        around = SiblingContext(base_offset=0, next_base=24, index=[OffsetEntry(15, start)])
        shallow = salvage(MemorySource(joined(batches)), around, SalvageOptions(deep=False))
        assert shallow.restored == ()
        assert [(one.position, one.first_offset) for one in shallow.dropped] == [(start, 2**40)]

    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("kind", ["messages", "wrappers"])
    @pytest.mark.slow
    def test_every_flipped_bit_is_corrected(self, magic: int, kind: str) -> None:
        batches = getattr(self, kind)(magic)
        data = joined(batches)
        start = len(joined(batches[:3]))
        for place in range(len(batches[3])):
            damaged = put(data, start + place, bytes([data[start + place] ^ 1 << place % 8]))
            assert mend(damaged, correct=True).data == data, place

    @pytest.mark.parametrize("magic", [0, 1])
    def test_no_batch_of_a_newer_format_covers_a_hole(self, magic: int) -> None:
        """Not in the log, nor at its beginning or its end, nor where only damaged messages are left."""
        batches = self.messages(magic)
        around = SiblingContext(base_offset=0, next_base=12)
        for data, lost in (
            (joined([*batches[:4], b"\x55" * 40, *batches[6:]]), [(4, 5), (9, 11)]),
            (joined([b"\x55" * 40, *batches[2:]]), [(0, 1), (9, 11)]),
            (put(joined(batches[:1]), 20, b"\x55"), [(0, 11)]),
        ):
            result = mend(data + b"\x55" * 40, around)
            assert result.log.lost == tuple(Lost(first, last, is_held=False) for first, last in lost)
            assert set(result.origins) <= {PieceOrigin.KEPT}

    @pytest.mark.parametrize("magic", [0, 1])
    def test_holes_of_a_log_of_two_formats_are_held_from_its_first_v2_batch_on(self, magic: int) -> None:
        old = self.messages(magic)
        new = log(first=len(old))
        hole = b"\x55" * 40
        result = mend(joined([*old[:4], hole, *old[6:8], hole, *new[:2], hole, *new[3:]]))
        end = len(old)
        assert result.log.lost == (
            Lost(4, 5, is_held=False),
            Lost(8, end - 1, is_held=False),
            Lost(end + 2 * SPAN, end + 3 * SPAN - 1, is_held=True),
        )
        assert [span for span in result.spans if span[0] == "held"] == [("held", end + 2 * SPAN, end + 3 * SPAN - 1)]


class TestNames:
    def test_a_name_that_cannot_hold_the_offsets(self) -> None:
        batches = log(first=100)
        for name in (103, 1000, 2**40):
            result = mend(joined(batches), SiblingContext(base_offset=name))
            assert (result.log.base_offset, result.data) == (100, joined(batches))

    def test_a_lower_name_stays(self) -> None:
        result = mend(joined(log(first=100)), SiblingContext(base_offset=93))
        assert (result.log.base_offset, result.log.lost) == (93, ())

    def test_offsets_too_far_above_the_name(self) -> None:
        result = mend(joined(log(first=2**31 - 10)), SiblingContext(base_offset=0))
        assert result.log.base_offset == 2**31 - 10

    def test_one_wrong_batch_changes_no_name(self) -> None:
        batches = [v2_batch(plain_rows(SPAN), base_offset=100 + 10 * number) for number in range(5)]
        damaged = put(joined(batches), len(joined(batches[:2])), base_offset(3))
        result = mend(damaged, SiblingContext(base_offset=100))
        assert result.log.base_offset == 100
        assert result.spans == [("kept", 100, 114), ("held", 115, 129), ("kept", 130, 144)]

    def test_without_a_name_the_first_offset_is_it(self) -> None:
        assert mend(joined(log(first=50)), SiblingContext()).log.base_offset == 50

    def test_the_next_segment_bounds_the_offsets(self) -> None:
        batches = log()
        damaged = put(joined(batches), len(joined(batches[:7])), base_offset(900))
        assert mend(damaged, SiblingContext(base_offset=0, next_base=40)).data == joined(batches)


class TestTail:
    def test_the_next_segment_says_what_is_lost(self) -> None:
        batches = log()
        result = mend(joined(batches[:5]), SiblingContext(base_offset=0, next_base=40))
        assert result.spans == [("kept", 0, 24), ("held", 25, 39)]
        assert result.log.end_offset == 40

    def test_nothing_is_left_of_a_segment(self) -> None:
        result = mend(b"\0" * 500, SiblingContext(base_offset=7, next_base=40))
        assert result.spans == [("held", 7, 39)]

    def test_torn_headers_say_what_is_lost(self) -> None:
        batches = log()
        for size in (61, 70, 100):
            assert mend(joined(batches[:5]) + batches[5][:size]).log.end_offset == 30
        assert mend(joined(batches[:5]) + batches[5][:30]).log.end_offset == 25

    def test_indexes_say_what_is_lost(self) -> None:
        batches = log()
        data = joined(batches[:5])
        index = [OffsetEntry(9, len(batches[0])), OffsetEntry(34, len(joined(batches[:6])))]
        assert mend(data, SiblingContext(base_offset=0, index=index)).log.end_offset == 35
        times = [TimeEntry(NOW + 4, 4), TimeEntry(NOW + 100, 39)]
        assert mend(data, SiblingContext(base_offset=0, time_index=times)).log.end_offset == 40
        evidence = PartitionEvidence("t-0", [], lambda name: b"", KnownOffsets(recovery_point=31))
        assert mend(data, SiblingContext(base_offset=0, evidence=evidence)).log.end_offset == 31

    @pytest.mark.parametrize(
        "index",
        [
            [OffsetEntry(9, 3), OffsetEntry(34, 10_000)],
            [OffsetEntry(9, 10_000), OffsetEntry(8, 20_000)],
            [OffsetEntry(10**9, 10_000)],
            [OffsetEntry(1000, 10**8)],
        ],
        ids=["inside a batch", "falling", "too many offsets", "too far"],
    )
    def test_indexes_that_cannot_be_right_say_nothing(self, index: list[OffsetEntry]) -> None:
        assert mend(joined(log()), SiblingContext(base_offset=0, index=index)).log.lost == ()

    def test_held_offsets_have_their_leader_epochs(self) -> None:
        batches = log(4, partition_leader_epoch=2) + log(4, first=40, partition_leader_epoch=6)
        damaged = joined(batches[:4]) + b"\x55" * 100 + joined(batches[4:])
        around = SiblingContext(base_offset=0, epochs=[EpochEntry(2, 0), EpochEntry(5, 30), EpochEntry(6, 38)])
        result = mend(damaged, around)
        held = [batch for batch in result.batches if len(batch) == 61]
        found = [struct.unpack_from(">q4xi", batch) for batch in held]
        assert found == [(20, 2), (30, 5), (38, 6)]
        assert [struct.unpack_from(">i", batch, 57)[0] for batch in held] == [0, 0, 0]


def test_paths_and_positions_lead_to_the_bytes() -> None:
    batches = log()
    data = put(joined(batches), len(batches[0]) + 70, b"\xff" * 5)
    for piece in mend(data).log.pieces:
        if piece.path == PATH:
            assert len(entries(data[piece.position : piece.position + piece.length])) == piece.batches


def test_a_dropped_batch_has_the_offsets_of_its_header() -> None:
    one = Dropped(0, 70, 216, -5, 1, 5, "its last offset is wrong")
    assert list(_merged(iter([one]))) == [one]
