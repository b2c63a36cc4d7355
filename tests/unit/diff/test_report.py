"""Records side by side, as JSON and for people: a long value is never a whole text."""

from __future__ import annotations

import json
from itertools import takewhile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.diff import report
from kdump.diff.comparison import DifferenceKind
from kdump.diff.contents import StoredRecord
from kdump.diff.shown import RecordDifference
from kdump.rows.scalarlines import json_line
from tests.harness.plainoutput import dumps, json_value

SAME = st.sampled_from([b"", b"a" * 39, b"a" * 41, b"a" * 70, b'"' * 25, "ä".encode() * 50, b"\xff" * 40])
VALUES = st.none() | st.builds(
    bytes.__add__, SAME, st.binary(max_size=12) | st.text(max_size=70).map(lambda text: text.encode("utf-8", "ignore"))
)
QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def reported(*values: bytes | None) -> RecordDifference:
    records = tuple(StoredRecord(5, 7, b"key", value, 3, False) for value in values)
    paths = tuple(f"n{number}" for number in range(len(values)))
    return RecordDifference(("t", 0), paths, 5, DifferenceKind.RECORD, records)


def expected_cells(values: list[bytes | None]) -> list[str]:
    """60 characters of each; where the texts part late, from 20 characters before."""
    texts = [dumps(json_value(value)) for value in values]
    columns = zip(*(text.ljust(max(map(len, texts)), "\0") for text in texts), strict=True)
    same = 0 if len(set(texts)) == 1 else len(list(takewhile(lambda column: len(set(column)) == 1, columns)))
    first = same - 20 if same > 40 and max(map(len, texts)) > 60 else 0
    return [
        report.escaped(("..." if first else "") + text[first : first + 60] + ("..." if text[first + 60 :] else ""))
        for text in texts
    ]


@given(st.lists(VALUES, min_size=2, max_size=3))
@QUIET
def test_the_place_where_values_part_is_seen(values: list[bytes | None]) -> None:
    lines = report.record_text(reported(*values)).splitlines()[1:]
    assert [line.partition("  value ")[2] for line in lines] == expected_cells(values)


@given(st.lists(VALUES, min_size=2, max_size=3))
@QUIET
def test_records_as_json(values: list[bytes | None]) -> None:
    text = json_line(report.record_row(reported(*values)))
    members = json.loads(text)
    assert [one["value"] for one in members["records"]] == [json_value(value) for value in values]
    assert text == dumps(members) + "\n"
