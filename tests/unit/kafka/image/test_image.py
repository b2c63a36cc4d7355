"""Changes of the configs of topics that wait until their batch is complete."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator

import pytest

from kdump.kafka.image.image import MetadataDelta, MetadataImage, Provenance

CONFIG, TOPIC, REMOVE_TOPIC = 4, 2, 9
TOPIC_ID = "A" * 21 + "w"
RESOURCE = 2, "t"


def replayed(image: MetadataImage, *changes: tuple[str, str | None] | None) -> MetadataDelta:
    """A batch of configs; None: the topic is removed and made again."""
    delta = MetadataDelta(image)
    for change in changes:
        if change is None:
            delta.replay(REMOVE_TOPIC, {"topicId": TOPIC_ID})
            delta.replay(TOPIC, {"name": "t", "topicId": TOPIC_ID})
        else:
            name, value = change
            delta.replay(CONFIG, {"resourceType": 2, "resourceName": "t", "name": name, "value": value})
    return delta


def image_with(configs: dict[str, str]) -> MetadataImage:
    """A topic with configs."""
    image = MetadataImage()
    delta = MetadataDelta(image)
    delta.replay(TOPIC, {"name": "t", "topicId": TOPIC_ID})
    delta.apply(Provenance())
    image.configs[RESOURCE] = configs
    image.configs[2, "u"] = {"z": "1"}
    return image


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([None], None),
        ([("a", "2"), ("x", "3"), None], None),
        ([None, ("x", "1"), ("b", "2"), ("y", "")], [("b", "2"), ("x", "1"), ("y", "")]),
        ([None, ("a", "2"), ("a", None), ("b", "3")], [("b", "3")]),
        ([None, ("a", "2"), None, ("d", "4")], [("d", "4")]),
        ([("a", None), ("d", "4")], [("b", "b"), ("c", "c"), ("d", "4")]),
    ],
)
def test_a_removed_topic_keeps_what_was_set_after_it(
    changes: list[tuple[str, str | None] | None], left: list[tuple[str, str]] | None
) -> None:
    """In the order of the image, then in that of the changes."""
    image = image_with({"a": "a", "b": "b", "c": "c"})
    delta = replayed(image, *changes)
    waiting = {name: delta.config_of(RESOURCE, name) for name in "abcdxy"}
    delta.apply(Provenance())
    after = image.configs.get(RESOURCE)
    assert (None if after is None else list(after.items())) == left
    assert waiting == {name: (after or {}).get(name) for name in "abcdxy"}
    assert list(image.configs) == ([RESOURCE] if left else []) + [(2, "u")]


class Counted(dict[str, str]):
    """Counts how often it is gone through."""

    passes = 0

    def __iter__(self) -> Iterator[str]:
        self.passes += 1
        return super().__iter__()

    def items(self) -> ItemsView[str, str]:
        self.passes += 1
        return super().items()


def test_configs_of_a_topic_that_is_removed_again_and_again_are_gone_through_once() -> None:
    configs = Counted({str(number): "1" for number in range(10)})
    image = image_with(configs)
    replayed(image, *[None] * 20, ("3", "2")).apply(Provenance())
    assert configs.passes == 1
    assert image.configs[RESOURCE] == {"3": "2"}
