"""Random partitions cut into other segments are equal copies; damage of one of them never ends in an exception."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kdump.diff.contents import DiffOptions
from kdump.diff.report import report_rows
from kdump.diff.run import PartitionReport, diff
from kdump.inputs import resolve
from tests.harness.batches import entries
from tests.harness.examples import examples
from tests.harness.random_partitions import Partition, partition
from tests.harness.replicas import compared, told


def written(folder: Path, made: Partition, cuts: random.Random | None) -> Path:
    """A partition directory of the batches, in the segments as they were made, or cut anywhere."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if cuts is None:
        for base, segment in zip(made.bases, made.segments, strict=True):
            (folder / f"{base or 0:020}.log").write_bytes(segment)
        return folder
    files: dict[int, bytes] = {}
    for base, segment in zip(made.bases, made.segments, strict=True):
        name = base or 0
        for entry in entries(segment):
            offset = int.from_bytes(entry[:8], "big")
            if not files or cuts.random() < 0.3:
                name = offset if files else name
            elif name not in files:
                name = max(files)
            files[name] = files.get(name, b"") + entry
    for name, data in files.items():
        (folder / f"{name:020}.log").write_bytes(data)
    return folder


@examples(150)
@given(seed=st.integers(0, 2**32))
def test_segments_cut_elsewhere_are_no_difference(tmp_path: Path, seed: int) -> None:
    made = partition(seed, is_compacted=False)
    one = written(tmp_path / "a" / "t-0", made, None)
    other = written(tmp_path / "b" / "t-0", made, random.Random(seed))
    assert {kind for kind, *_ in told(compared(one, other))} <= {"segments", "lag"}


@examples(100)
@given(seed=st.integers(0, 2**32))
def test_damage_is_told(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    made = partition(seed, is_compacted=bool(seed % 2))
    one = written(tmp_path / "a" / "t-0", made, None)
    other = written(tmp_path / "b" / "t-0", made, None)
    for path in sorted(other.iterdir()):
        data = bytearray(path.read_bytes())
        for _ in range(choose.randint(0, 3)):
            if data:
                data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        path.write_bytes(data[: choose.randint(0, len(data))] if choose.random() < 0.2 else data)
    for item in diff([resolve(str(one)), resolve(str(other))], DiffOptions(with_records=True), lambda error: None):
        if isinstance(item, PartitionReport):
            assert all(report_rows(item))
