"""Whom the cluster elects when its nodes start, by its metadata in the log directories around the copies.

Source: docs/spec/replicas.md#4-which-leader; docs/spec/metadata.md#2-loading.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from kdump.codes import KdumpError, ignore_error
from kdump.diff.places import PartitionCopies, PathCopies
from kdump.kafka.image.copies import by_cluster, find_copies, newest
from kdump.kafka.image.election import ReplicaStates, possible_leaders, rules_of
from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.replay import Replayed, StatePoint, replay


class Election(NamedTuple):
    """What the metadata says of a partition.

    Attributes:
        possible: the nodes that may lead when all replicas have started.
        topic_id: of the topic; copies of another one become strays.
        leader: the last one, NO_LEADER without one.
        isr: in-sync replicas.
        elr: eligible leader replicas.
        is_unclean_enabled: the metadata lets a replica lead that is not in sync.
        directory: of the metadata log.
        offset: up to which it was read.
        doubts: why the cluster may know more.
    """

    possible: tuple[int, ...]
    topic_id: str
    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    is_unclean_enabled: bool
    directory: str
    offset: int
    doubts: tuple[str, ...]


class Clusters:
    """The metadata of each cluster, by the newest of the metadata logs at hand.

    Args:
        paths: what the PATHs hold. The metadata is looked for in their log directories.
    """

    def __init__(self, paths: Iterable[PathCopies]) -> None:
        directories = {os.path.dirname(copy.directory.rstrip("/")) or "." for path in paths for copy in path.copies}
        found = by_cluster(find_copies(sorted(directories), ignore_error))
        self._copies = {copies[0].cluster_id: copies for copies in found if copies[0].cluster_id is not None}
        self._read = cache(self._newest)

    def election(self, partition: PartitionCopies) -> Election | None:
        """Whom the cluster of the copies elects; None where its metadata is not at hand, or does not know them."""
        copies = [copy for copy in partition.copies if copy.node_id is not None and not copy.is_future]
        clusters = {copy.cluster_id for copy in copies}
        nodes = {copy.node_id for copy in copies}
        is_asked = len(partition.copies) > 1 and len(clusters) == 1 and len(nodes) == len(copies)
        read = self._read(*clusters) if is_asked else None
        if read is None or partition.name is None:
            return None
        image = read.image
        topic = image.topics.by_name.get(partition.name[0])
        known = None if topic is None else topic.partitions.get(partition.name[1])
        if topic is None or known is None:
            return None
        stopped = {copy.node_id: copy.settings is None or copy.settings.is_clean for copy in copies}
        states = ReplicaStates(
            active={replica for replica in known.replicas if _is_active(image, replica)},
            unclean={node for node, is_clean in stopped.items() if node is not None and not is_clean},
            unknown=set(known.replicas) - nodes,
        )
        rules = rules_of(image, topic.name)
        return Election(
            possible_leaders(known, rules, states),
            topic.topic_id,
            known.leader,
            tuple(known.isr),
            tuple(known.elr),
            rules.is_unclean_enabled,
            read.log.directory,
            image.provenance.offset,
            tuple(read.doubts()),
        )

    def _newest(self, cluster_id: str | None) -> Replayed | None:
        if cluster_id not in self._copies:
            return None
        try:
            return replay(newest(self._copies[cluster_id]).log, StatePoint())
        except KdumpError:
            return None


def _is_active(image: MetadataImage, broker: int) -> bool:
    """ClusterControlManager.isActive."""
    known = image.cluster.brokers.get(broker)
    return bool(known and not known["fenced"] and not known["inControlledShutdown"])
