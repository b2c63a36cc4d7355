"""Names of objects."""

from __future__ import annotations

import pytest

from kdump.tiered.objects import BucketLayout, ObjectName, parse_object, what_else

TOPIC_ID, SEGMENT_ID = "a-B_" + "c" * 18, "-9" + "_" * 20
OWN = f"{7:020d}-{SEGMENT_ID}"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"b/t-{TOPIC_ID}/3/{OWN}.log", ObjectName(BucketLayout.AIVEN, "t", TOPIC_ID, 3, 7, SEGMENT_ID, "log")),
        (
            f"p/x-1-{TOPIC_ID}/0/{OWN}.rsm-manifest",
            (BucketLayout.AIVEN, "x-1", TOPIC_ID, 0, 7, SEGMENT_ID, "rsm-manifest"),
        ),
        (f"t-1-{TOPIC_ID}/{OWN}.snapshot", (BucketLayout.LOCAL, "t", TOPIC_ID, 1, 7, SEGMENT_ID, "snapshot")),
        (f"t-1-{TOPIC_ID}/{OWN}.indexes", None),
        (f"t-{TOPIC_ID}/1/{OWN}.index", None),
        (f"t-{TOPIC_ID}/1/{7:019d}-{SEGMENT_ID}.log", None),
        (f"t-{TOPIC_ID}/99999999999/{OWN}.log", None),
    ],
)
def test_names(path: str, name: ObjectName | None) -> None:
    assert parse_object(path) == name


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("3a/kafka/t/0_21/0-1-v1.log.2", "a segment of Redpanda"),
        ("wh/t/metadata/00001.metadata.json", "Apache Iceberg"),
        ("wh/t/data/x.parquet", "Apache Iceberg"),
        ("readme.txt", None),
    ],
)
def test_others(path: str, owner: str | None) -> None:
    assert what_else(path) == owner
