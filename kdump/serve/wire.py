"""Requests and responses on a connection: their frames and headers, and the versions of each.

Source: Kafka's RequestHeader.json and ResponseHeader.json, and ``format/requests.json`` for the messages. A request
whose version is flexible has a header with tagged fields, and so has its response, but for ApiVersions.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.format.message import Schema, read_message, request_schemas
from kdump.format.messagewriter import write_message
from kdump.wire.checksum import Buffer
from kdump.wire.cursor import Cursor

_HEAD: Final = struct.Struct(">hhi")
"""Number of the request, version, correlation id."""
_INT32: Final = struct.Struct(">i")
_SMALL: Final = 1 << 16
"""Bytes of a part of a response that is copied and joined with its neighbours."""
HEAD_SIZE: Final = _HEAD.size
_MOST_TAGS: Final = 64
_MOST_ELEMENTS: Final = 20_000
"""Of all arrays of a request: a Fetch has two for each topic with one partition."""


class Error(IntEnum):
    """The errors that are answered (org.apache.kafka.common.protocol.Errors)."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC = 17
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    UNKNOWN_TOPIC_ID = 100


class Api(NamedTuple):
    """A request that is answered."""

    name: str
    key: int
    request: Schema
    response: Schema

    def header_is_flexible(self, version: int) -> bool:
        """Requests of this version have a header with tagged fields."""
        return version in self.request.flexible


API_VERSIONS: Final = 18


@cache
def apis() -> Mapping[int, Api]:
    """The requests by their numbers."""
    schemas = request_schemas()
    found = {}
    for name, schema in schemas.items():
        if schema.type == "request" and schema.api_key is not None:
            api = name.removesuffix("Request")
            found[schema.api_key] = Api(api, schema.api_key, schema, schemas[f"{api}Response"])
    return found


class Request(NamedTuple):
    """A request that was read. ``client_id``: as the client calls itself; ``host``: where it is."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    host: str
    values: dict[str, Any]


class RequestError(Exception):
    """A request that cannot be answered; the connection is closed."""


class UnsupportedVersionError(RequestError):
    """A version that is not known. ``head``: number, version and correlation id."""

    def __init__(self, head: tuple[int, int, int]) -> None:
        super().__init__(f"version {head[1]} of request {head[0]} is not known")
        self.head = head


def read_request(data: bytes, host: str) -> Request:
    """A request out of the bytes of its frame, without their length.

    Raises:
        UnsupportedVersionError: its version is not known.
        RequestError: it is none.
    """
    try:
        key, version, correlation_id = head = _HEAD.unpack_from(data)
        api = apis().get(key)
        if api is None or version not in api.request.versions:
            raise UnsupportedVersionError(head)
        cursor = Cursor(data, HEAD_SIZE, code=Codes.FRAME)
        size = cursor.integer(2)
        client_id = "" if size < 0 else cursor.take(size).decode("utf-8", "replace")
        if api.header_is_flexible(version):
            for _ in range(min(cursor.unsigned_varint(), _MOST_TAGS)):
                cursor.unsigned_varint()
                cursor.take(cursor.unsigned_varint())
        values = read_message(api.request, version, cursor, _MOST_ELEMENTS)
    except (DamageError, struct.error) as error:
        raise RequestError(str(error)) from None
    return Request(api, version, correlation_id, client_id, host, values)


def write_response(api: Api, version: int, correlation_id: int, values: Mapping[str, Any]) -> list[Buffer]:
    """The frame of a response, in a few parts: one with thousands of partitions may wait long to be sent."""
    is_flexible = api.header_is_flexible(version) and api.key != API_VERSIONS
    parts: list[Buffer] = [_INT32.pack(correlation_id) + (b"\0" if is_flexible else b"")]
    parts += write_message(api.response, version, values)
    found: list[Buffer] = []
    small = bytearray(_INT32.pack(sum(map(len, parts))))
    for part in parts:
        if len(part) <= _SMALL:
            small += part
        else:
            found += (small, part)
            small = bytearray()
    return [*found, small]
