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


class ExpiryRequest(NamedTuple):
    """A partition with remote segments. Limits are retention.ms and retention.bytes, -1 without limit."""

    path: Path
    start: int
    whole: tuple[int, int]
    local: tuple[int, int]
    remote: str
    """As LogMaintenance takes them."""


class Expired(NamedTuple):
    """The ids of the remote segments that are left, the log start offset, the base offsets of the local segments."""

    remote: set[str]
    start: int
    local: list[int]


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

    def expire(self, requests: list[ExpiryRequest], now: int) -> list[Expired]:
        """What is left after one run of the expiration of remote segments, and then the deletion by local retention."""
        lines = [
            "\t".join(map(str, (one.path, "expire", now, *one.whole, one.start, *one.local, one.remote))) + "\n"
            for one in requests
        ]
        answers = []
        for remote, start, *segments in self._answers(lines):
            bases = [int(segment.partition(":")[0]) for segment in segments]
            answers.append(Expired({name for name in remote.split(",") if name}, int(start), bases))
        return answers

    def _ask(self, requests: list[str]) -> list[list[Left]]:
        return [[Left(*map(int, segment.split(":"))) for segment in segments] for segments in self._answers(requests)]

    def _answers(self, requests: list[str]) -> list[list[str]]:
        """The fields of each answer after the exception, of which there is none."""
        self.calls += 1
        command = [*self.command, str(self.work / str(self.calls))]
        done = subprocess.run(command, input="".join(requests), capture_output=True, text=True, check=False)
        answers = []
        for line in done.stdout.splitlines():
            failure, *fields = line.split("\t")
            assert failure == "-", failure
            answers.append(fields)
        assert len(answers) == len(requests), done.stderr
        return answers
