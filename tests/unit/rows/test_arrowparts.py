"""Arrow rows on their way out: few record batches, however the rows come."""

from __future__ import annotations

import pyarrow as pa

from kdump.rows.arrowparts import ROW_GROUP_BYTES, ArrowParts, RowGroup

SCHEMA = pa.schema([("number", pa.int64()), ("value", pa.binary())])


def batch(number: int, size: int = 1) -> pa.RecordBatch:
    return pa.record_batch([[number], [b"v" * size]], schema=SCHEMA)


def test_small_batches_of_a_row_group_are_joined() -> None:
    group = RowGroup(SCHEMA)
    for number in range(10_000):
        group.add(batch(number))
    assert not group.is_enough
    rows = group.take()
    assert rows.column("number").to_pylist() == list(range(10_000))
    assert rows.column("number").num_chunks < 300
    assert group.take().num_rows == 0


def test_a_row_group_has_enough_bytes() -> None:
    group = RowGroup(SCHEMA)
    group.add(batch(0, ROW_GROUP_BYTES))
    assert group.is_enough
    group.take()
    assert not group.is_enough


def test_rows_made_one_by_one_are_joined_with_those_around() -> None:
    """A transactional log has a marker, a row of its own, after each small batch."""
    parts = ArrowParts(SCHEMA)
    batches = []
    for number in range(0, 20_000, 2):
        parts.add(batch(number))
        parts.add([{"number": number + 1, "value": None}])
        if parts.are_enough:
            batches += parts.take()
    batches += parts.take()
    assert pa.Table.from_batches(batches).column("number").to_pylist() == list(range(20_000))
    assert len(batches) < 50
