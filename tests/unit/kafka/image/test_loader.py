"""Batches of many records: they are not held decoded, and one unreadable record keeps all of them out of the image."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from kdump import limits
from kdump.kafka.image import loader
from kdump.kafka.image.loader import ImageLoader
from kdump.kafka.image.metadatalog import MetadataBatch, UnreadableBatchError

HELD, COUNT = 4, 40


def topic(number: int) -> bytes:
    """A TopicRecord of version 0."""
    return b"\1\2\0\4t%02d" % number + bytes(15) + bytes((number + 1, 0))


def batch(*values: bytes) -> MetadataBatch:
    return MetadataBatch(10, 9 + len(values), 3, 1000, False, [(None, value) for value in values], 0, "log")


TOPICS = [topic(number) for number in range(COUNT)]


@pytest.mark.parametrize("place", [0, HELD - 1, HELD, COUNT - 1])
def test_nothing_of_a_batch_with_an_unreadable_record_is_applied(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    monkeypatch.setattr(loader, "_MOST_HELD", HELD)
    image = ImageLoader()
    values = [*TOPICS[:place], TOPICS[place][:-1], *TOPICS[place + 1 :]]
    with pytest.raises(UnreadableBatchError) as caught:
        image.load(batch(*values))
    assert caught.value.offset == 10 + place
    assert str(caught.value).startswith("the value is TopicRecord of version 0 and does not decode: ")
    assert not image.image.topics.by_id
    assert not image.faults
    image.load(batch(*TOPICS))
    assert len(image.image.topics.by_id) == COUNT
    assert not image.faults, "no topic was there already"


@pytest.mark.parametrize(("limit", "is_read"), [(COUNT - 1, False), (COUNT, True)])
def test_records_over_the_limit_are_unreadable(monkeypatch: pytest.MonkeyPatch, limit: int, is_read: bool) -> None:
    monkeypatch.setitem(limits._given, limits.METADATA, limit)
    image = ImageLoader()
    with nullcontext() if is_read else pytest.raises(UnreadableBatchError, match="--most metadata=NUMBER"):
        image.load(batch(*TOPICS))
    assert len(image.image.topics.by_id) == (COUNT if is_read else 0)
