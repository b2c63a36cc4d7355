"""Hostile clients, logins, and requests that would write."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kdump import testing
from kdump.codes import KdumpError
from kdump.format.message import request_schemas
from kdump.inputs import inputs_of
from kdump.serve.cluster import REASON, REFUSED
from kdump.serve.run import ServeOptions, Service
from kdump.serve.wire import apis
from tests.harness.kafkaclient import KafkaClient, request_frame
from tests.harness.messages import random_values

ERRORS: list[KdumpError] = []


def service(tmp_path: Path, **options: Any) -> Service:
    testing.write_segment(tmp_path / "orders-0", [{"value": "v"}])
    inputs = inputs_of([tmp_path / "orders-0"], ERRORS.append)
    made = Service(inputs, ServeOptions(**options), ERRORS.append, lambda line: None)
    threading.Thread(target=made.run, daemon=True).start()
    return made


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    made = service(tmp_path)
    yield made.address
    made.close()


def mutated(random: Random) -> bytes:
    """A request with random values, most of them changed after that."""
    name = random.choice([api.name for api in apis().values()])
    schema = request_schemas()[f"{name}Request"]
    version = random.randint(schema.versions.low, schema.versions.high)
    values = random_values(schema.fields, version, random) | ({"maxWaitMs": 10} if name == "Fetch" else {})
    data = bytearray(request_frame(name, version, 1, values))
    match random.randrange(5):
        case 0:
            for _ in range(random.randint(1, 8)):
                data[random.randrange(len(data))] = random.randrange(256)
        case 1:
            del data[random.randrange(1, len(data)) :]
        case 2:
            at = random.randrange(len(data))
            data[at:at] = random.randbytes(random.randrange(1, 20))
        case 3:
            data = bytearray(random.randbytes(random.randrange(1, 200)))
    return bytes(data)


def test_hostile_requests(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    answered = 0
    before = len(ERRORS)
    for seed in range(200):
        with KafkaClient(address) as client:
            client.send_frame(mutated(Random(seed)))
            try:
                client.read_frame()
                answered += 1
            except (EOFError, ConnectionError):
                pass
    assert 50 < answered < 200
    with KafkaClient(address) as client:
        assert client.ask("Metadata", 12, topics=None)["topics"][0]["name"] == "orders"
    assert [error for error in ERRORS[before:] if "internal error" in str(error)] == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("size", [-1, 0, 2**31 - 1, (1 << 20) + 1])
def test_sizes_of_requests(address: str, size: int) -> None:
    with KafkaClient(address) as client:
        client.socket.sendall(struct.pack(">i", size) + b"x" * 100)
        with pytest.raises((EOFError, ConnectionError)):
            client.read_frame()


def test_many_elements(address: str) -> None:
    """An array may not have more elements than a request is for."""
    with KafkaClient(address) as client:
        client.send_frame(struct.pack(">hhih", 16, 4, 1, -1) + b"\0" + b"\xff\xff\x03" + b"\1" * 70_000 + b"\0")
        with pytest.raises((EOFError, ConnectionError)):
            client.read_frame()


def test_versions(address: str) -> None:
    with KafkaClient(address) as client:
        keys = {one["apiKey"] for one in client.ask("ApiVersions", 4)["apiKeys"]}
        assert keys == set(apis())
        # A version that is not known gets the oldest answer.
        client.send_frame(struct.pack(">hhih", 18, 99, 5, -1))
        data = client.read_frame()
        assert struct.unpack_from(">ih", data) == (5, 35)
        client.send_frame(struct.pack(">hhih", 1, 3, 5, -1))
        with pytest.raises((EOFError, ConnectionError)):
            client.read_frame()


WRITES: dict[str, tuple[int, dict[str, Any]]] = {
    "Produce": (
        12,
        {"acks": 1, "topicData": [{"name": "orders", "partitionData": [{"index": 0, "records": b"x"}]}]},
    ),
    "InitProducerId": (5, {}),
    "CreateTopics": (7, {"topics": [{"name": "new"}]}),
    "DeleteTopics": (6, {"topics": [{"name": "orders"}]}),
    "DeleteRecords": (2, {"topics": [{"name": "orders", "partitions": [{"partitionIndex": 0, "offset": 1}]}]}),
    "AlterConfigs": (2, {"resources": [{"resourceType": 2, "resourceName": "orders"}]}),
    "IncrementalAlterConfigs": (1, {"resources": [{"resourceType": 2, "resourceName": "orders"}]}),
    "CreatePartitions": (3, {"topics": [{"name": "orders", "count": 2}]}),
    "DeleteGroups": (3, {"groupsNames": ["g"]}),
    "OffsetDelete": (0, {"groupId": "g", "topics": [{"name": "orders", "partitions": [{"partitionIndex": 0}]}]}),
}


def errors_in(value: Any) -> list[int]:
    if isinstance(value, list):
        return [error for one in value for error in errors_in(one)]
    if not isinstance(value, dict):
        return []
    own = [value["errorCode"]] if "errorCode" in value else []
    return own + [error for one in value.values() for error in errors_in(one)]


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_refused(address: str, name: str) -> None:
    version, values = WRITES[name]
    with KafkaClient(address) as client:
        answer = client.ask(name, version, **values)
    assert errors_in(answer)
    assert set(errors_in(answer)) <= {29, 31, 44}
    assert ("errorMessage" in str(answer)) == (REASON in str(answer))
    assert set(WRITES) == REFUSED


def test_a_login(tmp_path: Path) -> None:
    made = service(tmp_path, users={"reader": "secret"})
    with KafkaClient(made.address) as client:
        assert client.ask("ApiVersions", 3)["errorCode"] == 0
        assert client.ask("SaslHandshake", 1, mechanism="SCRAM-SHA-256")["errorCode"] == 33
        assert client.ask("SaslAuthenticate", 2, authBytes=b"\0reader\0secret")["errorCode"] == 34
        assert client.ask("SaslHandshake", 1, mechanism="PLAIN") == {"errorCode": 0, "mechanisms": ["PLAIN"]}
        assert client.ask("SaslAuthenticate", 2, authBytes=b"\0reader\0wrong")["errorCode"] == 58
        assert client.ask("SaslHandshake", 1, mechanism="PLAIN")["errorCode"] == 0
        assert client.ask("SaslAuthenticate", 2, authBytes=b"\0reader\0secret")["errorCode"] == 0
        assert client.ask("Metadata", 12, topics=None)["topics"][0]["name"] == "orders"
    with KafkaClient(made.address) as client:
        client.send_frame(request_frame("Metadata", 12, 1, {"topics": None}))
        with pytest.raises((EOFError, ConnectionError)):
            client.read_frame()
    made.close()


def test_a_slow_client_hurts_nobody(address: str) -> None:
    host, _, port = address.rpartition(":")
    slow = [socket.create_connection((host, int(port))) for _ in range(20)]
    for one in slow:
        one.sendall(struct.pack(">i", 1000) + b"x")
    with KafkaClient(address) as client:
        assert client.ask("Metadata", 12, topics=None)["topics"]
    for one in slow:
        one.close()
