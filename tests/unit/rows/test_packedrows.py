"""Rows that are held as bytes."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.rows.packedrows import PackedRows, ShownRows

ROWS: list[dict[str, Any]] = [
    {"group": "g", "offset": 2**63 - 1, "value": b"\xff", "members": [{"id": None}], "lag": 1.5},
    {"group": "\ud800\0", "offset": -1, "value": None, "members": [], "lag": True},
]


def test_rows_come_out_as_they_went_in_each_time() -> None:
    packed = PackedRows(iter(ROWS))
    assert list(packed) == list(packed) == ROWS
    assert [list(row) for row in packed] == [list(row) for row in ROWS]
    assert (len(packed), bool(packed), ROWS[1] in packed, {} in packed) == (2, True, True, False)
    assert not PackedRows([])


@pytest.mark.parametrize("other", [{"offset": 1, "group": "g"}, {"group": "g"}, {"group": "g", "position": 1}])
def test_rows_have_the_same_members(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="among those of group, offset"):
        PackedRows([{"group": "g", "offset": 1}, other])


def test_rows_of_several_parts_are_changed_when_they_are_asked_for() -> None:
    shown = ShownRows([PackedRows(ROWS), PackedRows([]), PackedRows(ROWS[:1])], lambda row: row | {"lag": 0})
    assert [row["group"] for row in shown] == ["g", "\ud800\0", "g"]
    assert {row["lag"] for row in shown} == {0}
    assert (len(shown), ROWS[0] | {"lag": 0} in shown, ROWS[0] in shown) == (3, True, False)
