"""What the checkpoint files of a log directory say of a partition."""

from __future__ import annotations

from pathlib import Path

from kdump.format.checkpoint import CLEANER_CHECKPOINT
from kdump.log.siblings import read_checkpoint, was_cleaned


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
