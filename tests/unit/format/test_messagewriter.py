"""Messages that are written: the same bytes as the writer of the tests, and what the reader reads."""

from __future__ import annotations

from random import Random

import pytest

from kdump.format.message import Schema, read_message, request_schemas, schemas
from kdump.format.messagewriter import write_message
from kdump.wire.cursor import Cursor
from tests.harness import messages

ALL = {**schemas(), **request_schemas()}


@pytest.mark.parametrize("schema", ALL.values(), ids=ALL)
def test_all_messages(schema: Schema) -> None:
    for version in range(schema.versions.low, schema.versions.high + 1):
        for seed in range(3):
            values = messages.random_values(schema.fields, version, Random(seed))
            data = b"".join(write_message(schema, version, values))
            assert data == messages.write_message(schema, version, values)
            cursor = Cursor(data)
            read_message(schema, version, cursor)
            assert not cursor.remaining


def test_defaults_and_long_values() -> None:
    schema = request_schemas()["FetchResponse"]
    records = memoryview(bytes(100_000))
    partition = {"partitionIndex": 3, "records": records}
    parts = write_message(schema, 12, {"responses": [{"topic": "t", "partitions": [partition]}]})
    assert any(part is records for part in parts)
    values = read_message(schema, 12, Cursor(b"".join(parts)))
    assert values["errorCode"] == 0
    assert values["responses"][0]["partitions"][0]["lastStableOffset"] == -1  # type: ignore[index, call-overload]
