"""Control records of KRaft as older tools read them; tests/oracle compares with the tools themselves."""

from __future__ import annotations

import struct

import pytest

from kdump.codes import DamageError
from kdump.dump.dialects.versions import DIALECTS
from kdump.dump.text.dialect import NEWEST_DIALECT, Dialect
from kdump.dump.text.options import TextOptions
from kdump.format.batch import CONTROL, parse_header
from kdump.format.control import LEADER_CHANGE
from kdump.format.record import Record, read_records
from tests.harness.batches import v2_batch
from tests.harness.fast_reference import Row

_LIMIT = 1 << 20
_LEADER_CHANGE = struct.pack(">hibb", 0, 7, 1, 1)
"""Version 0, the leader 7, and no voters: all before the tagged fields."""


def line(dialect: Dialect, tagged: bytes) -> str:
    key = struct.pack(">hh", 0, LEADER_CHANGE)
    data = v2_batch([Row(0, 0, key, _LEADER_CHANGE + tagged)], attributes=CONTROL)
    header = parse_header(data)
    (record,) = read_records(header, data, _LIMIT)
    assert isinstance(record, Record)
    return dialect.printer(TextOptions(), None, None, with_records=True).record(header, 0, True, record)


@pytest.mark.parametrize("version", ["4.1", "4.3"])
def test_a_number_of_tagged_fields_that_cannot_be(version: str) -> None:
    """Up to 4.3 nobody looks at it before the fields are read: -1 of them are none."""
    shown = line(DIALECTS[version], b"\xff\xff\xff\xff\x0f")
    assert shown == line(DIALECTS[version], b"\0").replace("valueSize: 9", "valueSize: 13")
    assert '"leaderId":7' in shown
    with pytest.raises(DamageError):
        line(NEWEST_DIALECT, b"\xff\xff\xff\xff\x0f")
    assert '"leaderId":7' in line(NEWEST_DIALECT, b"\0")
