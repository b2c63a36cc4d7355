"""What each level of ``metadata.version`` can write.

Source: docs/spec/metadata.md#32-from-the-image-to-records (MetadataVersion). The levels and their names are facts of a
release, see ``kdump/releases.py``.
"""

from __future__ import annotations

from typing import Final

from kdump.kafka.image.faults import ReplayError
from kdump.releases import NEWEST, Release

FEATURE: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
UNSUPPORTED: Final = (0, 0)
"""The lowest and the highest level of a feature that a release does not have."""
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
    """Whether the image takes a level of metadata.version (MetadataVersion.fromFeatureLevel).

    Without a release any level is taken that is above those of the newest.

    Raises:
        ReplayError: the release does not know the level.
    """
    levels = (release or NEWEST).levels
    if level not in levels and not (release is None and level > max(levels)):
        raise ReplayError(f"metadata.version {level} is unknown to Kafka {(release or NEWEST).version}")


def level_name(level: int) -> str | None:
    """The name of a level of metadata.version; None for one of a newer Kafka than those that kdump knows."""
    return NEWEST.levels.get(level)


def is_newer_level(feature: str, level: int) -> bool:
    """No controller of a release that kdump knows takes the level."""
    return level > NEWEST.features.get(feature, UNSUPPORTED)[1]


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
