"""Logs in memory, salvaged: what the tests of ``mend`` share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from kdump.codes import Severity
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import RecoveryOutcome, recover
from kdump.log.content import ContentSource
from kdump.repair.salvage import siblingcontext
from kdump.repair.salvage.pieces import PieceOrigin, RepairedLog
from kdump.repair.salvage.replica import Replica
from kdump.repair.salvage.salvage import SalvageOptions, salvage
from kdump.repair.salvage.siblingcontext import SiblingContext
from tests.harness.batches import entries
from tests.harness.checked import check
from tests.harness.memory import MemorySource

PATH = "memory"


@dataclass(frozen=True)
class Mended:
    """What became of a log, and its bytes."""

    log: RepairedLog
    data: bytes

    @property
    def origins(self) -> list[PieceOrigin]:
        return [piece.origin for piece in self.log.pieces]

    @property
    def spans(self) -> list[tuple[str, int, int]]:
        return [(piece.origin.value, piece.first_offset, piece.last_offset) for piece in self.log.pieces]

    @property
    def batches(self) -> list[bytes]:
        return entries(self.data)


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the valid batches of a sibling, by path, are read from now on."""
    reads: Counter[str] = Counter()
    read = siblingcontext.valid_rows_of

    def counted(path: str) -> Iterator[Any]:
        reads[path] += 1
        return read(path)

    monkeypatch.setattr(siblingcontext, "valid_rows_of", counted)
    return reads


def mend(
    data: bytes, around: SiblingContext | None = None, options: SalvageOptions | None = None, **settings: object
) -> Mended:
    """Salvage ``data``; the result is checked for what holds of every result.

    ``settings``: fields of SalvageOptions.
    """
    around = around or SiblingContext(base_offset=0)
    options = replace(options or SalvageOptions(), **settings)  # type: ignore[arg-type]
    log = salvage(MemorySource(data), around, options, list(map(Replica, options.replicas)))
    mended = ContentSource(PATH, log.content, opened=lambda path: _opened(path, data))
    result = Mended(log, mended.read(0, log.size))
    check_result(data, result, around.producers)
    return result


def _opened(path: str, data: bytes) -> MemorySource:
    if path != PATH:
        with open(path, "rb") as file:
            return MemorySource(file.read())
    return MemorySource(data)


def check_result(data: bytes, result: Mended, producers: ProducerStates | None = None) -> None:
    """Verify finds no error in it, recovery cuts nothing, and every byte of the log is kept or told to be dropped."""
    log = result.log
    assert len(result.data) == log.size
    source = MemorySource(result.data)
    recovery = recover(source, log.base_offset, producers or ProducerStates())
    assert recovery.outcome is RecoveryOutcome.UNCHANGED, recovery
    found = check(result.data, base_offsets=[log.base_offset])
    assert [str(one) for one in found if one.severity is Severity.ERROR] == []
    offsets = [(piece.first_offset, piece.last_offset) for piece in log.pieces]
    assert all(one[1] < other[0] for one, other in pairwise(offsets))
    ours = [(piece.position, piece.position + piece.length) for piece in log.pieces if piece.path == PATH]
    at = 0
    for start, end in sorted(ours + [(one.position, one.position + one.length) for one in log.dropped]):
        assert start <= at
        at = max(at, end)
    assert at == len(data)


def put(data: bytes, position: int, new: bytes) -> bytes:
    """``data`` with other bytes at ``position``."""
    return data[:position] + new + data[position + len(new) :]


def base_offset(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)
