"""``kdump.open``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kdump
from kdump import testing
from tests.harness.captures import Captures
from tests.harness.cli_runs import dump

MULTI = "4.3.1/v2-multi-0"


def test_a_partition(captures: Captures) -> None:
    path = captures.root / MULTI
    names = sorted(file.name for file in path.glob("*.log"))
    with kdump.open(path) as log:
        assert [Path(segment.path).name for segment in log.segments] == names
        assert log.base_offset == 0
        assert log.segments[1].base_offset == int(names[1].removesuffix(".log"))
        assert list(log) == list(log.records()) == list(kdump.scan(path))
        assert list(log.batches()) == list(kdump.scan(path).batches())
        assert list(log.segments[1].records()) == list(kdump.scan(log.segments[1].path))
        assert [record.offset for record in log.records(offsets=(70, 80))] == list(range(70, 80))


def test_index_entries_lead_to_batches(captures: Captures) -> None:
    with kdump.open(captures.root / MULTI) as log:
        for segment in log.segments:
            last_offsets = {batch.position: batch.last_offset for batch in segment.batches()}
            assert segment.offset_index
            assert all(last_offsets[entry.position] == entry.offset for entry in segment.offset_index)
            assert [entry.timestamp for entry in segment.time_index] == sorted(
                {e.timestamp for e in segment.time_index}
            )
        assert len(log.offset_index) == sum(len(segment.offset_index) for segment in log.segments)


def test_aborted_transactions(tmp_path: Path) -> None:
    ended = testing.write_segment(tmp_path / "a-0", [(b"k", b"v")] * 3, producer=(5, 0), transactional="abort")
    with kdump.open(ended) as log:
        (aborted,) = log.segments[0].aborted_transactions
        assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (5, 0, 3)
    plain = testing.write_segment(tmp_path / "b-0", [(b"k", b"v")])
    with kdump.open(plain) as log:
        assert log.segments[0].aborted_transactions == []


@pytest.mark.parametrize("offset", [0, 39, 40, 77, 249])
def test_record_at(captures: Captures, offset: int) -> None:
    with kdump.open(captures.root / MULTI) as log:
        found = log.record_at(offset)
        assert found is not None
        assert found.offset == offset


@pytest.mark.parametrize("offset", [-1, 250, 10**12])
def test_no_record_there(captures: Captures, offset: int) -> None:
    with kdump.open(captures.root / MULTI) as log:
        assert log.record_at(offset) is None


def test_explain_is_that_of_the_command(captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    path = captures.root / MULTI / f"{40:020}.log"
    with kdump.open(path) as log:
        status, lines, _ = dump("--explain", "30", str(path), cwd=Path.cwd())
        assert status == 0
        assert log.explain(30).splitlines() == lines
        with pytest.raises(ValueError, match="-1"):
            log.explain(-1)
    with kdump.open(path.parent) as log, pytest.raises(ValueError, match="one segment"):
        log.explain(0)


def test_nothing_is_open_after_close(captures: Captures) -> None:
    before = os.listdir("/proc/self/fd")
    log = kdump.open(captures.root / MULTI)
    iterators = [log.records(), log.batches(), log.segments[2].records()]
    for iterator in iterators:
        next(iterator)
    assert len(os.listdir("/proc/self/fd")) > len(before)
    log.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)
    with pytest.raises(ValueError, match="is closed"):
        log.records()
    with pytest.raises(ValueError, match="is closed"):
        log.segments[0].explain(0)


def test_what_cannot_be_opened(captures: Captures, tmp_path: Path) -> None:
    with pytest.raises(kdump.KdumpError, match="no such file"):
        kdump.open(tmp_path / "00000000000000000000.log")
    with pytest.raises(kdump.KdumpError):
        kdump.open(tmp_path)
    with pytest.raises(kdump.KdumpError, match="not a file"):
        kdump.open(captures.root / MULTI / f"{0:020}.index")
    with pytest.raises(ValueError, match="partitions"):
        kdump.open(captures.root / "4.3.1")
