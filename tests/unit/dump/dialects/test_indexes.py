"""Indexes as the tools up to 1.1 print them: entries that lead to the same batches cost nothing more."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kdump.dump.dialects import indexes
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.dumpoptions import text_dump
from tests.harness.inprocess import run_in_process


def test_empty_batches_are_passed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = [v2_batch([], base_offset=number) for number in range(40)]
    entries = [(number, number * len(empty[0])) for number in range(40)] * 3
    (tmp_path / "0.log").write_bytes(b"".join(empty) + v2_batch(plain_rows(1), base_offset=40))
    (tmp_path / "0.index").write_bytes(b"".join(struct.pack(">ii", 40, position) for _, position in entries))
    asked = []

    def counted(*arguments: object) -> object:
        asked.append(arguments)
        return batch_at(*arguments)  # type: ignore[arg-type]

    batch_at = indexes.batch_at
    monkeypatch.setattr(indexes, "batch_at", counted)
    outcome = run_in_process([str(tmp_path / "0.index")], text_dump(dialect="1.1"))
    assert outcome.stdout.decode().splitlines()[1:] == [f"offset: 40 position: {position}" for _, position in entries]
    assert len(asked) == 41
