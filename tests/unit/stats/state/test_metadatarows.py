"""The metadata image as rows."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import TypeVar

from kdump.kafka.image.image import MetadataImage
from kdump.stats.state.metadatarows import config_resources, quota_entities

ItemT = TypeVar("ItemT")


def items_and_memory(sort: Callable[[MetadataImage], Iterator[ItemT]], image: MetadataImage) -> tuple[list[ItemT], int]:
    """What a function gives of an image, and the most bytes that it takes until the first item comes."""
    tracemalloc.start()
    found = sort(image)
    first = next(found)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return [first, *found], peak


def test_who_has_quotas_comes_sorted_by_text_and_takes_little_memory_for_each() -> None:
    image = MetadataImage()
    entities = [(("user", f"u{number}"),) for number in range(20_000)]
    for entity in (*entities, (("client-id", None),), (("client-id", "b"), ("user", None))):
        image.quotas[entity] = {"k": 1.0}
    wanted = sorted(image.quotas, key=str)
    found, peak = items_and_memory(quota_entities, image)
    assert found == wanted
    # With the entities as objects beside their texts 300 bytes each.
    assert peak < 180 * len(wanted)


def test_what_has_configs_comes_sorted_and_takes_little_memory_for_each() -> None:
    image = MetadataImage()
    resources = [(2, f"t{number}") for number in range(20_000)]
    for resource in (*resources, (4, "1"), (4, ""), (2, "\xe9")):
        image.configs[resource] = {"n": "v"}
    wanted = sorted(image.configs)
    found, peak = items_and_memory(config_resources, image)
    assert found == wanted
    # With a pair for each 130 bytes.
    assert peak < 90 * len(wanted)
