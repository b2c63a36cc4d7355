"""What was found in a log, kept until the log is known to have stayed as it was.

A log of 64 MiB may have a million findings. As objects they take 300 bytes each and more.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias

from kdump.codes import Codes, Finding, Severity
from kdump.verify.segment import Rows

_BLOCK: Final = 4096
"""Findings that are packed together."""
_LEVEL: Final = 1
_FIELDS: Final = attrgetter("message", "position", "length", "first_offset", "last_offset", "continue_at", "path")
"""Fields in the order in which ``Finding`` takes them, after the code."""

Found: TypeAlias = Finding | Rows


@dataclass(slots=True)
class KeptItems:
    """Findings and rows, which can be iterated over again. Of many findings all but the last are packed."""

    _packed: list[bytes | Rows] = field(default_factory=list)
    _last: list[Found] = field(default_factory=list)

    @classmethod
    def of(cls, items: Iterable[Found]) -> KeptItems:
        """All of the items. Raises as they do."""
        kept = cls()
        for item in items:
            kept.keep(item)
        return kept

    def keep(self, item: Found) -> None:
        """Add an item."""
        self._last.append(item)
        if len(self._last) == _BLOCK:
            self._pack()

    def __bool__(self) -> bool:
        return bool(self._packed or self._last)

    def findings(self) -> Iterator[Finding]:
        """The findings alone."""
        return (item for item in self if isinstance(item, Finding))

    def rows(self) -> Iterator[Rows]:
        """The rows alone: no finding is unpacked."""
        for item in chain(self._packed, self._last):
            if not isinstance(item, bytes | Finding):
                yield item

    def __iter__(self) -> Iterator[Found]:
        for block in self._packed:
            if isinstance(block, bytes):
                yield from map(_unpacked, json.loads(zlib.decompress(block)))
            else:
                yield block
        yield from self._last

    def _pack(self) -> None:
        findings: list[tuple[Any, ...]] = []
        for item in self._last:
            if isinstance(item, Finding):
                findings.append((item.code.name, item.graded and item.graded.name, *_FIELDS(item)))
                continue
            self._add(findings)
            findings = []
            self._packed.append(item)
        self._add(findings)
        self._last.clear()

    def _add(self, findings: list[tuple[Any, ...]]) -> None:
        if findings:
            self._packed.append(zlib.compress(json.dumps(findings).encode(), _LEVEL))


def _unpacked(values: list[Any]) -> Finding:
    code, graded, message, position, *others = values
    length, first_offset, last_offset, continue_at, path = others
    severity = graded and Severity[graded]
    return Finding(Codes[code], message, position, length, first_offset, last_offset, continue_at, path, severity)
