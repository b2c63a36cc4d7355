"""``kdump dump`` against the recorded output of DumpLogSegments 4.3.1, for every capture and flag set."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.kafka.dumplog.tool import target_by_path
from tests.harness.captures import Captures, Golden, partition_names
from tests.harness.inprocess import Door, run_in_process
from tests.harness.outcome import differences

def differing(golden: Golden, door: Door) -> list[str]:
    """What differs in one run, with the name of the golden; empty when it is the same."""
    java = golden.outcome()
    kdump = run_in_process(golden.files, golden.flags.options, door)
    return [f"{golden.name}: {what}" for what in differences(java, kdump, golden.flags, ordered=False)]


@pytest.mark.parametrize("partition", partition_names())
def test_files(captures: Captures, partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(captures.root / partition)
    goldens = captures.goldens(partition)
    assert goldens
    assert [line for golden in goldens for line in differing(golden, Door.FILES)] == []


@pytest.mark.parametrize("partition", partition_names())
def test_paths(captures: Captures, partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory: Path = captures.root / partition
    monkeypatch.chdir(directory)
    goldens = [golden for golden in captures.goldens(partition) if all(map(target_by_path, golden.files))]
    assert [line for golden in goldens for line in differing(golden, Door.PATH)] == []
