"""The real LogSegment.recover: a case a segment, an answer each."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from kdump.format.snapshot import parse_snapshot
from kdump.kafka.producers import ProducerStates
from kdump.kafka.segmentindexes import DEFAULT_INDEX_INTERVAL, DEFAULT_INDEX_SIZE


@dataclass(frozen=True, slots=True)
class Case:
    """One segment, the producer state before it, and the broker's settings."""

    name: str
    base_offset: int
    log: bytes
    snapshot: bytes | None = None
    interval: int = DEFAULT_INDEX_INTERVAL
    index_size: int = DEFAULT_INDEX_SIZE

    def producers(self) -> ProducerStates:
        entries = parse_snapshot(self.snapshot) if self.snapshot else []
        return ProducerStates.from_snapshot(entries, self.base_offset)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a case; files are None where there is none, and all after a failure."""

    failure: str | None
    bytes_cut: int
    index: bytes | None
    time_index: bytes | None
    txn_index: bytes | None
    snapshot: bytes | None


@dataclass
class Broker:
    """The real code, in one JVM a call."""

    directory: Path
    command: list[str] = field(default_factory=list)

    def recover(self, cases: list[Case]) -> list[Answer]:
        lines = []
        for case in cases:
            home = self.directory / "in" / case.name
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            (home / f"{case.base_offset:020d}.log").write_bytes(case.log)
            if case.snapshot is not None:
                (home / f"{case.base_offset:020d}.snapshot").write_bytes(case.snapshot)
            lines.append(f"{home}\t{case.interval}\t{case.index_size}\n")
        command = [*self.command, str(self.directory / "work")]
        done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=False)
        answers = [self._answer(line.split("\t")) for line in done.stdout.splitlines()]
        assert len(answers) == len(cases), done.stderr
        return answers

    @staticmethod
    def _answer(fields: list[str]) -> Answer:
        files = (None if text == "-" else bytes.fromhex(text[1:]) for text in fields[2:])
        return Answer(None if fields[0] == "-" else fields[0], int(fields[1]), *files)
