"""What each level of ``metadata.version`` can write.

Source: docs/spec/metadata.md#32-from-the-image-to-records (MetadataVersion). The levels and their names are facts of a
release, see ``kdump/releases.py``.
"""

from __future__ import annotations

from typing import Final

from kdump.kafka.image.faults import NewerError, ReplayError
from kdump.releases import NEWEST, Release

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


def check_level(level: int, release: Release | None) -> None:
    """Whether the image takes a level (MetadataVersion.fromFeatureLevel).

    Raises:
        NewerError: the release is not given, and the level is above those of the newest.
        ReplayError: any other level that the release does not know.
    """
    levels = (release or NEWEST).levels
    if level in levels:
        return
    if release is None and level > max(levels):
        raise NewerError(f"metadata.version {level}")
    raise ReplayError(f"metadata.version {level} is unknown to Kafka {(release or NEWEST).version}")


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
