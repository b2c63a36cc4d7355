"""Single entries: what is wrong with one, in its header or in its records."""

from __future__ import annotations

import pytest

from kdump.repair.salvage.inventory import examine
from tests.harness.batches import v2_batch
from tests.harness.fast_reference import Row


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({}, None),
        ({"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}, None),
        ({"producer_id": 5}, None),
        ({"attributes": 7}, "codec 7"),
        ({"record_count": -1}, "record count is -1"),
        ({"last_offset_delta": -9}, "lastOffsetDelta is -9"),
    ],
)
def test_what_is_wrong_with_an_entry(header: dict[str, int], said: str | None) -> None:
    row, fault = examine(memoryview(v2_batch([Row(0, 0, None, b"v")], base_offset=3, **header)), 100)
    assert (row.position, row.base_offset) == (100, 3)
    assert fault is None if said is None else fault is not None and said in fault
