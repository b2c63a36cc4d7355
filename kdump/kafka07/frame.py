"""Requests and responses of Kafka 0.7 that somebody saved.

Source: docs/spec/old-kafka.md#3-wire-frames-of-07.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, DamageError, KdumpError
from kdump.format.messagereader import MOST_ELEMENTS
from kdump.log.source import Source
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
MESSAGES: Final = "messages"
"""The name of a field of messages in a ``FrameField``."""
_MOST_PARTS: Final = 0x7FFF
"""Of a request, which has an int16 for their number."""


_MOST_BYTES: Final = 128 << 20
"""Of a file. A broker takes requests of up to 100 MiB (socket.request.max.bytes), and consumers ask for 50 MiB."""
_BLOCK: Final = 1 << 20


class RecordSet(NamedTuple):
    """The part of a frame that is about one partition; what a frame does not tell is None.

    ``offset``: from which on a consumer asked; ``data``: the messages or batches; ``fields``: all else that is told.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    error_code: int | None = None
    data: bytes | None = None
    fields: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it

    @property
    def error(self) -> str | None:
        """What the error code means."""
        return None if self.error_code is None else ERRORS_07.get(self.error_code, "unknown")


class FrameField(NamedTuple):
    """A field of a frame: its name, its bytes in the file, and its value; None for messages."""

    name: str
    start: int
    end: int
    value: int | str | None


class Frame(NamedTuple):
    """A request or response. ``fields``: what is about all partitions; ``layout``: all its fields, in their order.

    Bytes from the end of ``layout`` up to ``end`` are left over.
    """

    is_request: bool
    sets: tuple[RecordSet, ...]
    fields: dict[str, Any]
    layout: tuple[FrameField, ...]
    start: int
    end: int


class _Fields(Cursor):
    """Reads fields, and notes where each of them is."""

    def __init__(self, data: bytes, position: int, end: int | None = None) -> None:
        super().__init__(data, position, end, Codes.FRAME)
        self.noted: list[FrameField] = []

    def number(self, name: str, size: int) -> int:
        """The next field, an integer of 2, 4 or 8 bytes."""
        value = self.integer(size)
        self.noted.append(FrameField(name, self.position - size, self.position, value))
        return value

    def text(self, name: str) -> str:
        """The next string, with its length before it."""
        size = self.number(f"{name}Length", 2)
        value = decode_utf8(self.take(size))
        self.noted.append(FrameField(name, self.position - size, self.position, value))
        return value

    def messages(self, size: int) -> bytes:
        """The next bytes as messages."""
        data = self.take(size)
        self.noted.append(FrameField(MESSAGES, self.position - size, self.position, None))
        return data


def read_all(source: Source) -> bytes:
    """All bytes of a file or stream of frames. Raises KdumpError."""
    data = BytesIO()
    while (source.size or data.tell()) <= _MOST_BYTES:
        if not (block := source.read(data.tell(), _BLOCK)):
            return data.getvalue()
        data.write(block)
    message = f"has more than {_MOST_BYTES:,} bytes, the most that kdump takes for frames"
    raise KdumpError(Codes.FILE_SIZE, message, path=source.path)


def read_frames(kind: str, data: bytes) -> Iterator[Frame]:
    """The frames of Kafka 0.7 that lie one after the other in ``data``, each with its length field.

    Args:
        kind: a name of ``KINDS``.
        data: requests of this kind, or responses to them.

    Raises:
        DamageError: FRAME, with the position of the frame that cannot be read, after those before it.
    """
    position = 0
    while position < len(data):
        try:
            cursor = _Fields(data, position)
            size = cursor.number("length", 4)
            if not 0 <= size <= cursor.remaining:
                raise DamageError(Codes.FRAME, f"a frame of {size} bytes where {cursor.remaining} are left")
            end = cursor.position + size
            yield _frame_07(kind, data, position, end)
        except DamageError as error:
            error.located(position=position)
            raise
        position = end


