"""Where to find the records of a consumer group or of a transactional id.

Source: Kafka's ``partitionFor`` (GroupCoordinatorService, TransactionStateManager) and ``Utils.abs``; in all record
types of both topics the key begins with the record's type and that name (docs/spec/formats.md#101-coordinator-logs).
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from kdump.payloads.java import string_hash
from kdump.payloads.topics import INTERNAL_TOPICS

DEFAULT_PARTITIONS: Final = 50
"""``offsets.topic.num.partitions`` and ``transaction.state.log.num.partitions``."""
_SMALLEST_INT32: Final = -(2**31)


class CoordinatorKey(NamedTuple):
    """A group or transactional id.

    ``kind``: what it is, for people; ``decoder``: the name of its topic's decoder; ``name``: in it surrogates stand for
    bytes that are no UTF-8.
    """

    kind: str
    decoder: str
    name: str

    @property
    def topic(self) -> str:
        """The topic of its coordinator."""
        return INTERNAL_TOPICS[self.decoder]

    @property
    def stored_name(self) -> bytes:
        """The name as it stands in its records, after its length in two bytes."""
        return self.name.encode("utf-8", "surrogateescape")

    @property
    def key_pattern(self) -> re.Pattern[bytes]:
        """A pattern found in the keys of its records."""
        name = self.stored_name
        return re.compile(rb"(?s)\A.." + re.escape(struct.pack(">h", len(name)) + name))

    def partition(self, partitions: int) -> int:
        """Its partition, in a topic with ``partitions`` partitions."""
        number = string_hash(self.name)
        return (0 if number == _SMALLEST_INT32 else abs(number)) % partitions

    def likely_partitions(self, partition: int, least: int, count_here: int | None = None) -> int | None:
        """How many partitions the topic must have for Kafka to put this name in ``partition``; None: Kafka did not.

        The number of partitions here, else Kafka's default, else the least one that fits.

        Args:
            partition: that has records of it.
            least: the topic has as many or more.
            count_here: how many partitions are here, where they seem to be all.
        """
        if count_here is not None and self.partition(count_here) == partition:
            return count_here
        least = max(least, partition + 1)
        if least <= DEFAULT_PARTITIONS and self.partition(DEFAULT_PARTITIONS) == partition:
            return DEFAULT_PARTITIONS
        # A number of partitions with this remainder divides the difference.
        difference = abs(string_hash(self.name)) - partition
        return next((count for count in range(least, 10 * DEFAULT_PARTITIONS) if difference % count == 0), None)


def group(name: str) -> CoordinatorKey:
    """A consumer, share or streams group, or any other that commits offsets."""
    return CoordinatorKey("group", "offsets", name)


def transactional_id(name: str) -> CoordinatorKey:
    """A transactional id."""
    return CoordinatorKey("transactional id", "transaction-log", name)
