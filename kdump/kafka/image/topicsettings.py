"""The settings of a topic: its own configs, else those of the brokers, else Kafka's defaults.

Source: docs/spec/metadata.md#3-from-records-to-the-image for where configs are; LogConfig and ServerTopicConfigSynonyms
for names and defaults. What only server.properties says is not in the metadata.
"""

from __future__ import annotations

from typing import Final

from kdump.kafka.compaction import DELETE_RETENTION_MS
from kdump.kafka.image.image import TOPIC_RESOURCE, MetadataImage
from kdump.kafka.retention import Retention
from kdump.kafka.segmentindexes import DEFAULT_INDEX_INTERVAL, DEFAULT_INDEX_SIZE

_BROKER_RESOURCE: Final = 4
_RETENTION_MS: Final = 7 * 86_400_000
_UNLIMITED: Final = -1
_AS_THE_WHOLE: Final = -2
_UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
_MIN_ISR: Final = "min.insync.replicas"
DEFAULT_RETENTION: Final = Retention(_RETENTION_MS)
"""That of a topic where nothing is configured."""
MAX_MESSAGE_BYTES: Final = 1_048_588
"""max.message.bytes, the largest batch that a producer may write, where nothing is configured."""


class TopicSettings:
    """Looks settings up.

    Args:
        image: the metadata.
        broker: the node whose own configs count.
    """

    def __init__(self, image: MetadataImage, broker: int | None) -> None:
        self._image = image
        self._broker = broker

    def retention(self, topic: str) -> Retention:
        """The limits of a topic, local and remote together; none where its cleanup.policy is compact only."""
        if "delete" not in (self._value(topic, "cleanup.policy", "log.cleanup.policy") or "delete"):
            return Retention()
        milliseconds = self._number(topic, "retention.ms", "log.retention.ms", _RETENTION_MS)
        size = self._number(topic, "retention.bytes", "log.retention.bytes", _UNLIMITED)
        return Retention(None if milliseconds < 0 else milliseconds, None if size < 0 else size)

    def local_retention(self, topic: str, whole: Retention) -> Retention:
        """The limits of the local log of a topic (LogConfig.localRetentionMs, localRetentionBytes).

        ``whole``: the limits of the topic.
        """
        if not self.is_copied(topic):
            return whole
        return Retention(
            self._local(topic, "retention.ms", whole.milliseconds), self._local(topic, "retention.bytes", whole.size)
        )

    def has_remote_storage(self, topic: str) -> bool:
        """Segments of the topic may be in remote storage (KIP-405)."""
        return self._image.configs.get((TOPIC_RESOURCE, topic), {}).get("remote.storage.enable") == "true"

    def is_copied(self, topic: str) -> bool:
        """Closed segments of the topic are copied to remote storage, which KIP-950 can stop."""
        configs = self._image.configs.get((TOPIC_RESOURCE, topic), {})
        return self.has_remote_storage(topic) and configs.get("remote.log.copy.disable") != "true"

    def delete_retention_ms(self, topic: str) -> int:
        """How long tombstones stay."""
        return self._number(topic, "delete.retention.ms", "log.cleaner.delete.retention.ms", DELETE_RETENTION_MS)

    def max_message_bytes(self, topic: str) -> int:
        """The largest batch that a producer may write."""
        return self._number(topic, "max.message.bytes", "message.max.bytes", MAX_MESSAGE_BYTES)

    def index_interval(self, topic: str) -> int:
        """Bytes of a log between two entries of its indexes."""
        return self._number(topic, "index.interval.bytes", "log.index.interval.bytes", DEFAULT_INDEX_INTERVAL)

    def max_index_size(self, topic: str) -> int:
        """Most bytes of an index file."""
        return self._number(topic, "segment.index.bytes", "log.index.size.max.bytes", DEFAULT_INDEX_SIZE)

    def is_unclean_election_enabled(self, topic: str) -> bool:
        """Whether a replica may lead that is not in sync."""
        return self._value(topic, _UNCLEAN_ELECTION, _UNCLEAN_ELECTION) == "true"

    def min_isr(self, topic: str) -> int:
        """How many replicas must be in sync for a write with acks=all."""
        return self._number(topic, _MIN_ISR, _MIN_ISR, 1)

    def _local(self, topic: str, name: str, whole: int | None) -> int | None:
        own = self._number(topic, f"local.{name}", f"log.local.{name}", _AS_THE_WHOLE)
        return whole if own == _AS_THE_WHOLE else None if own < 0 else own

    def _number(self, topic: str, name: str, synonym: str, default: int) -> int:
        value = self._value(topic, name, synonym)
        try:
            return default if value is None else int(value)
        except ValueError:
            return default

    def _value(self, topic: str, name: str, synonym: str) -> str | None:
        configs = self._image.configs
        own = configs.get((TOPIC_RESOURCE, topic), {}).get(name)
        if own is not None:
            return own
        for broker in (str(self._broker), ""):
            value = configs.get((_BROKER_RESOURCE, broker), {}).get(synonym)
            if value is not None:
                return value
        return None
