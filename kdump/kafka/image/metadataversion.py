"""What each level of ``metadata.version`` can write.

Source: docs/spec/metadata.md#32-from-the-image-to-records (MetadataVersion 4.3.1).
"""

from __future__ import annotations

from typing import Final

FEATURE: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_FEATURE: Final = "eligible.leader.replicas.version"

MIGRATION: Final = 8
SCRAM: Final = 11
DELEGATION_TOKENS: Final = 14
CONTROLLER_REGISTRATION: Final = 15
DIRECTORY_ASSIGNMENT: Final = 17
ELR: Final = 23
CORDONED_DIRECTORIES: Final = 30
"""The first level that has each of these."""

_NAMES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0",
    "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
    "4.4-IV0",
)  # fmt: skip
LEVELS: Final = dict(enumerate(_NAMES, 7))
"""The name of each level that Kafka 4.3.1 knows."""
SUPPORTED_FEATURES: Final = {
    FEATURE: (7, 30),
    KRAFT_VERSION: (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    ELR_FEATURE: (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""The lowest and the highest level of each feature that a controller of Kafka 4.3.1 takes."""


def broker_record_version(level: int) -> int:
    """The version of RegisterBrokerRecord."""
    if level >= CORDONED_DIRECTORIES:
        return 4
    if level >= DIRECTORY_ASSIGNMENT:
        return 3
    return 2 if level >= MIGRATION else 1


def partition_record_version(level: int) -> int:
    """The version of PartitionRecord."""
    return 2 if level >= ELR else 1 if level >= DIRECTORY_ASSIGNMENT else 0
