"""Batches of many records: they are not held decoded, and one unreadable record keeps all of them out of the image."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from kdump import limits
from kdump.kafka.image import loader
from kdump.kafka.image.image import MetadataDelta
from kdump.kafka.image.loader import ImageLoader
from kdump.kafka.image.metadatalog import MetadataBatch, UnreadableBatchError
from kdump.payloads.internal import DecodedMessage
from tests.harness.living import living

HELD, COUNT = 4, 40


def topic(number: int) -> bytes:
    """A TopicRecord of version 0."""
    return b"\1\2\0\4t%02d" % number + bytes(15) + bytes((number + 1, 0))


def batch(*values: bytes) -> MetadataBatch:
    return MetadataBatch(10, 9 + len(values), 3, 1000, False, [(None, value) for value in values], 0, "log")


TOPICS = [topic(number) for number in range(COUNT)]


class Watch:
    """Notes the names in their order, and the most messages that were there with one of them."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, Any]] = []
        self.most = 0

    def record(self, batch: MetadataBatch, offset: int, message: DecodedMessage, before: MetadataDelta) -> None:
        self.seen.append((offset, message.values["name"]))
        self.most = max(self.most, living(DecodedMessage))

    def refused(self) -> None:
        pytest.fail("every record applies")

    def election(self, batch: MetadataBatch, offset: int, kind: int, values: dict[str, Any]) -> None:
        pytest.fail("no control record is there")


def test_a_batch_of_many_records_is_not_held_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_MOST_HELD", HELD)
    watch = Watch()
    image = ImageLoader(watch)
    before = living(DecodedMessage)
    image.load(batch(*TOPICS))
    assert watch.seen == [(10 + number, f"t{number:02d}") for number in range(COUNT)]
    assert watch.most <= before + HELD + 2
    assert list(image.image.topics.by_name) == [name for _, name in watch.seen]
    assert image.image.provenance == (9 + COUNT, 3, 1000)


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
