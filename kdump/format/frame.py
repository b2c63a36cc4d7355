"""Requests and responses that somebody saved: those of Kafka 0.7, and the bodies of those of today with records.

Source: docs/spec/old-kafka.md#3-wire-frames-of-07; for today's the definitions of Kafka 4.3.1 (``format.message``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.format.message import Layout, Schema, read_message, schemas
from kdump.format.messagereader import MOST_ELEMENTS
from kdump.wire.cursor import Cursor
from kdump.wire.utf8 import decode_utf8

ERRORS_07: Final = {
    -1: "unknown",
    0: "none",
    1: "offset out of range",
    2: "invalid message",
    3: "wrong partition",
    4: "invalid fetch size",
}
_MOST_PARTS: Final = 0x7FFF
"""Of a request, which has an int16 for their number."""


class RecordSet(NamedTuple):
    """The part of a frame that is about one partition; what a frame does not tell is None.

    ``offset``: from which on a consumer asked; ``data``: the messages or batches; ``fields``: all else that is told.
    """

    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    offset: int | None = None
    error_code: int | None = None
    data: bytes | None = None
    fields: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it

    @property
    def error(self) -> str | None:
        """What the error code of Kafka 0.7 means."""
        return None if self.error_code is None else ERRORS_07.get(self.error_code, "unknown")


class Frame(NamedTuple):
    """A request or response. ``version``: of the API, None in Kafka 0.7. ``fields``: what is about all partitions."""

    is_request: bool
    version: int | None
    sets: tuple[RecordSet, ...]
    fields: dict[str, Any]


def frames_07(kind: str, data: bytes) -> Iterator[Frame]:
    """The frames of Kafka 0.7 that lie one after the other in ``data``, each with its length field.

    Args:
        kind: a name of ``KINDS_07``.
        data: requests of this kind, or responses to them.

    Raises:
        DamageError: FRAME, with the position of the frame that cannot be read, after those before it.
    """
    position = 0
    while position < len(data):
        try:
            cursor = Cursor(data, position, code=Codes.FRAME)
            size = cursor.integer(4)
            if not 0 <= size <= cursor.remaining:
                raise DamageError(Codes.FRAME, f"a frame of {size} bytes where {cursor.remaining} are left")
            end = cursor.position + size
            yield _frame_07(kind, data, cursor.position, end)
        except DamageError as error:
            error.located(position=position)
            raise
        position = end


def _frame_07(kind: str, data: bytes, start: int, end: int) -> Frame:
    api = KINDS_07[kind]
    refusal = None
    cursor = Cursor(data, start, end, Codes.FRAME)
    try:
        if cursor.integer(2) == api.number:
            sets = tuple(api.request(cursor))
            return Frame(True, None, sets, {"leftOver": cursor.remaining} if cursor.remaining else {})
    except DamageError as error:
        refusal = error
    if api.response is None:
        raise refusal or DamageError(Codes.FRAME, f"no request {kind}: its id is not {api.number}")
    cursor = Cursor(data, start, end, Codes.FRAME)
    return Frame(False, None, tuple(api.response(cursor)), {})


def _string(cursor: Cursor) -> str:
    return decode_utf8(cursor.take(cursor.integer(2)))


def _fetch_request(cursor: Cursor) -> Iterator[RecordSet]:
    topic, partition, offset = _string(cursor), cursor.integer(4), cursor.integer(8)
    yield RecordSet(topic, None, partition, offset, fields={"maxSize": cursor.integer(4)})


def _produce_request(cursor: Cursor) -> Iterator[RecordSet]:
    topic, partition = _string(cursor), cursor.integer(4)
    yield RecordSet(topic, None, partition, data=cursor.take(cursor.integer(4)))


def _offsets_request(cursor: Cursor) -> Iterator[RecordSet]:
    topic, partition, time = _string(cursor), cursor.integer(4), cursor.integer(8)
    yield RecordSet(topic, None, partition, fields={"time": time, "maxOffsets": cursor.integer(4)})


def _several(one: Callable[[Cursor], Iterator[RecordSet]]) -> Callable[[Cursor], Iterator[RecordSet]]:
    def read(cursor: Cursor) -> Iterator[RecordSet]:
        count = cursor.integer(2)
        if count < 0:
            raise DamageError(Codes.FRAME, f"{count} parts")
        for _ in range(count):
            yield from one(cursor)

    return read


def _fetch_response(cursor: Cursor) -> Iterator[RecordSet]:
    error_code = cursor.integer(2)
    yield RecordSet(error_code=error_code, data=cursor.take(cursor.remaining))


def _multifetch_response(cursor: Cursor) -> Iterator[RecordSet]:
    error_code = cursor.integer(2)
    if error_code or not cursor.remaining:
        yield RecordSet(error_code=error_code)
    parts = 0
    while cursor.remaining:
        parts += 1
        if parts > _MOST_PARTS:
            raise DamageError(Codes.FRAME, f"more than {_MOST_PARTS:,} answers, as many as a request can ask for")
        size = cursor.integer(4)
        if size < 2:
            raise DamageError(Codes.FRAME, f"an answer of {size} bytes has no place for its error code")
        yield RecordSet(error_code=cursor.integer(2), data=cursor.take(size - 2))


def _offsets_response(cursor: Cursor) -> Iterator[RecordSet]:
    error_code, count = cursor.integer(2), cursor.integer(4)
    if count < 0 or 8 * count > cursor.remaining:
        raise DamageError(Codes.FRAME, f"{count} offsets where {cursor.remaining} bytes are left")
    if count > MOST_ELEMENTS:
        raise DamageError(Codes.FRAME, f"{count:,} offsets, kdump reads {MOST_ELEMENTS:,} at most")
    yield RecordSet(error_code=error_code, fields={"offsets": [cursor.integer(8) for _ in range(count)]})


class Api07(NamedTuple):
    """A request of Kafka 0.7 by its number, and how it and its response are read; None: it has no response."""

    number: int
    request: Callable[[Cursor], Iterator[RecordSet]]
    response: Callable[[Cursor], Iterator[RecordSet]] | None


KINDS_07: Final = {
    "produce": Api07(0, _produce_request, None),
    "fetch": Api07(1, _fetch_request, _fetch_response),
    "multifetch": Api07(2, _several(_fetch_request), _multifetch_response),
    "multiproduce": Api07(3, _several(_produce_request), None),
    "offsets": Api07(4, _offsets_request, _offsets_response),
}

KINDS: Final = {"fetch-response": "FetchResponse", "produce-request": "ProduceRequest"}
"""Today's bodies with records, by the names of their definitions."""


