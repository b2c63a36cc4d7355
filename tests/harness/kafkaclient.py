"""A tiny Kafka client on a socket: it sends requests by their schemas, and reads what comes back."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self

from kdump.format.message import read_message, request_schemas
from kdump.wire.cursor import Cursor
from tests.harness.messages import write_message

_API_VERSIONS = 18
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
