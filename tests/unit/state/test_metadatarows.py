"""The metadata image as rows."""

from __future__ import annotations

from kdump.kafka.image.image import MetadataImage
from kdump.state.metadatarows import config_resources, quota_entities


def test_who_has_quotas_comes_sorted_by_text() -> None:
    image = MetadataImage()
    for entity in ((("user", "u"),), (("client-id", None),), (("client-id", "b"), ("user", None))):
        image.quotas[entity] = {"k": 1.0}
    assert list(quota_entities(image)) == [
        (("client-id", "b"), ("user", None)),
        (("client-id", None),),
        (("user", "u"),),
    ]


def test_what_has_configs_comes_sorted() -> None:
    image = MetadataImage()
    for resource in ((4, "1"), (4, ""), (2, "\xe9"), (2, "t")):
        image.configs[resource] = {"n": "v"}
    assert list(config_resources(image)) == [(2, "t"), (2, "\xe9"), (4, ""), (4, "1")]
