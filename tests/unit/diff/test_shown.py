"""Records side by side: each batch is read once, however many findings lie in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kdump.diff import shown
from kdump.diff.comparison import Comparison
from kdump.diff.contents import DiffOptions, read_stored
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.replicas import loaded, make_copy


def test_a_batch_with_many_findings_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = plain_rows(9)
    changed = [replace(row, value=b"x") if row.offset_delta % 2 else row for row in rows]
    folders = [make_copy(tmp_path / name / "t-0", []) for name in ("a", "b")]
    for folder, own in zip(folders, (rows, changed), strict=True):
        (folder / f"{0:020}.log").write_bytes(v2_batch(own))
    comparison = Comparison([loaded(folder) for folder in folders], DiffOptions())
    differences = comparison.differences()
    assert [one.first_offset for one in differences if one.kind.word == "record"] == [1, 3, 5, 7]
    reads = []

    def counted(*arguments: object) -> object:
        reads.append(arguments)
        return read_stored(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(shown, "read_stored", counted)
    found = list(shown.shown_records(comparison, differences, ("t", 0), ("a", "b")))
    assert [(one.offset, [record and record.value for record in one.records]) for one in found] == [
        (offset, [rows[offset].value, b"x"]) for offset in (1, 3, 5, 7)
    ]
    assert len(reads) == 2
