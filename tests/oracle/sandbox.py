"""A directory in which both tools see the same files under the same paths, and the comparison of what they print."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import ROOT
from tests.harness.flags import DEFAULT, SANITY, VERIFY, FlagSet, max_message_size
from tests.harness.inprocess import BOTH_PATHS, run_in_process
from tests.harness.outcome import differences
from tests.oracle.javadump import JavaDump

Run = tuple[Sequence[str], FlagSet]
"""File names and flags of one call."""

_TOO_NEW = "TooNewError: "
"""An older tool did not know what the log holds, and kdump refuses to speak as it does."""
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
KEPT = ROOT / "build" / "oracle" / "differences"
"""Where inputs on which the tools differ are kept: one directory a case."""


@dataclass
class Tally:
    """What a comparison of many runs came to."""

    runs: int = 0
    aborted: int = 0
    not_comparable: int = 0
    refused: int = 0
    differing: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Print the counts; AssertionError with the differing cases when there are any."""
        print(f"{self.runs} runs, {self.aborted} of them aborted by the Java tool, {self.not_comparable} left out")
        if self.refused:
            print(f"{self.refused} refused by kdump as too new")
        summary = f"{len(self.differing)} runs differ (inputs in {KEPT}):"
        assert not self.differing, "\n".join([summary, *self.differing])


class Sandbox:
    """Runs both tools over the same files.

    The Java tool trims and creates indexes, so the files are laid out again before each of its runs.
    """

    def __init__(self, directory: Path, java: JavaDump) -> None:
        self._directory = directory
        self._java = java
        self.tally = Tally()

    def compare(self, case: str, files: Mapping[str, bytes], runs: Sequence[Run]) -> None:
        """Compare the outputs of ``runs`` (file names and flags) over ``files`` (contents by name)."""
        self._lay_out(files)
        ours = [[run_in_process(self._paths(names), flags.options, way) for way in BOTH_PATHS] for names, flags in runs]
        for (names, flags), outcomes in zip(runs, ours, strict=True):
            self._lay_out(files)
            java = self._java.dump(self._paths(names), flags)
            self.tally.runs += 1
            self.tally.aborted += java.status
            if java.failure == _OUT_OF_MEMORY:
                # A matter of the heap, not of the format.
                self.tally.not_comparable += 1
                continue
            for way, kdump in zip(BOTH_PATHS, outcomes, strict=True):
                if kdump.failure is not None and kdump.failure.startswith(_TOO_NEW):
                    self.tally.refused += 1
                    continue
                found = differences(java, kdump, flags)
                if found:
                    self._keep(case, files)
                    what = f"{names[0] if len(names) == 1 else f'{len(names)} files'} {flags.name} {way}"
                    how = f"{', '.join(found)} ({java.failure or 'no abort'})"
                    self.tally.differing.append(f"{case}: {what}: {how}")

    def _paths(self, names: Sequence[str]) -> list[str]:
        return [str(self._directory / name) for name in names]

    def _lay_out(self, files: Mapping[str, bytes]) -> None:
        for path in self._directory.iterdir():
            if path.name not in files:
                path.unlink()
        for name, data in files.items():
            (self._directory / name).write_bytes(data)

    def _keep(self, case: str, files: Mapping[str, bytes]) -> None:
        home = KEPT / case
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for name, data in files.items():
            (home / name).write_bytes(data)


def index_runs(name: str, message_size: int) -> list[Run]:
    """All ways to dump one index or snapshot."""
    if name.endswith((".index", ".timeindex")):
        return [([name], flags) for flags in (DEFAULT, VERIFY, SANITY, max_message_size(message_size))]
    return [([name], DEFAULT)]
