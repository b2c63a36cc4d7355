"""Which findings count if files change while they are checked: a broker appends, rolls, compacts and deletes.

The rule for files that are checked together (a log, the files beside it, those of a partition):

1. A finding counts if the files are as they were when they were read, and nothing shows that they are just being
   written.
2. Else they are checked again, after a pause in which a broker finishes what it has begun. What both rounds find
   counts: the bytes are the same, or still wrong.
3. That is done a few times. What only the last round found, in files that keep changing, cannot be decided: it is
   reported as information.

Nothing is wrong with a file that is gone. To need few second rounds, callers read derived files before the files they
are derived from, or do not compare them with what has been appended since.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.log import files
from kdump.log.files import FileFingerprint
from kdump.log.lock import is_held
from kdump.log.names import is_uri

Key: TypeAlias = tuple[Codes, str | None, int]
"""What identifies a finding in the next round: its code, file and position."""

ROUNDS: Final = 4
"""How often changing files are checked again."""
PAUSE_SECONDS: Final = 0.25
"""Between two rounds: far longer than a broker takes from the write to a log to that to its index files."""
_LATELY_SECONDS: Final = 10
"""If a log was written to within so many seconds, an append may be under way."""

SeenT = TypeVar("SeenT")
KeyT = TypeVar("KeyT", bound=Hashable)


def settled(
    check: Callable[[], SeenT],
    serious: Callable[[SeenT], Iterable[KeyT]],
    is_changing: Callable[[SeenT], bool],
) -> tuple[SeenT, AbstractSet[KeyT]]:
    """The result of the round that counts, and what of it cannot be decided.

    Args:
        check: checks the files as they are now.
        serious: gives the errors and warnings of a round, by what identifies them in the next one. As there may be a
            million, they are gathered only when a file changes.
        is_changing: whether a file has changed since the round read it, or may be about to.
    """
    seen = check()
    undecided: AbstractSet[KeyT] = frozenset()
    for _ in range(ROUNDS):
        if next(iter(serious(seen)), None) is None or not is_changing(seen):
            return seen, frozenset()
        before = frozenset(serious(seen))
        time.sleep(PAUSE_SECONDS)
        seen = check()
        undecided = frozenset(serious(seen)) - before
        if not undecided:
            return seen, frozenset()
    return seen, undecided


def settled_findings(check: Callable[[], Iterable[Finding]], is_changing: Callable[[], bool]) -> list[Finding]:
    """The findings of the round that counts. Those that cannot be decided become information."""
    found, undecided = settled(lambda: list(check()), serious_of, lambda _: is_changing())
    return [graded(finding, undecided) for finding in found]


def serious_of(findings: Iterable[Finding]) -> Iterator[Key]:
    """What identifies the errors and warnings among findings."""
    return (_key(finding) for finding in findings if finding.severity is not Severity.INFO)


def graded(finding: Finding, undecided: Collection[Key]) -> Finding:
    """The finding, as information if it cannot be decided."""
    if not undecided or _key(finding) not in undecided:
        return finding
    return replace(finding, message=f"{finding.message} (not decidable: the files keep changing)", graded=Severity.INFO)


def is_being_written(log: str) -> bool:
    """Whether a running broker has just written to a log: its other files may follow."""
    if is_uri(log) or not is_held(os.path.dirname(files.directory_of(log))):
        return False
    try:
        return time.time() - FileFingerprint.of(log).modified / 1e9 < _LATELY_SECONDS
    except KdumpError:
        return True


class Watch:
    """Notices changes of files and directories since it was made.

    Args:
        paths: the files. URIs are left out: objects of a store do not change while they are read.
    """

    def __init__(self, *paths: str) -> None:
        self._before = {path: _stamp(path) for path in paths if not is_uri(path)}

    @property
    def has_changed(self) -> bool:
        """Whether one of them has another size, time or inode, or came or went; of a directory: a name in it."""
        return any(_stamp(path) != before for path, before in self._before.items())


def _stamp(path: str) -> FileFingerprint | None:
    try:
        return FileFingerprint.of(path)
    except KdumpError:
        return None


def _key(finding: Finding) -> Key:
    return finding.code, finding.path, finding.position
