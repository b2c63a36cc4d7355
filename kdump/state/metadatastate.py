"""The metadata of each cluster among some paths, as of a moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kdump.codes import Finding
from kdump.kafka.image.copies import MetadataCopy, certain_end, newest
from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.replay import Replayed, StatePoint, replay
from kdump.kafka.image.snapshotrecords import snapshot_records
from kdump.payloads.internal import type_name
from kdump.payloads.message_json import json_text
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.state.metadatarows import StateSelection, redacted
from kdump.verify.metadatalog import replay_findings


@dataclass(frozen=True, slots=True)
class MetadataState:
    """The state of one cluster. ``certain_end``: below it a majority of the voters has everything."""

    copies: list[MetadataCopy]
    copy: MetadataCopy
    replayed: Replayed
    certain_end: int | None

    @property
    def image(self) -> MetadataImage:
        """The metadata."""
        return self.replayed.image

    @classmethod
    def of(cls, copies: list[MetadataCopy], until: StatePoint) -> MetadataState:
        """From the newest copy of one cluster. Raises KdumpError where its files cannot be read."""
        copy = newest(copies)
        replayed = replay(copy.log, until)
        voters = [voter["voterId"] for voter in replayed.quorum.voters]
        return cls(copies, copy, replayed, certain_end(copies, copy, voters))

    @property
    def transaction_partitions(self) -> int | None:
        """How many partitions the transaction coordinators' topic has; None: there is none."""
        topic = self.image.topics.by_name.get(INTERNAL_TOPICS["transaction-log"])
        return None if topic is None else len(topic.partitions)

    @property
    def findings(self) -> Iterator[Finding]:
        """What is wrong with the log that was read."""
        return replay_findings(self.replayed)

    def head(self) -> dict[str, Any]:
        """The row that says which state this is."""
        provenance, quorum = self.image.provenance, self.replayed.quorum
        snapshot = self.replayed.snapshot
        return {
            "type": "metadata",
            "directory": self.copy.log.directory,
            "clusterId": self.copy.cluster_id,
            "nodeId": self.copy.node_id,
            "offset": provenance.offset,
            "epoch": provenance.epoch,
            "timestamp": provenance.timestamp,
            "snapshot": None if snapshot is None else snapshot.name,
            "logStartOffset": self.copy.log.start_offset,
            "kraftVersion": quorum.kraft_version,
            "leader": quorum.leader,
            "copies": len(self.copies),
            "certainEndOffset": self.certain_end,
        }

    def voters(self) -> Iterator[dict[str, Any]]:
        """The voters of the quorum."""
        for voter in self.replayed.quorum.voters:
            yield {
                "type": "voter",
                "id": voter["voterId"],
                "directoryId": voter.get("voterDirectoryId"),
                "endpoints": [dict(endpoint) for endpoint in voter.get("endpoints") or []],
            }

    def records(self, selected: StateSelection) -> Iterator[str]:
        """The records of a snapshot, one JSON object a line."""
        for message in snapshot_records(self.image):
            values = message.shown
            if not _is_selected(message.schema.name, values, self.image, selected):
                continue
            if not selected.show_secrets:
                values = redacted(message.schema.name, values)
            yield json_text({"type": type_name(message.schema), "version": message.version, "data": values}) + "\n"


def _is_selected(record: str, values: dict[str, Any], image: MetadataImage, selected: StateSelection) -> bool:
    """Whether a record of a snapshot is of something that is selected."""
    match record:
        case "RegisterBrokerRecord":
            return selected.has_broker(values["brokerId"])
        case "TopicRecord":
            return selected.shows_topic(image.topics.by_id[values["topicId"]])
        case "PartitionRecord":
            topic = image.topics.by_id[values["topicId"]]
            return selected.has_topic(topic.name) and selected.has_partition(topic.partitions[values["partitionId"]])
        case "ConfigRecord":
            return selected.has_resource(values["resourceType"], values["resourceName"])
    return selected.is_all


def name_of(state: MetadataState) -> str:
    """The cluster in a heading."""
    cluster = state.copy.cluster_id
    return f"cluster {cluster}" if cluster else os.path.basename(state.copy.log.directory)
