"""What the names of a bucket's objects say.

Source: docs/spec/tiered.md#1-names-of-objects.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple


class BucketLayout(Enum):
    """Which plugin wrote an object."""

    AIVEN = "Aiven's tiered storage plugin"
    LOCAL = "Kafka's LocalTieredStorage"


LOG: Final = "log"
INDEXES: Final = "indexes"
MANIFEST: Final = "rsm-manifest"
AIVEN_KINDS: Final = (LOG, INDEXES, MANIFEST)
"""The objects of one segment, in the order in which the plugin writes them."""
INDEX, TIME_INDEX, SNAPSHOT, EPOCHS, TXN_INDEX = "index", "timeindex", "snapshot", "leader_epoch_checkpoint", "txnindex"
LOCAL_KINDS: Final = (LOG, INDEX, TIME_INDEX, SNAPSHOT, EPOCHS)
"""The objects of one segment; with aborted transactions there is a TXN_INDEX too."""

_UUID: Final = r"[0-9A-Za-z_-]{22}"
_OWN: Final = rf"(?P<base>\d{{20}})-(?P<id>{_UUID})\."
_AIVEN: Final = re.compile(
    rf"(?:.*/)?(?P<topic>[^/]+)-(?P<topic_id>{_UUID})/(?P<partition>\d{{1,10}})/{_OWN}(?P<kind>{'|'.join(AIVEN_KINDS)})",
    re.DOTALL,
)
_LOCAL: Final = re.compile(
    rf"(?:.*/)?(?P<topic>[^/]+)-(?P<partition>\d{{1,10}})-(?P<topic_id>{_UUID})/{_OWN}"
    rf"(?P<kind>{'|'.join((*LOCAL_KINDS, TXN_INDEX))})",
    re.DOTALL,
)
_OTHERS: Final = (
    (re.compile(r"(?:.*/)?\d+-\d+-v\d+\.log(?:\.\d+)?(?:\.index|\.tx)?", re.DOTALL), "a segment of Redpanda"),
    (re.compile(r"(?:.*/)?(?:metadata/[^/]*\.(?:metadata\.json|avro)|data/.*\.parquet)", re.DOTALL), "Apache Iceberg"),
)


class ObjectName(NamedTuple):
    """The name of an object, taken apart.

    ``topic``: with a prefix that ends in no slash, this comes first. Only a manifest tells them apart.
    """

    layout: BucketLayout
    topic: str
    topic_id: str
    partition: int
    base_offset: int
    segment_id: str
    kind: str


def parse_object(path: str) -> ObjectName | None:
    """The parts of an object's path; None for what no known plugin writes."""
    for layout, pattern in ((BucketLayout.AIVEN, _AIVEN), (BucketLayout.LOCAL, _LOCAL)):
        if match := pattern.fullmatch(path):
            found = match["topic"], match["topic_id"], int(match["partition"]), int(match["base"]), match["id"]
            return ObjectName(layout, *found, match["kind"])
    return None


def what_else(path: str) -> str | None:
    """Whose object it is that kdump does not read; None: nobody knows."""
    return next((owner for pattern, owner in _OTHERS if pattern.fullmatch(path)), None)
