"""KD418: what stops a start is an error of ``verify`` too, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.codes import Codes, Severity
from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.start import start
from kdump.log.names import Kind
from kdump.verify.run import findings
from tests.harness.archives import cases, unpack_cases
from tests.harness.cli_runs import DAMAGE, kdump


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition whose .index leads into batches."""
    return unpack_cases("startedges", tmp_path) / "cases/502177/in/t502177-0"


def stops(folder: Path) -> list[str]:
    return [finding.message for finding in findings(str(folder)) if finding.code is Codes.START_STOPS]


def worst(folder: Path) -> set[Severity]:
    return {finding.severity for finding in findings(str(folder))}


def test_an_index_that_leads_into_a_batch(partition: Path) -> None:
    assert stops(partition) == [
        "a start after a clean stop fails: 00000000000000000000.log: the length field at position 27274 is -65536 "
        "(org.apache.kafka.common.errors.CorruptRecordException)"
    ]
    run = kdump("verify", partition.name, cwd=partition.parent)
    assert (run.returncode, run.stdout.count(b"error KD418")) == (DAMAGE, 1)


def test_a_wrong_index_that_stops_nothing(partition: Path) -> None:
    index = next(partition.glob(f"*{Kind.INDEX.value}"))
    data = bytearray(index.read_bytes())
    # The last entry, which a start follows, leads to the first batch.
    index.write_bytes(bytes(data[:-4]) + bytes(4))
    assert stops(partition) == []
    assert Severity.WARNING in worst(partition)
    index.unlink()
    assert stops(partition) == []


@pytest.mark.parametrize("name", ["x.swap", "notes.log", "copy.index", "b.txnindex"])
def test_a_name_without_an_offset(partition: Path, name: str) -> None:
    next(partition.glob(f"*{Kind.INDEX.value}")).unlink()
    (partition / name).write_bytes(b"")
    assert len(stops(partition)) == 1
    # Without a file that proves a loss, which would be an error of its own.
    without_log = partition.with_name("gone-0")
    without_log.mkdir()
    for file in (name, "00000000000000000000.snapshot"):
        (without_log / file).write_bytes(b"")
    assert len(stops(partition.parent)) == 2


def test_a_swap_that_cannot_be_read(partition: Path) -> None:
    next(partition.glob(f"*{Kind.INDEX.value}")).unlink()
    swap = partition / "00000000000000000000.log.swap"
    log = next(partition.glob("*.log")).read_bytes()
    swap.write_bytes(log)
    assert stops(partition) == []
    swap.write_bytes(log[:8] + (5).to_bytes(4, "big") + log[12:])
    assert len(stops(partition)) == 1


@pytest.mark.slow
def test_all_that_stops_is_an_error(tmp_path: Path) -> None:
    """The directories of the real starts: an error wherever a clean start fails, and KD418 nowhere else."""
    root = unpack_cases("startup", tmp_path)
    told = 0
    for case in cases(root):
        directory = root / case["dir"]
        failure = start(Directory.on_disk(str(directory)), LoadSettings(is_clean=True)).failure
        told += bool(stops(directory))
        assert failure is not None or not stops(directory), case["id"]
        assert failure is None or Severity.ERROR in worst(directory), case["id"]
    assert told >= 8
