"""Who leads a partition after all of its replicas' brokers were down and start again, in whatever order.

Source: docs/spec/replicas.md#4-which-leader (PartitionChangeBuilder, ReplicationControlManager and
ClusterControlManager of Kafka 4.3.1). A broker that was up for the cluster is fenced when its session ends. It
registers anew when it starts, and is unfenced when it has caught up with the metadata. Each step takes it out of the
ISR, or may elect a leader. The order is left to chance, so all orders are tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.partitions import NO_LEADER, PartitionRegistration
from kdump.kafka.image.topicsettings import TopicSettings

_MOST_REPLICAS: Final = 6
"""The orders of more are too many: then only the brokers that may be elected at all are told."""


class _Step(IntEnum):
    """What a broker has done since the cluster was down."""

    OLD = 0
    """The cluster still takes it for unfenced."""
    FENCED = 1
    REGISTERED = 2
    UP = 3


class ElectionRules(NamedTuple):
    """What the cluster goes by; ``last_known`` is part of the rule for ELR, which is always on (KIP-966)."""

    has_elr: bool
    is_unclean_enabled: bool
    min_isr: int


class ReplicaStates(NamedTuple):
    """Brokers of a partition's replicas before the start.

    ``active``: those that the metadata takes for unfenced. ``unclean``: those that were not stopped properly.
    ``unknown``: those of which nobody knows how they were stopped.
    """

    active: Collection[int]
    unclean: Collection[int]
    unknown: Collection[int] = ()


class _Partition(NamedTuple):
    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known: tuple[int, ...]


def rules_of(image: MetadataImage, topic: str) -> ElectionRules:
    """Those of a topic. What only server.properties says is not in the metadata."""
    settings = TopicSettings(image, None)
    return ElectionRules(image.is_elr_enabled, settings.is_unclean_election_enabled(topic), settings.min_isr(topic))


def possible_leaders(partition: PartitionRegistration, rules: ElectionRules, states: ReplicaStates) -> tuple[int, ...]:
    """The brokers that may lead when all replicas have started, rising; none where nobody may."""
    replicas = tuple(partition.replicas)
    first = _Partition(partition.leader, tuple(partition.isr), tuple(partition.elr), tuple(partition.last_known_elr))
    if len(replicas) > _MOST_REPLICAS:
        return tuple(sorted({*(replicas if rules.is_unclean_enabled else first.isr or first.elr or first.last_known)}))
    start = tuple(_Step.OLD if replica in states.active else _Step.FENCED for replica in replicas)
    waiting, seen, found = [(first, start)], {(first, start)}, set[int]()
    while waiting:
        before, steps = waiting.pop()
        if all(step is _Step.UP for step in steps):
            found.add(before.leader)
        for following in _steps(before, steps, replicas, rules, states):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return tuple(sorted(found - {NO_LEADER}))


def _steps(
    before: _Partition,
    steps: tuple[_Step, ...],
    replicas: tuple[int, ...],
    rules: ElectionRules,
    states: ReplicaStates,
) -> Iterator[tuple[_Partition, tuple[_Step, ...]]]:
    """What may happen next: one broker takes its next step."""
    active = {replica for replica, step in zip(replicas, steps, strict=True) if step in (_Step.OLD, _Step.UP)}
    for number, (replica, step) in enumerate(zip(replicas, steps, strict=True)):
        if step is _Step.UP:
            continue
        after = (*steps[:number], _Step(step + 1), *steps[number + 1 :])
        if step is _Step.OLD:
            yield _changed(before, replicas, rules, active - {replica}, gone=replica), after
        elif step is _Step.FENCED:
            kinds = {replica in states.unclean} if replica not in states.unknown else {False, True}
            for is_unclean in kinds:
                unclean = rules.has_elr and is_unclean
                yield _changed(before, replicas, rules, active, gone=replica, is_unclean=unclean), after
        elif before.leader == NO_LEADER:
            yield _changed(before, replicas, rules, active | {replica}), after
        else:
            yield before, after


def _changed(
    before: _Partition,
    replicas: Sequence[int],
    rules: ElectionRules,
    active: Collection[int],
    *,
    gone: int | None = None,
    is_unclean: bool = False,
) -> _Partition:
    """PartitionChangeBuilder.build for ReplicationControlManager.generateLeaderAndIsrUpdates.

    Args:
        before: the partition.
        replicas: in the order of preference.
        rules: see ElectionRules.
        active: brokers that may lead.
        gone: a broker that leaves the ISR; one that is not in it changes nothing.
        is_unclean: that broker was not stopped properly, so it leaves the ELR too.
    """
    if gone is not None and gone not in before.isr and not (is_unclean and gone in before.elr):
        return before
    isr = tuple(replica for replica in before.isr if replica != gone)
    elr: tuple[int, ...] = ()
    if rules.has_elr and len(isr) < rules.min_isr:
        kept = {*before.elr, *before.isr} - set(isr) - ({gone} if is_unclean else set())
        elr = tuple(sorted(kept))
    valid = isr or elr

    def may_lead(replica: int) -> bool:
        return replica in valid and replica in active

    is_forced = False
    leader = before.leader if may_lead(before.leader) else next(filter(may_lead, replicas), NO_LEADER)
    if leader == NO_LEADER:
        last = before.last_known[0] if len(before.last_known) == 1 else NO_LEADER
        if rules.has_elr and not valid and last in active:
            leader = last
        elif rules.is_unclean_enabled:
            leader = next((replica for replica in replicas if replica in active), NO_LEADER)
        is_forced = leader != NO_LEADER
    if leader != before.leader and (is_forced or leader in elr):
        isr, elr = (leader,), () if is_forced else tuple(replica for replica in elr if replica != leader)
    last_known = before.last_known
    if rules.has_elr and leader != before.leader:
        if leader != NO_LEADER:
            last_known = ()
        elif not last_known:
            last_known = (before.leader,)
    # Without ELR a partition keeps its last member of the ISR.
    return _Partition(leader, isr if isr or rules.has_elr else before.isr, elr, last_known)
