"""What a run printed, and when kdump's run counts as the same as the Java tool's.

The deviations allowed are those of docs/contract.md#21-deviations-from-the-java-tool.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from tests.harness.flags import FlagSet

_HEADING = re.compile(
    r"(?:Mismatches in :|Found timestamp mismatch in :|Found out of order timestamp in :"
    r"|The following indexed offsets are not found in :|The following indexed offsets are not found in the log\."
    r"|Non-(?:con)?secutive offsets in )(.*)"
)
_NON_CONSECUTIVE = "Non-consecutive offsets in "
_FIRST_RECORD = "  -1 is followed by "
_DAMAGE = re.compile(rb"is[vV]alid: false\b|^Found \d+ invalid bytes at the end of ", re.MULTILINE)
_HINT = re.compile(
    rb"^kdump: .*: (?:more entries follow position \d+; --resync shows them"
    rb"|offset -?\d+: KD2(?:09|19) the (?:key|value) .*)$",
    re.MULTILINE,
)
"""What is said beside the output: it is no damage that the Java tool would stop at."""
_CORRUPT_SNAPSHOT = re.compile(rb"^Snapshot (?:failed|is corrupt|contained)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run: both streams, the exit status, and the exception that ended it (class name; kdump's: internal errors)."""

    stdout: bytes
    stderr: bytes
    status: int
    failure: str | None = None

    @property
    def whole_lines(self) -> bytes:
        """Stdout up to its last line end."""
        return self.stdout[: self.stdout.rfind(b"\n") + 1]

    @property
    def reports(self) -> list[tuple[str, ...]]:
        """The end-of-run reports on stderr as blocks of lines, heading first, in order."""
        blocks: list[list[str]] = []
        for line in self.stderr.decode("utf-8", "surrogateescape").splitlines():
            if _HEADING.fullmatch(line):
                blocks.append([line])
            elif blocks and line.startswith(("  ", "Indexed offset: ")):
                blocks[-1].append(line)
        return [tuple(block) for block in blocks]


def differences(java: Outcome, kdump: Outcome, flags: FlagSet, *, ordered: bool = True) -> list[str]:
    """Where kdump's run is not what the Java tool's run asks for: names of rules, empty when it is the same.

    A run that the Java tool aborted (status not 0) asks for its whole lines, exit status 1 or 3 and a ``kdump:`` line
    on stderr; of several files kdump goes on with the next, so its output may be longer. Any other run asks for the
    same stdout, the same reports and status 1 exactly where damage shows. ``ordered=False`` takes the reports as a
    set: their order depends on the absolute paths of the files, and goldens were made under others.
    """
    if kdump.failure is not None:
        return [f"internal error {kdump.failure}"]
    found = []
    if java.status:
        if kdump.stdout != java.whole_lines and not kdump.stdout.startswith(java.whole_lines + b"Dumping "):
            found.append("stdout")
        if kdump.status not in (1, 3):
            found.append("status")
        if b"kdump: " not in kdump.stderr:
            found.append("stderr")
        return found
    if kdump.stdout != java.stdout:
        found.append("stdout")
    expected, reports = expected_reports(java.reports), kdump.reports
    if not ordered:
        expected, reports = sorted(expected), sorted(reports)
    if expected != reports:
        found.append("reports")
    damaged = bool(_DAMAGE.search(java.stdout) or _CORRUPT_SNAPSHOT.search(java.stderr))
    if kdump.status != int(damaged) and not (flags.hides_damage and kdump.status == 1):
        found.append("status")
    if b"kdump: " in _HINT.sub(b"", kdump.stderr):
        found.append("stderr")
    return found


def expected_reports(java: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The Java tool's reports without what kdump leaves out.

    That is ``-1 is followed by N`` for segments that do not start at offset 0.
    """
    kept = []
    for heading, *lines in java:
        left_out: tuple[str, ...] = ()
        if heading.startswith(_NON_CONSECUTIVE) and not _starts_at_zero(heading.removeprefix(_NON_CONSECUTIVE)):
            left_out = (_FIRST_RECORD,)
        shown = [line for line in lines if not line.startswith(left_out)]
        if shown:
            kept.append((heading, *shown))
    return kept


def _starts_at_zero(path: str) -> bool:
    prefix = os.path.basename(path).partition(".")[0]
    return prefix.lstrip("+-").strip("0") == "" and prefix != ""
