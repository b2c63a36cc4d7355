"""What changed in the metadata between two moments, in the order of the log.

Source: docs/spec/metadata.md#4-rules-of-a-history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from kdump.format import control
from kdump.kafka.image.copies import MetadataCopy, newest
from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.image import (
    RESOURCE_TYPES,
    SCRAM_MECHANISMS,
    MetadataDelta,
    known_acl,
    quota_entity,
    scram_mechanism,
)
from kdump.kafka.image.loader import ABORT, BEGIN, END
from kdump.kafka.image.metadatalog import MetadataBatch, SnapshotFile, UnreadableBatchError
from kdump.kafka.image.partitions import NO_LEADER, RECOVERY_STATES, PartitionRegistration
from kdump.kafka.image.replay import Replayed, StatePoint, replay
from kdump.payloads.internal import DecodedMessage
from kdump.payloads.secretconfigs import REDACTED, is_secret_config
from kdump.reading.selection import Range
from kdump.rows.columns import Row
from kdump.state.metadatarows import acl_row

NO_CHANGE: Final = "no change that was asked for is there"

_MEMBERS: Final = (
    "change", "topic", "topicId", "partition", "broker", "resourceType", "resourceName", "name", "before", "after",
)  # fmt: skip
"""Of each row, after the offset, the leader epoch and the time; null where they have no meaning."""
_FENCED: Final = {True: "broker-fenced", False: "broker-unfenced"}


class ChangeWatcher:
    """Makes a row of each change.

    Args:
        since: what is not after this moment is left out.
        emit: takes the rows, once it is clear that they count.
        show_secrets: with passwords in configs.
    """

    def __init__(self, since: StatePoint, emit: Callable[[Row], None], *, show_secrets: bool = False) -> None:
        self._since = since
        self._emit = emit
        self._show_secrets = show_secrets
        self._rows: list[Row] = []
        """Those of an open transaction, which may be aborted."""
        self._last: list[Row] = []
        """Those of the last record, which may be refused."""
        self._is_open = False

    def record(self, batch: MetadataBatch, offset: int, message: DecodedMessage, before: MetadataDelta) -> None:
        """See Watcher."""
        record_type = message.record_type
        if record_type == ABORT:
            self._rows.clear()
            self._last.clear()
        if not self._is_open or record_type in (END, ABORT):
            self._flush()
        self._rows += self._last
        self._last.clear()
        if BEGIN <= record_type <= ABORT:
            self._is_open = record_type == BEGIN
        if not self._since.is_before(batch):
            return
        try:
            found = _described(record_type, message.values, before)
            self._last += (_row(batch, offset, self._redacted(members)) for members in found)
        except ReplayError:
            # The loader says it.
            return

    def refused(self) -> None:
        """See Watcher."""
        self._last.clear()

    def election(self, batch: MetadataBatch, offset: int, kind: int, values: dict[str, Any]) -> None:
        """See Watcher."""
        if not self._is_open:
            self._flush()
        if not self._since.is_before(batch):
            return
        members: Row | None = None
        if kind == control.LEADER_CHANGE:
            members = {"change": "controller-elected", "broker": values["leaderId"]}
        elif kind == control.KRAFT_VERSION:
            members = {"change": "kraft-version", "after": values["kRaftVersion"]}
        elif kind == control.KRAFT_VOTERS:
            members = {"change": "voters", "after": sorted(voter["voterId"] for voter in values["voters"])}
        if members is not None:
            self._emit(_row(batch, offset, members))

    def finish(self) -> None:
        """After the last record: those of an open transaction do not count."""
        if not self._is_open:
            self._flush()

    def _flush(self) -> None:
        for row in chain(self._rows, self._last):
            self._emit(row)
        self._rows.clear()
        self._last.clear()

    def _redacted(self, members: Row) -> Row:
        if members["change"] == "config" and not self._show_secrets and is_secret_config(members["name"]):
            hidden = {name: REDACTED for name in ("before", "after") if members[name] is not None}
            return members | hidden
        return members


def _shows(snapshot: SnapshotFile, point: StatePoint) -> bool:
    """The snapshot tells what was at the point; one that cannot be read tells nothing."""
    try:
        return point.has(snapshot)
    except UnreadableBatchError:
        return False


def write_changes(
    copies: list[MetadataCopy],
    times: Range | None,
    offsets: Range | None,
    emit: Callable[[Row], None],
    show_secrets: bool,
) -> tuple[Replayed, str | None]:
    """Give the changes between two moments, as the log is read.

    Args:
        copies: of the metadata log of one cluster.
        times: ms since 1970.
        offsets: of the metadata log.
        emit: takes the rows.
        show_secrets: with passwords in configs.

    Returns:
        How the log was read, and a note where its beginning is not known.

    Raises:
        KdumpError: a file cannot be read.
    """
    log = newest(copies).log
    note = None
    since = StatePoint(offset=-1)
    if times is not None and times.first is not None:
        since = StatePoint(timestamp=times.first - 1)
    elif offsets is not None and offsets.first is not None:
        since = StatePoint(offset=offsets.first - 1)
    until = StatePoint(
        offset=None if offsets is None or offsets.end is None else offsets.end - 1,
        timestamp=None if times is None or times.end is None else times.end - 1,
        is_whole=True,
    )
    oldest = next((snapshot for snapshot in log.snapshots if snapshot.end_offset >= log.start_offset), None)
    if log.start_offset and oldest is not None and not any(_shows(snapshot, since) for snapshot in log.snapshots):
        since = StatePoint(offset=oldest.end_offset - 1)
        note = f"{log.directory}: what was before offset {oldest.end_offset} is known from a snapshot only"

    def emit_in_range(row: Row) -> None:
        # A batch may begin before the range and end after it.
        if offsets is None or row["offset"] in offsets:
            emit(row)

    watch = ChangeWatcher(since, emit_in_range, show_secrets=show_secrets)
    replayed = replay(log, until, watch, since=since)
    watch.finish()
    return replayed, note


def _row(batch: MetadataBatch, offset: int, members: Row) -> Row:
    head = {"type": "change", "offset": offset, "epoch": batch.epoch, "timestamp": batch.timestamp}
    return head | {name: members.get(name) for name in _MEMBERS}


def _described(record_type: int, values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    """The changes that a record makes. Raises ReplayError where the loader refuses it."""
    if record_type in _PLAIN:
        yield _PLAIN[record_type](values)
    elif record_type in _DESCRIBERS:
        yield from _DESCRIBERS[record_type](values, before)


def _credential(values: dict[str, Any]) -> Row:
    return {"resourceName": values["name"], "name": SCRAM_MECHANISMS[scram_mechanism(values)]}


def _topic_removed(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    topic_id = values["topicId"]
    yield {"change": "topic-deleted", "topic": before.topics.name_of(topic_id), "topicId": topic_id}


def _partition_head(values: dict[str, Any], before: MetadataDelta) -> Row:
    topic_id = values["topicId"]
    return {"topic": before.topics.name_of(topic_id), "topicId": topic_id, "partition": values["partitionId"]}


def _partition(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    head = _partition_head(values, before)
    old = before.topics.partition_of(values["topicId"], values["partitionId"])
    new = PartitionRegistration.of_record(values)
    if old is not None:
        yield from (head | row for row in _partition_changes(old, new))
        return
    after = {"replicas": list(new.replicas), "isr": list(new.isr), "leader": new.leader}
    yield head | {"change": "partition-created", "after": after}


def _partition_change(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    head = _partition_head(values, before)
    old = before.topics.partition_of(values["topicId"], values["partitionId"])
    if old is not None:
        yield from (head | row for row in _partition_changes(old, old.merged(values)))


def _partition_changes(old: PartitionRegistration, new: PartitionRegistration) -> Iterator[Row]:
    if new.leader != old.leader or new.leader_epoch != old.leader_epoch:
        is_unclean = new.leader != NO_LEADER and new.leader not in old.isr and new.leader not in old.elr
        yield {
            "change": "unclean-leader" if is_unclean else "leader",
            "before": {"leader": old.leader, "leaderEpoch": old.leader_epoch},
            "after": {"leader": new.leader, "leaderEpoch": new.leader_epoch},
        }
    for change, name in (
        ("isr", "isr"),
        ("elr", "elr"),
        ("last-known-elr", "last_known_elr"),
        ("replicas", "replicas"),
        ("adding-replicas", "adding"),
        ("removing-replicas", "removing"),
        ("directories", "directories"),
    ):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            yield {"change": change, "before": list(was), "after": list(now)}
    if old.recovery != new.recovery:
        states = RECOVERY_STATES[old.recovery], RECOVERY_STATES[new.recovery]
        yield {"change": "leader-recovery-state", "before": states[0], "after": states[1]}


def _config(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    kind, resource, name = values["resourceType"], values["resourceName"], values["name"]
    type_name = RESOURCE_TYPES.get(kind, "UNKNOWN")
    yield {
        "change": "config",
        "topic": resource if type_name == "TOPIC" else None,
        "broker": int(resource) if type_name == "BROKER" and resource.isdecimal() else None,
        "resourceType": type_name,
        "resourceName": resource,
        "name": name,
        "before": before.config_of((kind, resource), name),
        "after": values["value"],
    }


def _broker_registered(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    broker = values["brokerId"]
    after = {name: values[name] for name in ("brokerEpoch", "incarnationId", "rack", "fenced")}
    known = before.cluster.broker(broker)
    was = None if known is None else {name: known[name] for name in after}
    yield {"change": "broker-registered", "broker": broker, "before": was, "after": after}


def _broker_changed(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    broker = values["brokerId"]
    head = {"broker": broker}
    known = before.cluster.broker(broker) or {}
    if values["fenced"]:
        yield head | {"change": _FENCED[values["fenced"] > 0]}
    if values["inControlledShutdown"]:
        yield head | {"change": "broker-controlled-shutdown"}
    if values["logDirs"]:
        yield head | {"change": "broker-directories", "before": known.get("logDirs"), "after": values["logDirs"]}
    cordoned = values["cordonedLogDirs"]
    was = None if cordoned is None else known.get("cordonedLogDirs")
    if cordoned is not None and cordoned != (was or []):
        yield head | {"change": "broker-cordoned-directories", "before": was, "after": cordoned}


def _feature(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    name = values["name"]
    yield {"change": "feature", "name": name, "before": before.feature_of(name), "after": values["featureLevel"]}


def _quota(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    entity, key = quota_entity(values), values["key"]
    after = None if values["remove"] else values["value"]
    was = before.quota_of(entity, key)
    yield {"change": "quota", "resourceName": dict(entity), "name": key, "before": was, "after": after}


def _producer_ids(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    yield {"change": "producer-ids", "before": before.image.next_producer_id, "after": values["nextProducerId"]}


def _acl_removed(values: dict[str, Any], before: MetadataDelta) -> Iterator[Row]:
    old = before.acl_of(values["id"])
    yield {"change": "acl-deleted", "name": values["id"], "before": None if old is None else _acl_members(old)}


def _acl_members(values: dict[str, Any]) -> Row:
    return {name: value for name, value in acl_row(values).items() if name not in ("type", "id")}


_PLAIN: Final[dict[int, Callable[[dict[str, Any]], Row]]] = {
    1: lambda values: {"change": "broker-unregistered", "broker": values["brokerId"]},
    2: lambda values: {"change": "topic-created", "topic": values["name"], "topicId": values["topicId"]},
    7: lambda values: {"change": "broker-fenced", "broker": values["id"]},
    8: lambda values: {"change": "broker-unfenced", "broker": values["id"]},
    10: lambda values: {"change": "token-set", "resourceName": values["owner"], "after": values["expirationTimestamp"]},
    11: lambda values: {"change": "scram-set", **_credential(values)},
    18: lambda values: {"change": "acl-created", "name": values["id"], "after": _acl_members(known_acl(values))},
    22: lambda values: {"change": "scram-deleted", **_credential(values)},
    26: lambda values: {"change": "token-deleted"},
    27: lambda values: {
        "change": "controller-registered",
        "broker": values["controllerId"],
        "after": values["incarnationId"],
    },
    28: lambda values: {"change": "elr-cleared", "topic": values["topicName"] or None},
}
"""What a record says whatever was before it, by the number of its type."""
_DESCRIBERS: Final[dict[int, Callable[[dict[str, Any], MetadataDelta], Iterator[Row]]]] = {
    0: _broker_registered,
    3: _partition,
    4: _config,
    5: _partition_change,
    9: _topic_removed,
    12: _feature,
    14: _quota,
    15: _producer_ids,
    17: _broker_changed,
    19: _acl_removed,
}
"""What a record changes, by the number of its type."""
