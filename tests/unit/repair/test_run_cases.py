"""``kdump repair`` as a broker would: the files that Kafka's own recovery left, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.archives import cases, unpack_cases
from tests.harness.repaircases import differences


@pytest.mark.slow
def test_cases(tmp_path: Path) -> None:
    root = unpack_cases("repair", tmp_path)
    found = {case["id"]: differences(root, case, tmp_path / "out" / case["id"]) for case in cases(root)}
    assert len(found) > 200
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
