"""Holes filled from other copies of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import EpochEntry
from kdump.repair.salvage.pieces import PieceOrigin
from kdump.repair.salvage.siblingcontext import SiblingContext
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.salvaged import Mended, mend

BASE = SiblingContext(base_offset=0)


def log(count: int = 10, *, first: int = 0, size: int = 20, epoch: int = 0) -> list[bytes]:
    return [
        v2_batch(plain_rows(5, size + number), base_offset=first + 5 * number, partition_leader_epoch=epoch)
        for number in range(count)
    ]


def filled(
    damaged: Sequence[bytes], tmp_path: Path, *replicas: dict[int, Sequence[bytes]], around: SiblingContext = BASE
) -> Mended:
    """Salvage with replicas, each of them segments by base offset."""
    paths = []
    for number, segments in enumerate(replicas):
        directory = tmp_path / str(number) / "t-0"
        directory.mkdir(parents=True)
        for base, batches in segments.items():
            (directory / f"{base:020d}.log").write_bytes(b"".join(batches))
        paths.append(str(directory))
    return mend(b"".join(damaged), around, replicas=tuple(paths))


def hole(batches: list[bytes], first: int, last: int) -> list[bytes]:
    return [*batches[:first], b"\x55" * 300, *batches[last:]]


def test_a_hole_is_filled(tmp_path: Path) -> None:
    batches = log()
    result = filled(hole(batches, 3, 6), tmp_path, {0: batches})
    assert result.data == b"".join(batches)
    assert result.origins == [PieceOrigin.KEPT, PieceOrigin.REPLICA, PieceOrigin.KEPT]
    piece = result.log.pieces[1]
    assert (piece.path, piece.batches) == (str(tmp_path / "0" / "t-0" / f"{0:020d}.log"), 3)
    assert result.log.lost == ()


def test_segments_may_begin_elsewhere(tmp_path: Path) -> None:
    batches = log()
    result = filled(hole(batches, 3, 6), tmp_path, {0: batches[:4], 20: batches[4:5], 25: batches[5:]})
    # The segment in the middle has no batch in common with the log, those around it have.
    assert result.spans == [
        ("kept", 0, 14),
        ("replica", 15, 19),
        ("replica", 20, 24),
        ("replica", 25, 29),
        ("kept", 30, 49),
    ]


def test_two_replicas_make_up_for_one_another(tmp_path: Path) -> None:
    batches = log()
    result = filled(hole(batches, 3, 6), tmp_path, {0: [*batches[:4], *batches[5:]]}, {0: [*batches[:3], *batches[4:]]})
    assert result.data == b"".join(batches)


@pytest.mark.parametrize(
    "replica",
    [log(size=30), [*log(4), *log(6, first=20, size=90)], log(3, first=500)],
    ids=["another topic", "another history after the gap", "other offsets"],
)
def test_other_histories_are_refused(tmp_path: Path, replica: list[bytes]) -> None:
    batches = log()
    result = filled(hole(batches, 3, 6), tmp_path, {0: replica})
    assert result.spans == [("kept", 0, 14), ("held", 15, 29), ("kept", 30, 49)]


def test_epochs_must_fit(tmp_path: Path) -> None:
    before, between, after = log(3, epoch=4), log(3, first=15, epoch=5), log(4, first=30, epoch=6)
    damaged = hole(before + between + after, 3, 6)
    assert filled(damaged, tmp_path / "a", {0: before + between + after}).origins[1] is PieceOrigin.REPLICA
    for epoch in (3, 7):
        other = log(3, first=15, epoch=epoch)
        result = filled(damaged, tmp_path / str(epoch), {0: before + other + after})
        assert result.origins[1] is PieceOrigin.HELD
    around = SiblingContext(base_offset=0, epochs=[EpochEntry(4, 0), EpochEntry(6, 20)])
    result = filled(damaged, tmp_path / "c", {0: before + between + after}, around=around)
    assert PieceOrigin.REPLICA not in result.origins


def test_damaged_batches_of_a_replica_are_not_taken(tmp_path: Path) -> None:
    batches = log()
    bad = batches[4][:-1] + bytes([batches[4][-1] ^ 1])
    result = filled(hole(batches, 3, 6), tmp_path, {0: [*batches[:4], bad, *batches[5:]]})
    assert [span[0] for span in result.spans] == ["kept", "replica", "held", "replica", "kept"]


def test_what_is_not_taken_has_an_order(tmp_path: Path) -> None:
    """Of two ranges that begin alike the shorter one comes first, in every run."""
    foreign = [v2_batch(plain_rows(4), base_offset=4 * number) for number in range(20)]
    result = filled([*log(3), log(4)[3][:100]], tmp_path, {0: foreign})
    assert [(one.first_offset, one.last_offset) for one in result.log.not_taken] == [(16, 19), (16, 79)]


def test_what_compaction_took_is_not_lost(tmp_path: Path) -> None:
    batches = log()
    compacted = [*batches[:2], *batches[4:5], *batches[7:]]
    damaged = [*batches[:2], b"\x55" * 300, *batches[7:]]
    result = filled(damaged, tmp_path, {0: compacted})
    assert result.data == b"".join(compacted)
    assert result.log.lost == ()


def test_missing_batches_without_damage(tmp_path: Path) -> None:
    """Filled where the log was hardly compacted."""
    batches = log()
    assert filled([*batches[:4], *batches[5:]], tmp_path / "a", {0: batches}).data == b"".join(batches)
    cleaned = [v2_batch(plain_rows(3), base_offset=5 * number, last_offset_delta=4) for number in range(10)]
    damaged = [*cleaned[:4], *cleaned[5:]]
    assert filled(damaged, tmp_path / "b", {0: cleaned}).data == b"".join(damaged)


class TestTail:
    def test_up_to_the_next_segment(self, tmp_path: Path) -> None:
        batches = log()
        around = SiblingContext(base_offset=0, next_base=50)
        result = filled(batches[:7], tmp_path, {0: batches, 50: log(3, first=50)}, around=around)
        assert result.data == b"".join(batches)

    def test_as_much_as_is_damaged(self, tmp_path: Path) -> None:
        """Nothing says how far the log went: a replica may be ahead."""
        batches = log()
        size = len(b"".join(batches[7:9]))
        result = filled([*batches[:7], bytes(size)], tmp_path, {0: batches})
        assert result.data == b"".join(batches[:9])

    def test_a_sound_log_stays_behind_its_replica(self, tmp_path: Path) -> None:
        batches = log()
        assert filled(batches[:7], tmp_path, {0: batches}).data == b"".join(batches[:7])


def test_a_replica_may_be_one_log(tmp_path: Path) -> None:
    batches = log()
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(batches))
    assert mend(b"".join(hole(batches, 3, 6)), BASE, replicas=(str(path),)).data == b"".join(batches)


def test_a_directory_without_segments(tmp_path: Path) -> None:
    with pytest.raises(KdumpError) as error:
        mend(b"".join(log()), BASE, replicas=(str(tmp_path),))
    assert error.value.code is Codes.NO_SEGMENTS


@pytest.mark.parametrize("name", ["orders", f"{0:020d}.index"])
def test_a_replica_that_is_no_log(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"".join(log()))
    with pytest.raises(KdumpError) as error:
        mend(b"".join(log()), BASE, replicas=(str(path),))
    assert error.value.code is Codes.NOT_A_SEGMENT_FILE
