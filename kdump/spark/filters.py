"""Filters that Spark hands down (``spark.sql.python.filterPushdown.enabled``), as what to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kdump.reading.selection import Range
from kdump.rows.arrow import MOST_MILLISECONDS
from kdump.tasks.logs import Wanted

_T = TypeVar("_T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_NULL: Final = Range(-MOST_MILLISECONDS, MOST_MILLISECONDS + 1)


@dataclass
class Pushed:
    """What the filters leave of partitions, offsets and times (ms)."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offsets: Range = field(default_factory=Range)
    times: Range = field(default_factory=Range)

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Take in what can be kept; gives back what Spark must ask of each row all the same.

        That is also what was taken in of offsets and timestamps: a row that tells of a file that cannot be read has
        neither, and no filter on them leaves it.
        """
        for found in filters:
            if not self._take_partition(found):
                self._take_bound(found)
                yield found

    def narrowed(self, wanted: Wanted) -> Wanted:
        """What is left of what was wanted."""
        return Wanted(
            _both(wanted.topics, self.topics),
            wanted.topic_pattern,
            _both(wanted.partitions, self.partitions),
            wanted.offsets.intersection(self.offsets),
            wanted.starts,
            wanted.ends,
        )

    def _take_partition(self, found: Filter) -> bool:
        match found:
            case EqualTo(("topic",), str() as topic):
                self.topics = _both(self.topics, frozenset({topic}))
            case In(("topic",), topics):
                self.topics = _both(self.topics, frozenset(topic for topic in topics if isinstance(topic, str)))
            case EqualTo(("partition",), int() as partition):
                self.partitions = _both(self.partitions, frozenset({partition}))
            case In(("partition",), partitions):
                numbers = frozenset(number for number in partitions if isinstance(number, int))
                self.partitions = _both(self.partitions, numbers)
            case _:
                return False
        return True

    def _take_bound(self, found: Filter) -> None:
        match found:
            case (
                EqualTo((name,), value)
                | GreaterThan((name,), value)
                | GreaterThanOrEqual((name,), value)
                | LessThan((name,), value)
                | LessThanOrEqual((name,), value)
            ):
                pass
            case _:
                return
        if name == "offset" and isinstance(value, int):
            self.offsets = self.offsets.intersection(_range(found, value, value))
        elif name == "timestamp" and isinstance(value, datetime):
            # A row's time is in whole milliseconds, the bound need not be. A time out of Spark's range is null there.
            microseconds = (_aware(value) - _EPOCH) // timedelta(microseconds=1)
            bound = _range(found, -(-microseconds // 1000), microseconds // 1000)
            self.times = self.times.intersection(bound).intersection(_NOT_NULL)


def _range(found: Filter, least: int, most: int) -> Range:
    """``least``: the smallest number not below the filter's value, ``most`` the largest one not above it."""
    match found:
        case GreaterThan():
            return Range(most + 1, None)
        case GreaterThanOrEqual():
            return Range(least, None)
        case LessThan():
            return Range(None, least)
        case LessThanOrEqual():
            return Range(None, most + 1)
    return Range(least, most + 1)


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo is not None else value.astimezone()


def _both(first: frozenset[_T] | None, second: frozenset[_T] | None) -> frozenset[_T] | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second
