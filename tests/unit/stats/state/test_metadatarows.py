"""The metadata image as rows."""

from __future__ import annotations

import tracemalloc

from kdump.kafka.image.image import MetadataImage
from kdump.stats.state.metadatarows import quota_entities


def test_who_has_quotas_comes_sorted_by_text_and_takes_little_memory_for_each() -> None:
    image = MetadataImage()
    entities = [(("user", f"u{number}"),) for number in range(20_000)]
    for entity in (*entities, (("client-id", None),), (("client-id", "b"), ("user", None))):
        image.quotas[entity] = {"k": 1.0}
    wanted = sorted(image.quotas, key=str)
    tracemalloc.start()
    found = quota_entities(image)
    first = next(found)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [first, *found] == wanted
    # With the entities as objects beside their texts 300 bytes each.
    assert peak < 180 * len(wanted)
