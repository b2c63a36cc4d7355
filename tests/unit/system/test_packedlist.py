"""Lists whose items are held as bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from kdump.system import packedlist
from kdump.system.packedlist import PackedList


@pytest.mark.parametrize("block", [1, 16, packedlist.BLOCK], ids=("one item each", "small blocks", "one block"))
def test_items_come_in_their_order_and_the_other_way_round(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packedlist, "BLOCK", block)
    packed = PackedList[object]()
    items = [("a", 1, None), b"", {"k": [1.5, True]}, b"\xff" * 5000, "", 7]
    assert not packed
    for item in items:
        packed.append(item)
    assert len(packed) == len(items)
    assert list(packed) == list(packed) == items
    assert list(reversed(packed)) == items[::-1]
    assert items[2] in packed
    assert "b" not in packed


def test_items_that_are_alike_take_a_tenth_of_their_bytes() -> None:
    tracemalloc.start()
    packed = PackedList[object]()
    number = 50_000
    for offset in range(number):
        packed.append(("controller", offset, "RemoveUserScramCredentialRecord", f"no credential of u{offset}", None))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Without compression 100 bytes each. The last block is not full.
    assert held < 20 * number + 2 * packedlist.BLOCK
    assert len(packed) == number
