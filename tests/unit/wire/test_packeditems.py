"""Items that are held as bytes come back as they were."""

from __future__ import annotations

import tracemalloc
from operator import attrgetter

import pytest

from kdump.repair.salvage.pieces import LogPiece, Lost, PieceOrigin, packed, packed_pieces
from kdump.wire import packeditems
from kdump.wire.packeditems import PackedItems


def piece(number: int) -> LogPiece:
    is_made = number % 3 == 0
    patches = ((4, b"\xff"),) if number % 3 == 1 else ()
    path, data = (None, b"\0\xff") if is_made else ("a/\udcff.log", b"")
    origin = list(PieceOrigin)[number % len(PieceOrigin)]
    return LogPiece(origin, path, number << 40, 70, patches, data, number, number + 1, 1, 2)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 21])
def test_items_come_back(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packeditems, "_BLOCK", 4)
    items = [piece(number) for number in range(count)]
    held = packed_pieces(iter(items))
    for _ in range(2):
        assert list(held) == items
    assert len(held) == count
    assert [held[number] for number in range(-count, count)] == items + items
    assert held[1:-1] == items[1:-1]
    assert held == tuple(items)
    assert held == packed_pieces(items)
    assert held != (*items, piece(0))
    assert not count or held != [*items[:-1], piece(99)]
    with pytest.raises(IndexError):
        held[count]


def test_nothing_else_is_equal() -> None:
    assert PackedItems((), attrgetter("a"), tuple) != 0


@pytest.mark.slow
def test_many_items_take_little_memory() -> None:
    tracemalloc.start()
    try:
        held = packed_pieces(map(piece, range(50_000)))
        lost = packed(Lost, (Lost(number, number, is_held=False) for number in range(50_000)))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # As objects they take 500 bytes each, and 120.
    assert size < 100 * 50_000
    assert sum(1 for _ in held) == sum(1 for _ in lost) == 50_000