def versions_of(kind: str) -> range:
    """The API versions of a name of ``KINDS``."""
    versions = _schema(kind).versions
    return range(versions.low, versions.high + 1)


def fitting_versions(kind: str, data: bytes) -> list[int]:
    """The API versions that read a body to its last byte."""
    return [version for version in versions_of(kind) if _fits(kind, version, data)]


def _fits(kind: str, version: int, data: bytes) -> bool:
    cursor = Cursor(data, code=Codes.FRAME)
    try:
        read_message(_schema(kind), version, cursor)
    except DamageError:
        return False
    return not cursor.remaining


def read_frame(kind: str, version: int, data: bytes) -> Frame:
    """A body of that API version.

    Raises:
        DamageError: FRAME, where it does not read, or bytes are left over.
    """
    cursor = Cursor(data, code=Codes.FRAME)
    values: dict[str, Any] = read_message(_schema(kind), version, cursor)
    if cursor.remaining:
        message = f"{cursor.remaining} bytes are left after version {version} of {KINDS[kind]}"
        raise DamageError(Codes.FRAME, message, position=cursor.position)
    layout = _schema(kind).layout(version)
    values = _of_version(values, layout)
    if kind == "fetch-response":
        sets = tuple(_fetched(values.pop("responses")))
    else:
        sets = tuple(_produced(values.pop("topicData")))
    return Frame(kind == "produce-request", version, sets, values)


def _of_version(values: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """The members that a version has, without the defaults of others; so of the structs inside."""
    found = {}
    for member in layout.members:
        value = values[member.name]
        if member.layout is not None and isinstance(value, list):
            value = [_of_version(one, member.layout) for one in value]
        elif member.layout is not None and isinstance(value, dict):
            value = _of_version(value, member.layout)
        found[member.name] = value
    return found


def _fetched(topics: list[dict[str, Any]]) -> Iterator[RecordSet]:
    for topic in topics:
        for part in topic["partitions"]:
            partition, error_code, data = (part.pop(name) for name in ("partitionIndex", "errorCode", "records"))
            yield RecordSet(topic.get("topic"), topic.get("topicId"), partition, None, error_code, data, part)


def _produced(topics: list[dict[str, Any]]) -> Iterator[RecordSet]:
    for topic in topics:
        for part in topic["partitionData"]:
            yield RecordSet(topic.get("name"), topic.get("topicId"), part["index"], data=part["records"])


def _schema(kind: str) -> Schema:
    return schemas()[KINDS[kind]]
