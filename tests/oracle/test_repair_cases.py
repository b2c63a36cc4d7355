"""All repair cases, where ``KDUMP_REPAIR_CASES`` names the unpacked collection (see fixtures/cases)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.archives import cases
from tests.harness.repaircases import differences

pytestmark = pytest.mark.oracle


def test_all_cases(tmp_path: Path) -> None:
    given = os.environ.get("KDUMP_REPAIR_CASES")
    if given is None:
        pytest.skip("KDUMP_REPAIR_CASES does not name the collection")
    root = Path(given)
    found = {case["id"]: differences(root, case, tmp_path / case["id"]) for case in cases(root)}
    wrong = {name: kinds for name, kinds in found.items() if kinds}
    print(f"{len(found) - len(wrong)} of {len(found)} as Kafka left them")
    assert not wrong
