"""``kdump dump --dialect`` against the recorded output of DumpLogSegments of 0.8.2.2 to 4.1.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.reading.view import DecodePath
from tests.harness.captures import Captures
from tests.harness.dialects import GROUPS, golden, runs, unpacked, with_goldens
from tests.harness.inprocess import Way, run_in_process
from tests.harness.outcome import differences

_WAY = Way(path=DecodePath.COLUMNAR)
"""The older lines are made one by one on both paths; those of 4.3 that 3.9 and 4.1 have too, on this one in columns."""


@pytest.fixture(scope="module")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded runs."""
    return unpacked(tmp_path_factory.mktemp("dialects"))


FAST = ("0.10.2",)
"""The others take longer, the later the more."""


@pytest.mark.parametrize(
    "dialect", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in GROUPS]
)
def test_dialect(captures: Captures, goldens: Path, dialect: str) -> None:
    found = []
    compared = 0
    for partition in with_goldens(captures, dialect):
        directory = captures.root / partition
        for name, names, flags in runs(captures, dialect, partition):
            if not (goldens / dialect / partition / f"{name}.rc").exists():
                continue  # The tool ran out of memory.
            kdump = run_in_process([str(directory / file) for file in names], flags.options, _WAY)
            if kdump.failure is not None and kdump.failure.startswith("TooNewError: "):
                continue
            compared += 1
            java = golden(goldens, dialect, partition, name, directory)
            what = differences(java, kdump, flags, ordered=False)
            found += [f"{partition} {name}: {one}" for one in what]
    assert found == []
    assert compared > 50
