"""What the checkpoint files of a log directory say of a partition."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.format.checkpoint import CLEANER_CHECKPOINT
from kdump.log.siblings import read_beside, read_checkpoint, was_cleaned


def test_what_a_checkpoint_says_of_a_partition(tmp_path: Path) -> None:
    """Anew when it is written anew; of a partition that is named twice the first line counts."""
    checkpoint = tmp_path / CLEANER_CHECKPOINT

    def said(partition: str) -> int | None:
        return read_checkpoint(str(tmp_path / partition), CLEANER_CHECKPOINT)

    assert said("t-0") is None
    checkpoint.write_text("0\n3\nt 0 5\nt 0 6\nt 1 0\n")
    assert [said(name) for name in ("t-0", "t-1", "t-2", "t")] == [5, 0, None, None]
    assert [was_cleaned(str(tmp_path / name)) for name in ("t-0", "t-1", "t-2")] == [True, False, False]
    # As a broker does: another file takes the name.
    other = tmp_path / "new"
    other.write_text("0\n3\nt 0 7\nt 0 6\nt 1 0\n")
    other.replace(checkpoint)
    assert said("t-0") == 7
    checkpoint.write_text("0\n1\nnonsense\n")
    assert said("t-0") is None
    checkpoint.unlink()
    assert said("t-0") is None


@pytest.mark.parametrize("name", ["0.index", "0.timeindex"])
@pytest.mark.parametrize("stored", [(), (0,), (0, 70_000), (65_530,), (300_000, 900_000), (1_199_999,)])
def test_the_zeros_of_a_preallocated_index(tmp_path: Path, name: str, stored: tuple[int, ...]) -> None:
    """Up to the last entry all is there, and zeros show that the index was not cut."""
    path = tmp_path / name
    with path.open("wb") as file:
        for position in stored:
            os.pwrite(file.fileno(), b"\1", position)
        file.truncate(1_200_000)
    whole, read = path.read_bytes(), read_beside(str(path))
    entry_size = 8 if name == "0.index" else 12
    filled = len(whole.rstrip(b"\0"))
    assert read == whole[: len(read)]
    assert len(read) % entry_size == 0
    assert len(read) >= min(filled + entry_size, len(whole))


def test_an_index_that_no_broker_made_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    for size in (0, 5, 64, 100_001):
        with path.open("wb") as file:
            file.truncate(size)
        assert read_beside(str(path)) == bytes(size)
