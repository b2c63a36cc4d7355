"""``kdump.cluster_state``: what a cluster knew at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kdump.codes import Codes, KdumpError
from kdump.inputs import Input, inputs_of
from kdump.library.answers import GroupOffset
from kdump.library.arguments import Paths, Time, milliseconds, paths_of
from kdump.library.jsonvalues import JsonRow, JsonRows, JsonValue, fail
from kdump.library.logfindings import LogFinding
from kdump.wire.compression import DEFAULT_LIMIT

Endpoints = Sequence[Mapping[str, Any]]
FeatureRanges = Mapping[str, Sequence[int]]
"""The lowest and the highest level of each feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataHead(JsonValue):
    """Which state this is: a line ``metadata``. Times in ms since 1970."""

    directory: str
    cluster_id: str | None
    node_id: int | None
    offset: int
    """Of the last record that counts, with its leader epoch and its time."""
    epoch: int
    timestamp: int
    snapshot: str | None
    log_start_offset: int
    kraft_version: int
    leader: int | None
    copies: int
    certain_end_offset: int | None
    """Below it a majority of the voters has everything; None: too few copies are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumVoter(JsonValue):
    """A voter of the quorum: a line ``voter``."""

    id: int
    directory_id: str | None
    endpoints: Endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFeature(JsonValue):
    """A finalized feature: a line ``feature``. ``version``: the name of a metadata.version."""

    name: str
    level: int
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBroker(JsonValue):
    """A broker: a line ``broker``."""

    id: int
    epoch: int
    incarnation_id: str
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    listeners: Endpoints
    features: FeatureRanges
    directories: Sequence[str]
    cordoned_directories: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterController(JsonValue):
    """A controller: a line ``controller``."""

    id: int
    incarnation_id: str
    zk_migration_ready: bool
    listeners: Endpoints
    features: FeatureRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopic(JsonValue):
    """A topic: a line ``topic``. ``is_current``: false of the older one of two topics with one name."""

    name: str
    topic_id: str
    partitions: int
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPartition(JsonValue):
    """A partition: a line ``partition``. ``directories``: the id of the log directory of each replica."""

    topic: str
    topic_id: str
    partition: int
    leader: int
    """-1: none."""
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: str
    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int]
    last_known_elr: Sequence[int]
    adding_replicas: Sequence[int]
    removing_replicas: Sequence[int]
    directories: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig(JsonValue):
    """A config of a resource: a line ``config``. ``resource_name``: '' for the default of all."""

    resource_type: str
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQuota(JsonValue):
    """A quota: a line ``quota``. ``entity``: names by type, None for the default of all."""

    entity: Mapping[str, str | None]
    key: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIds(JsonValue):
    """The next producer id of the cluster: a line ``producerIds``."""

    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAcl(JsonValue):
    """An ACL: a line ``acl``."""

    id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUser(JsonValue):
    """A SCRAM credential: a line ``scram``."""

    user: str
    mechanism: str
    iterations: int
    salt: str
    stored_key: str
    server_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken(JsonValue):
    """A delegation token: a line ``token``. Times in ms since 1970."""

    owner: str
    requester: str
    renewers: Sequence[str]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientGroup(JsonValue):
    """A group of consumers: a line ``group``."""

    group: str
    group_type: str
    state: str
    epoch: int
    protocol: str | None
    leader: str | None
    members: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalId(JsonValue):
    """What the coordinator knows of a transactional id: a line ``transactionalId``. Times in ms since 1970."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str | int
    partitions: Sequence[str]
    transaction_timeout_ms: int
    transaction_start_timestamp: int
    transaction_last_update_timestamp: int
    record_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedTransaction(JsonValue):
    """A transaction that is open in a log: a line ``openTransaction``."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    start_timestamp: int | None
    duration_ms: int | None
    transactional_id: str | None
    is_known: bool | None
    """The coordinator knows it; None: what it knows is not among the paths."""
    abort: str | None
    """The command that ends it, where nobody knows it."""


_KINDS: Final[Mapping[str, type[JsonValue]]] = {
    "metadata": MetadataHead,
    "voter": QuorumVoter,
    "feature": ClusterFeature,
    "broker": ClusterBroker,
    "controller": ClusterController,
    "topic": ClusterTopic,
    "partition": ClusterPartition,
    "config": ClusterConfig,
    "quota": ClusterQuota,
    "producerIds": ProducerIds,
    "acl": ClusterAcl,
    "scram": ScramUser,
    "token": DelegationToken,
    "group": ClientGroup,
    "committedOffset": GroupOffset,
    "transactionalId": TransactionalId,
    "openTransaction": UnfinishedTransaction,
}
"""By the type of the line."""


class ClusterState(JsonRows):
    """What ``kdump state`` tells of a cluster, each kind of thing in a list of its own."""

    @property
    def metadata(self) -> list[MetadataHead]:
        """One for each cluster among the paths: which state this is."""
        return self.select(MetadataHead)

    @property
    def voters(self) -> list[QuorumVoter]:
        """Of the quorum of controllers."""
        return self.select(QuorumVoter)

    @property
    def features(self) -> list[ClusterFeature]:
        """Finalized ones."""
        return self.select(ClusterFeature)

    @property
    def brokers(self) -> list[ClusterBroker]:
        """Registered ones."""
        return self.select(ClusterBroker)

    @property
    def controllers(self) -> list[ClusterController]:
        """Registered ones."""
        return self.select(ClusterController)

    @property
    def topics(self) -> list[ClusterTopic]:
        """All of them, by name."""
        return self.select(ClusterTopic)

    @property
    def partitions(self) -> list[ClusterPartition]:
        """All of them, by topic and number."""
        return self.select(ClusterPartition)

    @property
    def configs(self) -> list[ClusterConfig]:
        """Those of topics, brokers and other resources."""
        return self.select(ClusterConfig)

    @property
    def quotas(self) -> list[ClusterQuota]:
        """Those of clients."""
        return self.select(ClusterQuota)

    @property
    def producer_ids(self) -> list[ProducerIds]:
        """The next one; none where no block of ids was given out."""
        return self.select(ProducerIds)

    @property
    def acls(self) -> list[ClusterAcl]:
        """Access control entries."""
        return self.select(ClusterAcl)

    @property
    def scram(self) -> list[ScramUser]:
        """Credentials."""
        return self.select(ScramUser)

    @property
    def tokens(self) -> list[DelegationToken]:
        """Delegation tokens."""
        return self.select(DelegationToken)

    @property
    def groups(self) -> list[ClientGroup]:
        """Of the partitions of ``__consumer_offsets`` among the paths."""
        return self.select(ClientGroup)

    @property
    def group_offsets(self) -> list[GroupOffset]:
        """What the groups had committed."""
        return self.select(GroupOffset)

    @property
    def transactional_ids(self) -> list[TransactionalId]:
        """Of the partitions of ``__transaction_state`` among the paths."""
        return self.select(TransactionalId)

    @property
    def open_transactions(self) -> list[UnfinishedTransaction]:
        """Of the partitions among the paths."""
        return self.select(UnfinishedTransaction)

    @property
    def findings(self) -> list[LogFinding]:
        """What is wrong with the metadata logs."""
        return self.select(LogFinding)


def cluster_state(
    path: Paths,
    *,
    at: Time = None,
    at_offset: int | None = None,
    show_secrets: bool = False,
    max_decompressed_size: int = DEFAULT_LIMIT,
) -> ClusterState:
    """What a cluster knew at a time, as ``kdump state`` gives it: its metadata, its groups, its transactions.

    The last value of each key of a partition, which the command also shows, is left out.

    Args:
        path: ``__cluster_metadata-0``, its files, log directories, partitions of ``__consumer_offsets`` and of
            ``__transaction_state``; one or many. Copies of one metadata log are one log with several witnesses.
        at: the time; a datetime (without a time zone: UTC) or ms since 1970. None: the end of the logs.
        at_offset: in place of a time the last offset of the metadata log that counts; groups and transactions are left
            out then.
        show_secrets: with passwords, keys and token ids.
        max_decompressed_size: bytes; a batch that decompresses to more is left out as damage is.

    Raises:
        ValueError: both a time and an offset.
        KdumpError: a path cannot be read, or none holds anything that has a state.
    """
    if at is not None and at_offset is not None:
        raise ValueError("a state is that at a time or that at an offset, not both")
    inputs = inputs_of(dict.fromkeys(paths_of(path)), fail, with_patterns=True)
    paths = [found.path for found in inputs]
    moment = milliseconds(at)
    clusters = list(_metadata(paths, moment, at_offset, show_secrets=show_secrets))
    state = [row for _, rows in clusters for row in rows]
    if at_offset is None:
        partitions = clusters[-1][0] if clusters else None
        state += _coordinators(inputs, moment, partitions, is_alone=not clusters, limit=max_decompressed_size)
    if not state:
        raise KdumpError(Codes.NO_SEGMENTS, "nothing that has a state, by the names of directories", path=paths[0])
    return ClusterState(state)


def _metadata(
    paths: Sequence[str], at: int | None, at_offset: int | None, *, show_secrets: bool
) -> Iterator[tuple[int | None, list[JsonRow]]]:
    """For each cluster the number of its transaction coordinators' partitions, and the rows."""
    from kdump.kafka.image.copies import by_cluster, find_copies
    from kdump.kafka.image.replay import StatePoint
    from kdump.state.metadatarows import StateSelection, image_rows
    from kdump.state.metadatastate import MetadataState

    selected = StateSelection(show_secrets=show_secrets)
    for copies in by_cluster(find_copies(paths, fail)):
        state = MetadataState.of(copies, StatePoint(at_offset, at))
        rows: list[JsonRow] = [_row(row) for row in (state.head(), *state.voters(), *image_rows(state.image, selected))]
        rows += (LogFinding(finding, finding.path or "") for finding in state.findings)
        yield state.transaction_partitions, rows


def _coordinators(
    inputs: Sequence[Input], at: int | None, transaction_partitions: int | None, *, is_alone: bool, limit: int
) -> Iterator[JsonRow]:
    from kdump.kafka.image.names import TopicNames
    from kdump.state.coordinators import KnownTopics, coordinator_rows
    from kdump.verify.partitionentries import PartitionEntries

    # A path may hold a metadata log and nothing else.
    logs = PartitionEntries(inputs, on_error=fail if is_alone else lambda error: None, limit=limit)
    topics = KnownTopics(TopicNames([found.path for found in inputs]), transaction_partitions)
    for kind, found in coordinator_rows(logs, at, topics, lambda note: None, fail):
        yield from (_row({"type": kind, **row}) for row in found)


def _row(row: Mapping[str, Any]) -> JsonRow:
    return _KINDS[row["type"]].of_row(row)
