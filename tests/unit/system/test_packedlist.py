"""Lists whose items are held as bytes."""

from __future__ import annotations

from kdump.system.packedlist import PackedList


def test_items_come_in_their_order_and_the_other_way_round() -> None:
    packed = PackedList[object]()
    items = [("a", 1, None), b"", {"k": [1.5, True]}]
    assert not packed
    for item in items:
        packed.append(item)
    assert len(packed) == len(items)
    assert list(packed) == list(packed) == items
    assert list(reversed(packed)) == items[::-1]
    assert items[2] in packed
    assert "b" not in packed
