"""The fields of a record with many headers: shown, or many in one."""

from __future__ import annotations

import gc
import weakref
from array import array
from collections.abc import Sequence

import pytest

from kdump.explain.lines import StuckError
from kdump.explain.recordfields import SHOWN_HEADERS, RecordField, record_fields, survey_records
from tests.harness.fast_reference import nullable, varint

SMALL = varint(4) + b"name" + varint(5) + b"value"
NULL = varint(0) + varint(-1)
LARGE = varint(70) + b"k" * 70 + varint(300) + b"v" * 300
COUNT = 500


def record(headers: int, pair: bytes) -> bytes:
    """A record with ``headers`` times the encoded header ``pair``."""
    fields = b"\0\0\0" + nullable(b"k") + nullable(b"v") + varint(headers) + pair * headers
    return varint(len(fields)) + fields


def _fields(data: bytes, interest: Sequence[int] = ()) -> tuple[list[RecordField], StuckError | None]:
    found: list[RecordField] = []
    try:
        for field in record_fields(memoryview(data), 0, len(data), interest):
            found.append(field)  # noqa: PERF402
    except StuckError as stuck:
        return found, stuck
    return found, None


def _check_cover(fields: list[RecordField], end: int) -> None:
    """Each byte is in one field."""
    assert [field.start for field in fields] == [0, *(field.end for field in fields[:-1])]
    assert fields[-1].end == end


@pytest.mark.parametrize("pair", [SMALL, NULL, LARGE], ids=["small", "null", "large"])
def test_many_headers_are_one_field(pair: bytes) -> None:
    data = record(COUNT, pair)
    fields, stuck = _fields(data)
    assert stuck is None
    _check_cover(fields, len(data))
    assert fields[-1].name == f"headers {SHOWN_HEADERS} to {COUNT - 1}"
    assert fields[-1].headers == COUNT - SHOWN_HEADERS
    assert len(fields) < 100
    assert survey_records(memoryview(data), 0, len(data)).end == len(data)


@pytest.mark.parametrize("pair", [SMALL, NULL, LARGE], ids=["small", "null", "large"])
def test_a_header_of_interest_is_shown(pair: bytes) -> None:
    data = record(COUNT, pair)
    start = len(data) - 100 * len(pair)
    fields, _ = _fields(data, [start + len(pair) - 1])
    _check_cover(fields, len(data))
    names = [field.name for field in fields if field.start >= start - len(pair)]
    assert names[0] == f"headers[{COUNT - 100}].keySize"
    assert names[-1] == f"headers {COUNT - 99} to {COUNT - 1}"
    assert [field.headers for field in fields if field.headers] == [COUNT - 100 - SHOWN_HEADERS, 99]


@pytest.mark.parametrize("pair", [SMALL, LARGE], ids=["small", "large"])
def test_a_broken_header_is_shown(pair: bytes) -> None:
    data = bytearray(record(COUNT, pair))
    start = len(data) - 100 * len(pair)
    data[start : start + 1] = varint(-1)
    fields, stuck = _fields(bytes(data))
    assert stuck is not None
    assert stuck.blamed == f"headers[{COUNT - 100}].keySize"
    assert fields[-1].name == f"headers[{COUNT - 100}].keySize"
    assert fields[-2].name == f"headers {SHOWN_HEADERS} to {COUNT - 101}"


def test_few_headers_are_all_shown() -> None:
    fields, _ = _fields(record(SHOWN_HEADERS, SMALL))
    assert not any(field.headers for field in fields)
    fields, _ = _fields(record(SHOWN_HEADERS + 1, SMALL))
    assert (fields[-1].name, fields[-1].headers) == (f"headers[{SHOWN_HEADERS}]", 1)


def test_a_survey_that_got_stuck_does_not_keep_the_data() -> None:
    """Each search in a damaged log read 16 MiB, which stayed until the garbage collector ran."""
    gc.collect()
    gc.disable()
    try:
        data = array("B", b"\xff" * 100)
        alive = weakref.ref(data)
        survey = survey_records(memoryview(data).cast("B"), 0, 100)
        del data
        assert survey.stuck is not None
        assert alive() is None
    finally:
        gc.enable()
