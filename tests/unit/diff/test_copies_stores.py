"""Copies in a store: only headers are fetched, and the ranges that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow.fs", reason="paths with a scheme need pyarrow")

from tests.harness.replicas import MadeBatch, compared, make_copy, told
from tests.harness.store_runs import BUCKET, CountingStore, store

__all__ = ["store"]


def test_headers_and_ranges_that_differ(store: CountingStore, tmp_path: Path) -> None:
    batches = [MadeBatch(base, value=bytes(4000)) for base in range(0, 500, 5)]
    remote = make_copy(store.root / "t-0", [batches[:50], batches[50:]])
    for base in (0, 250):
        (remote / f"{base:020}.index").write_bytes(b"")
    size = sum(path.stat().st_size for path in remote.glob("*.log"))
    local = make_copy(tmp_path / "local" / "t-0", [batches])
    changed = [*batches[:70], MadeBatch(350, value=b"x" * 4000), *batches[71:]]
    other = make_copy(tmp_path / "other" / "t-0", [changed])
    store.ranges.clear()
    assert [kind for kind, *_ in told(compared(f"{BUCKET}/t-0", local))] == ["segments"]
    headers = store.bytes_read
    assert headers < size / 10
    store.ranges.clear()
    assert ("record", 350, 354, (0, 1)) in told(compared(f"{BUCKET}/t-0", other))
    assert store.bytes_read - headers < 2 * len(batches[0].data())
