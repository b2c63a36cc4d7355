"""The rows of ``--output jsonl`` hold what the real tool's ``--print-data-log`` holds, for every capture.

The text is made anew from nothing but the rows, by the templates of docs/spec/dump-output.md#4-logs-and-checkpoints and
docs/spec/dump-output.md#5-records, and compared with the recorded text. That both decode paths write the same bytes is
a test of its own (test_dump_bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from kdump.reading.view import DecodePath
from tests.harness.captures import Captures, partition_cases
from tests.harness.row_runs import batches, records
from tests.harness.row_text import batch_line, record_line

HEADINGS = ("Dumping ", "Log starting offset: ", "Snapshot end offset: ", "KRaft bootstrap snapshot")


def text_of(path: Path) -> Iterator[str]:
    """The lines of the batches and, below each, those of its records."""
    below = {
        position: list(rows)
        for position, rows in groupby(records(path, path=DecodePath.COLUMNAR), key=lambda row: row["position"])
    }
    for row in batches(path, path=DecodePath.COLUMNAR):
        yield batch_line(row)
        yield from map(record_line, below.pop(row["position"], ()))
    assert not below, "records without a batch"


@pytest.mark.parametrize("partition", partition_cases(fast=16))
def test_rows_hold_what_the_text_holds(captures: Captures, partition: str) -> None:
    compared = 0
    for golden in captures.goldens(partition):
        if golden.flags.name != "print" or not golden.files[0].endswith((".log", ".checkpoint")):
            continue
        outcome = golden.outcome()
        text = outcome.whole_lines.decode("utf-8", "surrogateescape")
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(HEADINGS)]
        if lines and lines[-1].startswith("Found "):
            lines.pop()
        text = "".join(f"{line}\n" for line in text_of(golden.directory / golden.files[0]))
        ours = text.splitlines(keepends=True)
        # Where the Java tool aborts the view of batches, which decodes nothing, goes on.
        assert ours[: len(lines)] == lines if outcome.status else ours == lines
        compared += 1
    if not compared:
        pytest.skip("no recorded text")
