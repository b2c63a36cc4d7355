"""The cases of ``fixtures/cases/metadata.tar.zst``: metadata logs with the images of Kafka's own classes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.metadatalog import MetadataLog
from kdump.kafka.image.snapshotrecords import snapshot_records
from kdump.payloads.internal import type_name
from kdump.payloads.message_json import json_value
from tests.harness.archives import case_files


@cache
def metadata_cases() -> list[dict[str, Any]]:
    """The truth. ``dir``: of the log directory; ``records``: of a snapshot; None: Kafka could not write one."""
    lines = case_files("metadata")["metadata/results.jsonl"].decode().splitlines()
    return [json.loads(line) for line in lines]


def metadata_case(name: str) -> dict[str, Any]:
    """One of them by its id."""
    return next(case for case in metadata_cases() if case["id"] == name)


def metadata_log(root: Path, directory: str) -> MetadataLog:
    """The metadata log in a log directory of the unpacked cases."""
    return MetadataLog.of(str(root / directory / "__cluster_metadata-0"))


def as_counted(records: Iterable[Any]) -> Counter[str]:
    """Records in whatever order."""
    return Counter(json.dumps(record, sort_keys=True) for record in records)


def image_records(image: MetadataImage) -> Counter[str]:
    """The records of a snapshot of the image."""
    return as_counted(
        {"type": type_name(message.schema), "version": message.version, "data": json_value(message.shown)}
        for message in snapshot_records(image)
    )
