"""The real LogCleaner and the real deletion by retention: a request a partition, an answer each."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Left(NamedTuple):
    """A segment that is left; ``control`` are records."""

    base_offset: int
    size: int
    batches: int
    records: int
    empty_batches: int
    control: int


@dataclass
class Maintainer:
    """The real code, in one JVM a call."""

    work: Path
    command: list[str]
    calls: int = 0

    def clean(
        self, partitions: list[Path], now: int, *, roll: bool = False, delete_retention_ms: int = 86_400_000
    ) -> list[list[Left]]:
        """One run of the log cleaner over each; ``roll``: the active segment too."""
        return self._ask([f"{path}\tclean\t{now}\t{delete_retention_ms}\t{str(roll).lower()}\n" for path in partitions])

    def delete(
        self,
        partitions: list[Path],
        starts: list[int],
        now: int,
        *,
        milliseconds: int = -1,
        size: int = -1,
        remote_ends: list[int] | None = None,
    ) -> list[list[Left]]:
        """What deletion by retention leaves of each.

        ``starts``: their log start offsets; ``remote_ends``: the last offsets in remote storage, if they are tiered.
        """
        limits = f"delete\t{now}\t{milliseconds}\t{size}"
        tails = ["" for _ in partitions] if remote_ends is None else [f"\t{end}" for end in remote_ends]
        return self._ask(
            [f"{path}\t{limits}\t{start}{tail}\n" for path, start, tail in zip(partitions, starts, tails, strict=True)]
        )

    def _ask(self, requests: list[str]) -> list[list[Left]]:
        self.calls += 1
        command = [*self.command, str(self.work / str(self.calls))]
        done = subprocess.run(command, input="".join(requests), capture_output=True, text=True, check=False)
        answers = []
        for line in done.stdout.splitlines():
            failure, *segments = line.split("\t")
            assert failure == "-", failure
            answers.append([Left(*map(int, segment.split(":"))) for segment in segments])
        assert len(answers) == len(requests), done.stderr
        return answers
