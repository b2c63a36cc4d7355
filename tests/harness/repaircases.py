"""Damaged segments with what Kafka's own recovery made of each (fixtures/cases, or the whole collection)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kdump.codes import KdumpError
from kdump.inputs import resolve
from kdump.repair.plan.plan import PartitionPlan, RepairSettings
from kdump.repair.run import Repair, RepairOptions

KINDS = ("log", "index", "timeindex", "txnindex")


def differences(root: Path, case: dict[str, Any], output: Path) -> list[str]:
    """In what a repaired copy of a case differs from what Kafka left: empty when it is the same, byte for byte."""
    log = root / "mutants" / case["id"] / f"{case['name']}.log"
    errors: list[KdumpError] = []
    options = RepairOptions(settings=RepairSettings(first_segment=True), output=str(output))
    with Repair(options, on_error=errors.append) as job:
        plans = [repaired.plan for repaired in job.of(resolve(str(log)))]
    assert not errors
    if case["outcome"] == "exception":
        return list(_unlike_failure(plans[0], case, output))
    return [kind for kind in KINDS if _state(output / f"{case['name']}.{kind}") != case["recover"]["files"][kind]]


def _unlike_failure(plan: PartitionPlan, case: dict[str, Any], output: Path) -> Iterator[str]:
    failure = plan.failed and plan.failed.recovered.recovery.failure
    if failure is None:
        yield "no failure"
    elif failure.kind.java_class != case["recover"]["exception"]["class"]:
        yield failure.kind.java_class
    elif case["loader_outcome"] == "wiped" and not failure.kind.empties_segment:
        yield "empties the segment"
    yield from (path.name for path in output.glob("*.log"))


def _state(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    data = path.read_bytes()
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
