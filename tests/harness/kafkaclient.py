"""A tiny Kafka client on a socket: it sends requests by their schemas, and reads what comes back."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, NamedTuple, Self

from kdump.format import legacy
from kdump.format.batch import LOG_OVERHEAD, MAGIC, MAGIC_OFFSET, batch_crc, parse_header
from kdump.format.control import ABORT, parse_type
from kdump.format.message import ZERO_UUID, read_message, request_schemas
from kdump.format.record import read_records
from kdump.wire.cursor import Cursor
from tests.harness.messages import write_message

_API_VERSIONS = 18
_TOPIC_IDS = 13
"""The first version of Fetch with topic ids in place of names."""
_SECONDS = 60


class KafkaClient:
    """A connection to ``host:port``."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def ask(self, name: str, version: int, **values: Any) -> dict[str, Any]:
        """The response to a request; what is not given has its default."""
        self.send_frame(request_frame(name, version, self._correlation_id, values))
        data = self.read_frame()
        assert struct.unpack_from(">i", data)[0] == self._correlation_id
        self._correlation_id += 1
        schema = request_schemas()[f"{name}Response"]
        has_tags = version in schema.flexible and schema.api_key != _API_VERSIONS
        assert not has_tags or data[4] == 0
        cursor = Cursor(data, 5 if has_tags else 4)
        answer: dict[str, Any] = read_message(schema, version, cursor)
        assert not cursor.remaining
        return answer

    def send_frame(self, data: bytes) -> None:
        """Send a request, or what looks like one."""
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def read_frame(self) -> bytes:
        """The next response; EOFError where the connection ends."""
        return self._read(struct.unpack(">i", self._read(4))[0])

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data


def request_frame(name: str, version: int, correlation_id: int, values: dict[str, Any]) -> bytes:
    """A request with its header, without its length."""
    schema = request_schemas()[f"{name}Request"]
    assert schema.api_key is not None
    head = struct.pack(">hhih4s", schema.api_key, version, correlation_id, 4, b"test")
    tags = b"\0" if version in schema.flexible else b""
    return head + tags + write_message(schema, version, with_defaults(schema.fields, values))


def with_defaults(fields: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The values of all fields, also of those inside."""
    found = {}
    for field in fields:
        value = values.get(field.name, field.default)
        if field.fields and isinstance(value, list):
            value = [with_defaults(field.fields, one) for one in value]
        elif field.fields and isinstance(value, dict):
            value = with_defaults(field.fields, value)
        found[field.name] = value
    return found


class ReadRecord(NamedTuple):
    """A record as a consumer gets it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def consume(
    client: KafkaClient, topic: str, number: int, start: int, end: int, *, committed: bool, version: int = 12
) -> list[ReadRecord]:
    """The records from one offset up to another, as a consumer of this isolation level reads them."""
    found: list[ReadRecord] = []
    position = start
    topic_id = ZERO_UUID
    if version >= _TOPIC_IDS:
        topic_id = client.ask("Metadata", 12, topics=[{"topicId": ZERO_UUID, "name": topic}])["topics"][0]["topicId"]
    while position < end:
        one = {"partition": number, "fetchOffset": position, "partitionMaxBytes": 4096}
        answer = client.ask(
            "Fetch",
            version,
            maxWaitMs=0,
            minBytes=1,
            maxBytes=1 << 20,
            isolationLevel=int(committed),
            topics=[{"topic": topic, "topicId": topic_id, "partitions": [one]}],
        )
        part = answer["responses"][0]["partitions"][0]
        assert part["errorCode"] == 0
        aborted = [(one["firstOffset"], one["producerId"]) for one in part["abortedTransactions"] or ()]
        records, after = _records(part["records"], aborted if committed else [])
        assert after > position, f"no progress at {position} of {end}"
        found += [record for record in records if record.offset >= position]
        position = after
    return found


def _records(data: bytes, aborted: list[tuple[int, int]]) -> tuple[list[ReadRecord], int]:
    """The records of a response and the offset after them, without those of aborted transactions.

    As CompletedFetch of Kafka's consumer does it.
    """
    found: list[ReadRecord] = []
    after, at = -1, 0
    waiting = sorted(aborted)
    dropped: set[int] = set()
    while at < len(data):
        size = LOG_OVERHEAD + struct.unpack_from(">i", data, at + 8)[0]
        entry = memoryview(data)[at : at + size]
        assert len(entry) == size, "a part of a batch"
        at += size
        if entry[MAGIC_OFFSET] < MAGIC:
            message = legacy.parse_message(entry)
            assert message.is_valid
            found += (
                ReadRecord(one.offset, one.timestamp, one.message.key(), one.message.value(), ())
                for one in legacy.read_records(message)
            )
            after = max(after, message.offset + 1)
            continue
        header = parse_header(entry)
        assert batch_crc(entry) == header.crc
        after = max(after, header.last_offset + 1)
        while waiting and waiting[0][0] <= header.last_offset:
            dropped.add(waiting.pop(0)[1])
        records = list(read_records(header, entry))
        if header.is_control:
            if header.is_transactional and parse_type(records[0].key) == ABORT:
                dropped.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in dropped:
            continue
        found += (ReadRecord(one.offset, one.timestamp, one.key, one.value, one.headers) for one in records)
    return found, after
