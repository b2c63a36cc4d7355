"""The sessions of a tree, of which a snapshot may hold millions."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from typing import Final

from kdump.wire.checksum import Buffer

SESSION: Final = struct.Struct(">qi")
"""A session in a snapshot: its id and its timeout in ms."""
_NUMBER_BITS: Final = 32
_NUMBER: Final = (1 << _NUMBER_BITS) - 1


class Sessions:
    """The timeouts (ms) of sessions by their ids.

    Those of a snapshot are held in two columns, 12 bytes for each, in the order of the ids. In a dict each takes more
    than 100 bytes. What transactions change is held beside them.

    ``records``: those of a snapshot, each as SESSION. The last one of an id counts.
    """

    def __init__(self, records: Buffer = b"") -> None:
        self._ids, self._timeouts = array("q"), array("i")
        self._changes: dict[int, int | None] = {}
        """None: a session of the columns that is closed."""
        ids = enumerate(session for session, _ in SESSION.iter_unpack(records))
        for key in sorted(session << _NUMBER_BITS | number for number, session in ids):
            session, timeout = SESSION.unpack_from(records, (key & _NUMBER) * SESSION.size)
            if self._ids and self._ids[-1] == session:
                self._timeouts[-1] = timeout
            else:
                self._ids.append(session)
                self._timeouts.append(timeout)

    def __len__(self) -> int:
        changes = self._changes.items()
        return len(self._ids) + sum((timeout is not None) - self._is_stored(session) for session, timeout in changes)

    def __setitem__(self, session: int, timeout: int) -> None:
        self._changes[session] = timeout

    def close(self, session: int) -> None:
        """The session is over. One that is not there changes nothing."""
        self._changes.pop(session, None)
        if self._is_stored(session):
            self._changes[session] = None

    def items(self) -> Iterator[tuple[int, int]]:
        """Ids and timeouts in the order of the ids, one after the other."""
        stored = (
            (session, self._changes.get(session, own)) for session, own in zip(self._ids, self._timeouts, strict=True)
        )
        added = sorted(change for change in self._changes.items() if not self._is_stored(change[0]))
        for session, timeout in merge(stored, added):
            if timeout is not None:
                yield session, timeout

    def _is_stored(self, session: int) -> bool:
        """The session is in the columns."""
        number = bisect_left(self._ids, session)
        return number < len(self._ids) and self._ids[number] == session
