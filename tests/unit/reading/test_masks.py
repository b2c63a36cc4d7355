"""Filters of batches as columns at their bounds; that they equal those of single batches: tests/property."""

from __future__ import annotations

import numpy as np
import pytest

from kdump.format.batch import HEADER_SIZE, header_dtype, parse_header
from kdump.reading.masks import may_hold_records
from kdump.reading.selection import Range, Selection
from tests.harness.batches import plain_rows, v2_batch


@pytest.mark.parametrize(("count", "may"), [(3, False), (4, True)])
def test_a_batch_with_more_records_than_offsets_may_hold_any(count: int, may: bool) -> None:
    """Offsets of records may lie outside of the range that the header tells, where it cannot hold all of them."""
    batch = v2_batch(plain_rows(3), base_offset=10, record_count=count)
    selection = Selection(offsets=Range(100, 200))
    assert selection.may_hold_records(parse_header(batch)) is may
    assert may_hold_records(np.frombuffer(batch[:HEADER_SIZE], header_dtype()), selection).tolist() == [may]