def _frame_07(kind: str, data: bytes, start: int, end: int) -> Frame:
    api = KINDS[kind]
    refusal = None
    cursor = _Fields(data, start, end)
    cursor.number("length", 4)
    try:
        if cursor.number("requestId", 2) == api.number:
            sets = tuple(api.request(cursor))
            fields = {"leftOver": cursor.remaining} if cursor.remaining else {}
            return Frame(True, sets, fields, tuple(cursor.noted), start, end)
    except DamageError as error:
        refusal = error
    if api.response is None:
        raise refusal or DamageError(Codes.FRAME, f"no request {kind}: its id is not {api.number}")
    cursor = _Fields(data, start, end)
    cursor.number("length", 4)
    return Frame(False, tuple(api.response(cursor)), {}, tuple(cursor.noted), start, end)


def _fetch_request(cursor: _Fields) -> Iterator[RecordSet]:
    topic, partition, offset = cursor.text("topic"), cursor.number("partition", 4), cursor.number("offset", 8)
    yield RecordSet(topic, partition, offset, fields={"maxSize": cursor.number("maxSize", 4)})


def _produce_request(cursor: _Fields) -> Iterator[RecordSet]:
    topic, partition = cursor.text("topic"), cursor.number("partition", 4)
    yield RecordSet(topic, partition, data=cursor.messages(cursor.number("size", 4)))


def _offsets_request(cursor: _Fields) -> Iterator[RecordSet]:
    topic, partition, time = cursor.text("topic"), cursor.number("partition", 4), cursor.number("time", 8)
    yield RecordSet(topic, partition, fields={"time": time, "maxOffsets": cursor.number("maxOffsets", 4)})


def _several(one: Callable[[_Fields], Iterator[RecordSet]]) -> Callable[[_Fields], Iterator[RecordSet]]:
    def read(cursor: _Fields) -> Iterator[RecordSet]:
        count = cursor.number("count", 2)
        if count < 0:
            raise DamageError(Codes.FRAME, f"{count} parts")
        for _ in range(count):
            yield from one(cursor)

    return read


def _fetch_response(cursor: _Fields) -> Iterator[RecordSet]:
    error_code = cursor.number("errorCode", 2)
    yield RecordSet(error_code=error_code, data=cursor.messages(cursor.remaining))


def _multifetch_response(cursor: _Fields) -> Iterator[RecordSet]:
    error_code = cursor.number("errorCode", 2)
    if error_code or not cursor.remaining:
        yield RecordSet(error_code=error_code)
    parts = 0
    while cursor.remaining:
        parts += 1
        if parts > _MOST_PARTS:
            raise DamageError(Codes.FRAME, f"more than {_MOST_PARTS:,} answers, as many as a request can ask for")
        size = cursor.number("length", 4)
        if size < 2:
            raise DamageError(Codes.FRAME, f"an answer of {size} bytes has no place for its error code")
        yield RecordSet(error_code=cursor.number("errorCode", 2), data=cursor.messages(size - 2))


def _offsets_response(cursor: _Fields) -> Iterator[RecordSet]:
    error_code, count = cursor.number("errorCode", 2), cursor.number("count", 4)
    if count < 0 or 8 * count > cursor.remaining:
        raise DamageError(Codes.FRAME, f"{count} offsets where {cursor.remaining} bytes are left")
    if count > MOST_ELEMENTS:
        raise DamageError(Codes.FRAME, f"{count:,} offsets, kdump reads {MOST_ELEMENTS:,} at most")
    yield RecordSet(error_code=error_code, fields={"offsets": [cursor.number("offset", 8) for _ in range(count)]})


class Api07(NamedTuple):
    """A request of Kafka 0.7 by its number, and how it and its response are read; None: it has no response."""

    number: int
    request: Callable[[_Fields], Iterator[RecordSet]]
    response: Callable[[_Fields], Iterator[RecordSet]] | None


KINDS: Final = {
    "produce": Api07(0, _produce_request, None),
    "fetch": Api07(1, _fetch_request, _fetch_response),
    "multifetch": Api07(2, _several(_fetch_request), _multifetch_response),
    "multiproduce": Api07(3, _several(_produce_request), None),
    "offsets": Api07(4, _offsets_request, _offsets_response),
}
