"""The names of the logs of Kafka 0.7.

Source: docs/spec/old-kafka.md#1-the-07-log-on-disk.
"""

from __future__ import annotations

import os
from typing import Final

from kdump.log.names import parse_offset

TITLE: Final = "Kafka 0.7"
SUFFIX: Final = ".kafka"


def is_log(path: str) -> bool:
    """By its name a log of Kafka 0.7."""
    return path.endswith(SUFFIX)


def base_of(path: str) -> int:
    """The byte position at which a log begins in its partition, by its name; 0 without one."""
    return parse_offset(os.path.basename(path).partition(".")[0]) or 0
