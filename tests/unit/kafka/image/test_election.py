"""Who may lead when all brokers start: rule by rule, and what a real cluster did (fixtures/cases/elections.tar.zst)."""

from __future__ import annotations

import pytest

from kdump.kafka.image.election import ElectionRules, ReplicaStates, possible_leaders
from kdump.kafka.image.partitions import NO_LEADER, UNASSIGNED, PartitionRegistration

OLD = ElectionRules(has_elr=False, is_unclean_enabled=False, min_isr=1)
ELR = ElectionRules(has_elr=True, is_unclean_enabled=False, min_isr=1)
ALL_CLEAN = ReplicaStates(active=(), unclean=())


def partition(
    leader: int,
    isr: tuple[int, ...],
    *,
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionRegistration:
    directories = (UNASSIGNED,) * len(replicas)
    return PartitionRegistration(replicas, directories, isr, (), (), leader, 0, 5, 9, elr, last_known)


def killed(*active: int) -> ReplicaStates:
    """All were killed; ``active``: those that the cluster has not fenced."""
    return ReplicaStates(active=active, unclean=(1, 2, 3))


@pytest.mark.parametrize("rules", [OLD, ELR])
@pytest.mark.parametrize("leader", [2, NO_LEADER])
@pytest.mark.parametrize("states", [killed(2), killed(), killed(1, 2, 3), ALL_CLEAN])
def test_the_only_one_in_sync(rules: ElectionRules, leader: int, states: ReplicaStates) -> None:
    elr = () if leader == 2 or not rules.has_elr else (2,)
    known = partition(leader, () if elr else (2,), elr=elr, last_known=(2,) if elr else ())
    assert possible_leaders(known, rules, states) == (2,)


@pytest.mark.parametrize("rules", [OLD, ELR])
def test_any_that_is_in_sync(rules: ElectionRules) -> None:
    """Which of them is fenced last, nobody knows."""
    assert possible_leaders(partition(3, (1, 3)), rules, killed(1, 3)) == (1, 3)
    assert possible_leaders(partition(3, (3, 1)), rules, ReplicaStates((1, 3), ())) == (1, 3)


def test_elr_counts_only_after_a_clean_stop() -> None:
    """A broker that was killed leaves it; then the last leader is elected."""
    known = partition(NO_LEADER, (), elr=(1, 2), last_known=(1,))
    rules = ELR._replace(min_isr=2)
    assert possible_leaders(known, rules, ALL_CLEAN) == (1, 2)
    assert possible_leaders(known, rules, ReplicaStates((), unclean=(2,))) == (1,)
    assert possible_leaders(known, rules, killed()) == (1,)
    assert possible_leaders(known, rules, ReplicaStates((), (), unknown=(1, 2, 3))) == (1, 2)
    assert possible_leaders(known._replace(last_known_elr=()), rules, killed()) == ()


def test_unclean_elections() -> None:
    """As in snapshot p2-lag of the replica cases: 3 led, 2 lagged and was elected."""
    lagging = partition(3, (1, 3), replicas=(3, 1, 2))
    assert possible_leaders(lagging, ELR, killed(1, 3)) == (1, 3)
    assert possible_leaders(lagging, ELR._replace(is_unclean_enabled=True), killed(1, 3)) == (1, 2, 3)
    assert possible_leaders(partition(NO_LEADER, ()), OLD._replace(is_unclean_enabled=True), ALL_CLEAN) == (1, 2, 3)
    assert possible_leaders(partition(NO_LEADER, ()), OLD, ALL_CLEAN) == ()


def test_many_replicas() -> None:
    """Their orders are not tried."""
    replicas = tuple(range(1, 9))
    assert possible_leaders(partition(5, (5, 7), replicas=replicas), ELR, killed(5, 7)) == (5, 7)
    unclean = ELR._replace(is_unclean_enabled=True)
    assert possible_leaders(partition(5, (5, 7), replicas=replicas), unclean, killed(5, 7)) == replicas
