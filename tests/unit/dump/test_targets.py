"""Which segments ``--follow`` reads, and when it asks for later ones."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from kdump.dump import targets
from kdump.inputs import resolve
from tests.harness.batches import v2_batch


def write(partition: Path, bases: range) -> None:
    partition.mkdir(exist_ok=True)
    for base in bases:
        (partition / f"{base:020d}.log").write_bytes(v2_batch(base_offset=base))


def test_only_the_newest_segment_is_asked_for_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question lists the directory."""
    partition = tmp_path / "t-0"
    write(partition, range(20))
    asked = []

    def segments_after(segment: str) -> list[str]:
        asked.append(Path(segment).name)
        return original(segment)

    original = targets.segments_after
    monkeypatch.setattr(targets, "segments_after", segments_after)
    segments = targets.followed(resolve(str(partition)), lambda _: None)
    first = list(islice(segments, 20))
    assert [target.on_wait is not None for target in first] == [False] * 19 + [True]
    assert asked == [f"{19:020d}.log"]
    write(partition, range(20, 22))
    later = [next(segments), next(segments)]
    assert [Path(target.path).name for target in later] == [f"{base:020d}.log" for base in (20, 21)]
    assert [target.on_wait is not None for target in later] == [False, True]


def test_a_segment_that_is_made_while_the_others_are_read(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    write(partition, range(2))
    segments = targets.followed(resolve(str(partition)), lambda _: None)
    assert next(segments).on_wait is None
    write(partition, range(2, 3))
    found = [next(segments), next(segments)]
    assert [target.on_wait is not None for target in found] == [False, True]
