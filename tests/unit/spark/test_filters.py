"""What filters of Spark leave to be read, and what Spark must ask of each row all the same."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark", "4.1")

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, IsNotNull, LessThanOrEqual, StringStartsWith

from kdump.reading.selection import Range
from kdump.spark.filters import Pushed
from kdump.tasks.logs import Wanted


def test_what_is_taken_in_and_what_is_given_back() -> None:
    """A row about a file that cannot be read has no offset and no timestamp: Spark asks for both again."""
    of_file: list[Filter] = [EqualTo(("topic",), "t"), EqualTo(("partition",), 3)]
    of_record: list[Filter] = [
        IsNotNull(("offset",)),
        GreaterThan(("offset",), 4),
        LessThanOrEqual(("timestamp",), datetime(2024, 1, 1, tzinfo=UTC)),
        StringStartsWith(("topic",), "t"),
    ]
    pushed = Pushed()
    assert list(pushed.take(of_file + of_record)) == of_record
    assert pushed.narrowed(Wanted()) == Wanted(frozenset({"t"}), None, frozenset({3}), Range(5, None))
    assert pushed.times.end == 1_704_067_200_001
