"""Groups in memory, and those in the logs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump import testing
from kdump.inputs import inputs_of
from kdump.serve.run import ServeOptions, Service
from tests.harness.decoder_logs import commit, write_log
from tests.harness.kafkaclient import KafkaClient


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    testing.write_segment(tmp_path / "orders-0", [{"value": "v"}])
    with kdump.serving(tmp_path / "orders-0") as address:
        yield address


def join(client: KafkaClient, member: str, *, version: int = 9, **values: Any) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": b"of " + member[:6].encode()}]
    given = {"groupId": "g", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000, "protocolType": "consumer"}
    return client.ask("JoinGroup", version, **{**given, "memberId": member, "protocols": protocols, **values})


def enter(client: KafkaClient) -> str:
    """The id of a new member."""
    answer = join(client, "")
    assert answer["errorCode"] == 79
    member: str = answer["memberId"]
    return member


def sync(client: KafkaClient, member: str, generation: int, **assignments: bytes) -> dict[str, Any]:
    given = [{"memberId": one, "assignment": data} for one, data in assignments.items()]
    return client.ask("SyncGroup", 5, groupId="g", memberId=member, generationId=generation, assignments=given)


def test_two_members(address: str) -> None:
    with KafkaClient(address) as first, KafkaClient(address) as second:
        one, two = enter(first), enter(second)
        answers: dict[str, dict[str, Any]] = {}

        def settle(client: KafkaClient, member: str) -> None:
            while True:
                answer = join(client, member)
                if answer["leader"] != member or len(answer["members"]) > 1:
                    answers[member] = answer
                    return
                # Alone at first; the other one comes.
                while client.ask("Heartbeat", 4, groupId="g", memberId=member, generationId=answer["generationId"]) == {
                    "throttleTimeMs": 0,
                    "errorCode": 0,
                }:
                    time.sleep(0.05)

        threads = [threading.Thread(target=settle, args=each) for each in ((first, one), (second, two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        generation = answers[one]["generationId"]
        assert generation == answers[two]["generationId"]
        leader = answers[one]["leader"]
        assert sorted(member["memberId"] for member in answers[leader]["members"]) == sorted((one, two))
        follower = two if leader == one else one
        assert answers[follower]["members"] == []
        clients = {one: first, two: second}
        assert sync(clients[leader], leader, generation, **{one: b"1", two: b"2"})["assignment"] in (b"1", b"2")
        assert sync(clients[follower], follower, generation)["errorCode"] == 0
        described = first.ask("DescribeGroups", 5, groups=["g"])["groups"][0]
        assert (described["groupState"], len(described["members"])) == ("Stable", 2)
        assert first.ask("Heartbeat", 4, groupId="g", memberId=one, generationId=generation)["errorCode"] == 0
        assert first.ask("Heartbeat", 4, groupId="g", memberId="x", generationId=generation)["errorCode"] == 25
        assert first.ask("Heartbeat", 4, groupId="g", memberId=one, generationId=99)["errorCode"] == 22
        left = second.ask("LeaveGroup", 5, groupId="g", members=[{"memberId": two}])
        assert left["members"][0]["errorCode"] == 0
        assert first.ask("Heartbeat", 4, groupId="g", memberId=one, generationId=generation)["errorCode"] == 27


def test_a_member_alone_commits(address: str) -> None:
    with KafkaClient(address) as client:
        member = enter(client)
        generation = join(client, member)["generationId"]
        assert sync(client, member, generation, **{member: b"all"})["assignment"] == b"all"
        topics = [{"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}]

        def commit(member: str, generation: int) -> int:
            given = {"groupId": "g", "memberId": member, "generationIdOrMemberEpoch": generation, "topics": topics}
            answer = client.ask("OffsetCommit", 8, **given)
            error: int = answer["topics"][0]["partitions"][0]["errorCode"]
            return error

        assert commit(member, generation) == 0
        assert commit(member, generation + 1) == 22
        assert commit("", -1) == 25
        fetched = client.ask("OffsetFetch", 8, groups=[{"groupId": "g", "topics": None}])["groups"][0]
        assert fetched["topics"][0]["partitions"][0]["committedOffset"] == 1
        assert [group["groupId"] for group in client.ask("ListGroups", 5)["groups"]] == ["g"]
        assert client.ask("ListGroups", 5, statesFilter=["Empty"])["groups"] == []


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"groupId": ""}, 24),
        ({"sessionTimeoutMs": 10}, 26),
        ({"protocols": []}, 23),
        ({"memberId": "somebody"}, 25),
    ],
)
def test_what_cannot_join(address: str, values: dict[str, Any], error: int) -> None:
    with KafkaClient(address) as client:
        assert join(client, "", **values)["errorCode"] == error


def test_a_group_that_is_not_there(address: str) -> None:
    with KafkaClient(address) as client:
        assert client.ask("DescribeGroups", 5, groups=["nosuch"])["groups"][0]["groupState"] == "Dead"
        assert client.ask("DescribeGroups", 6, groups=["nosuch"])["groups"][0]["errorCode"] == 69
        coordinator = client.ask("FindCoordinator", 6, keyType=0, coordinatorKeys=["g"])["coordinators"][0]
        assert f"{coordinator['host']}:{coordinator['port']}" == address


@pytest.mark.parametrize(("group_offsets", "offset"), [(True, 42), (False, -1)])
def test_offsets_in_the_logs(tmp_path: Path, *, group_offsets: bool, offset: int) -> None:
    testing.write_segment(tmp_path / "t-0", [{"value": "v"}])
    write_log(tmp_path, "__consumer_offsets-0", [commit("billing"), commit("billing", topic="gone")])
    inputs = inputs_of([tmp_path], lambda error: None)
    service = Service(inputs, ServeOptions(with_group_offsets=group_offsets), lambda error: None, lambda line: None)
    threading.Thread(target=service.run, daemon=True).start()
    with KafkaClient(service.address) as client:
        topics = [{"name": "t", "partitionIndexes": [0, 1]}]
        for version in (1, 7):
            found = client.ask("OffsetFetch", version, groupId="billing", topics=topics)["topics"][0]["partitions"]
            assert [one["committedOffset"] for one in found] == [offset, -1]
        listed = [group["groupId"] for group in client.ask("ListGroups", 4)["groups"]]
        assert listed == (["billing"] if group_offsets else [])
        # All offsets of the group: those of topics that are here, as on a broker, which forgets deleted ones.
        every = client.ask("OffsetFetch", 7, groupId="billing", topics=None)["topics"]
        assert [topic["name"] for topic in every] == (["t"] if group_offsets else [])
    service.close()
