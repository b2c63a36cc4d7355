"""A project that uses the library, which ``mypy --strict`` checks in tests/unit/library/test_library_typing.py."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, assert_type

import kdump
from kdump import testing


def records(path: Path) -> None:
    scan = kdump.scan(
        [path, "s3://bucket/orders-0"],
        columns=["offset", "key"],
        offsets=(5, None),
        time=(datetime(2026, 1, 1), None),
        topics="orders",
        partitions=[0, 1],
        keys=b"^user",
        headers={"trace": None},
        isolation="read_committed",
        decode={"value": "json"},
        on_damage="mark",
    )
    assert_type(scan, kdump.Scan)
    for record in scan:
        assert_type(record, kdump.Record)
        assert_type(record.key, bytes | None)
        assert_type(record.offset, int)
        assert_type(record.headers, tuple[tuple[str, bytes | None], ...])
        assert_type(record.txn_state, str | None)
    assert_type(next(scan.batches()), kdump.Batch)
    assert_type(scan.findings, list[kdump.Finding])
    assert_type(scan.findings[0].code, str)


def opened(path: Path) -> int | None:
    with kdump.open(path) as log:
        assert_type(log, kdump.OpenedLog)
        assert_type(log.segments[0].offset_index[0].position, int)
        assert_type(log.record_at(5), kdump.Record | None)
        assert_type(log.explain(0), str)
        return log.base_offset


def answers(path: Path) -> None:
    for finding in kdump.findings(path):
        assert_type(finding, kdump.Finding)
        assert_type(finding.first_offset, int | None)
    assert_type(kdump.figures(path, by="topic"), list[kdump.Row])
    assert_type(kdump.figures(path, by="topic")[0].to_dict(), dict[str, Any])
    outcome: str | None = kdump.start_prediction(path)[0].outcome
    assert outcome != kdump.repair_plan(path, mode="salvage")[0].way
    state = kdump.cluster_state(path, at=datetime(2026, 1, 1, 12))
    assert_type(state, kdump.ClusterState)
    assert_type(state.partitions, list[kdump.Row])
    assert_type(state.findings, list[kdump.Row])
    found = kdump.differences(path, "s3://bucket/orders-0", records=True)
    assert_type(found, kdump.Differences)
    for one in found:
        assert_type(one, kdump.Row)
    assert_type(found.truncations, list[kdump.Row])
    assert_type(kdump.group_offsets(path, at=datetime(2026, 1, 1, 12)), list[kdump.Row])


def segments(path: Path) -> None:
    log = testing.write_segment(
        path, [(b"k", None), {"value": "v"}], codec="zstd", producer=(1, 0), transactional="abort"
    )
    assert_type(log, Path)
    testing.flip_bit(log, -1)
    testing.truncate(log, 10)
