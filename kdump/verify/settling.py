"""What counts of findings about files that change while they are checked: a broker writes, rolls, compacts, deletes.

The rule, for whatever is checked together (a log, the files beside it, those of a partition):

1. What is found counts where the files are as they were when they were read, and nothing says that they are just being
   written.
2. Else they are checked again as they are now, after a pause in which a broker finishes what it has begun. What both
   looks find counts: the bytes are the same, or as wrong.
3. That is done a few times. What only the last look found, of files that go on changing, cannot be decided: it is told
   as information.

A file that is gone has nothing wrong. So that few findings need a second look, what is derived is read before what it
is derived from, or not compared with what has been appended since; the callers see to that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Hashable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.log import files
from kdump.log.fingerprint import FileFingerprint
from kdump.log.lock import is_held
from kdump.log.names import is_uri

Key: TypeAlias = tuple[Codes, str | None, int]
"""What a finding is known by when it is found again: its code, file and position."""

ROUNDS: Final = 4
"""How often what changes is checked again."""
PAUSE_SECONDS: Final = 0.25
"""Between two looks: far longer than a broker takes from the write to a log to that to its index files."""
_LATELY_SECONDS: Final = 10
"""A log that was written to within so many seconds may have an append under way."""

SeenT = TypeVar("SeenT")
KeyT = TypeVar("KeyT", bound=Hashable)


def settled(
    look: Callable[[], SeenT],
    serious: Callable[[SeenT], AbstractSet[KeyT]],
    is_changing: Callable[[SeenT], bool],
) -> tuple[SeenT, AbstractSet[KeyT]]:
    """The look that counts, and what of it cannot be decided.

    Args:
        look: looks at the files as they are now.
        serious: the errors and warnings of a look, by what they are known by when they are found again.
        is_changing: a file that a look went by has changed since, or may be about to.
    """
    seen = look()
    found = serious(seen)
    before: AbstractSet[KeyT] = frozenset()
    for _ in range(ROUNDS):
        if not found or not is_changing(seen):
            return seen, frozenset()
        time.sleep(PAUSE_SECONDS)
        before = found
        seen = look()
        found = serious(seen)
        if found <= before:
            return seen, frozenset()
    return seen, found - before


def settled_findings(look: Callable[[], Iterable[Finding]], is_changing: Callable[[], bool]) -> list[Finding]:
    """The same where a look is nothing but findings; those that cannot be decided are graded."""
    found, undecided = settled(lambda: list(look()), serious_of, lambda _: is_changing())
    return [graded(finding, undecided) for finding in found]


def serious_of(findings: Iterable[Finding]) -> AbstractSet[Key]:
    """The errors and warnings among findings."""
    return {_key(finding) for finding in findings if finding.severity is not Severity.INFO}


def graded(finding: Finding, undecided: Collection[Key]) -> Finding:
    """The finding, as information where it is one of those that cannot be decided."""
    if not undecided or _key(finding) not in undecided:
        return finding
    return replace(finding, message=f"{finding.message} (not decidable: the files keep changing)", graded=Severity.INFO)


def is_being_written(log: str) -> bool:
    """A running broker has written to a log just now: what belongs to it may follow."""
    if is_uri(log) or not is_held(os.path.dirname(files.directory_of(log))):
        return False
    try:
        return time.time() - FileFingerprint.of(log).modified / 1e9 < _LATELY_SECONDS
    except KdumpError:
        return True


class Watch:
    """Files and directories, as they are when it is made.

    Args:
        paths: of which nothing is asked where they are URIs: objects of a store do not change while they are read.
    """

    def __init__(self, *paths: str) -> None:
        self._before = {path: _stamp(path) for path in paths if not is_uri(path)}

    @property
    def has_changed(self) -> bool:
        """One of them has another size, time or inode now, or has come or gone; of a directory: a name in it."""
        return any(_stamp(path) != before for path, before in self._before.items())


def _stamp(path: str) -> FileFingerprint | None:
    try:
        return FileFingerprint.of(path)
    except KdumpError:
        return None


def _key(finding: Finding) -> Key:
    return finding.code, finding.path, finding.position
