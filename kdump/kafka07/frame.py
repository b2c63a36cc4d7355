"""Requests and responses of Kafka 0.7 that somebody saved.

Source: docs/spec/old-kafka.md#3-wire-frames-of-07.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, DamageError
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
    partition: int | None = None
    offset: int | None = None
    error_code: int | None = None
    data: bytes | None = None
    fields: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it

    @property
    def error(self) -> str | None:
        """What the error code means."""
        return None if self.error_code is None else ERRORS_07.get(self.error_code, "unknown")


class Frame(NamedTuple):
    """A request or response. ``fields``: what is about all partitions."""

    is_request: bool
    sets: tuple[RecordSet, ...]
    fields: dict[str, Any]


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
    api = KINDS[kind]
    refusal = None
    cursor = Cursor(data, start, end, Codes.FRAME)
    try:
        if cursor.integer(2) == api.number:
            sets = tuple(api.request(cursor))
            return Frame(True, sets, {"leftOver": cursor.remaining} if cursor.remaining else {})
    except DamageError as error:
        refusal = error
    if api.response is None:
        raise refusal or DamageError(Codes.FRAME, f"no request {kind}: its id is not {api.number}")
    cursor = Cursor(data, start, end, Codes.FRAME)
    return Frame(False, tuple(api.response(cursor)), {})


def _string(cursor: Cursor) -> str:
    return decode_utf8(cursor.take(cursor.integer(2)))


def _fetch_request(cursor: Cursor) -> Iterator[RecordSet]:
    topic, partition, offset = _string(cursor), cursor.integer(4), cursor.integer(8)
    yield RecordSet(topic, partition, offset, fields={"maxSize": cursor.integer(4)})


def _produce_request(cursor: Cursor) -> Iterator[RecordSet]:
    topic, partition = _string(cursor), cursor.integer(4)
    yield RecordSet(topic, partition, data=cursor.take(cursor.integer(4)))


def _offsets_request(cursor: Cursor) -> Iterator[RecordSet]:
    topic, partition, time = _string(cursor), cursor.integer(4), cursor.integer(8)
    yield RecordSet(topic, partition, fields={"time": time, "maxOffsets": cursor.integer(4)})


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


KINDS: Final = {
    "produce": Api07(0, _produce_request, None),
    "fetch": Api07(1, _fetch_request, _fetch_response),
    "multifetch": Api07(2, _several(_fetch_request), _multifetch_response),
    "multiproduce": Api07(3, _several(_produce_request), None),
    "offsets": Api07(4, _offsets_request, _offsets_response),
}
