"""Kafka's own answers: what recovery cuts or its strict reader rejects is an error, where it happened.

The cases are those of fixtures/cases; the captures, of brokers of six versions, are sound and must be told so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import Codes, Finding, Severity
from kdump.log.names import parse_file_name, parse_partition_directory
from kdump.log.walk import Walk
from kdump.verify.ordered import OrderedChecks
from kdump.verify.segment import CheckOptions
from tests.harness.archives import case_files, repair_logs
from tests.harness.captures import Captures, partition_cases, partition_names
from tests.harness.checked import MemorySource, both_ways, check

TO_BE_SEEN = (
    "cut_middle", "marker_removed", "markers_swapped", "foreign_batch_appended", "legacy_after_v2", "flip_v2_magic",
    "set_v2_magic", "flip_v2_leaderEpoch", "set_leaderEpoch", "rightcrc_txn_bit_cleared", "rightcrc_producer",
)  # fmt: skip
"""Mutations that Kafka does not notice and that must be found, at any severity."""
COORDINATOR_TOPICS = {"__consumer_offsets", "__transaction_state"}


def entries(data: bytes) -> list[tuple[int, int]]:
    return [
        (chunk.position + start, chunk.position + end)
        for chunk in Walk(MemorySource(data)).chunks()
        for start, end in chunk.entries()
    ]


def places(case: dict[str, Any], base: bytes, data: bytes) -> range:
    """Where an error of a case must lie."""
    if case["outcome"] == "truncated":
        size = case["recover"]["size"]
        if case["mutation"].startswith("rightcrc_marker"):
            # Recovery cuts after a bad marker.
            size = next(start for start, end in entries(data) if end == size)
        return range(size, size + 1)
    shorter = min(len(base), len(data))
    first = next((at for at in range(shorter) if base[at] != data[at]), shorter)
    if base == data:
        return range(len(data))  # the name is wrong, so all of it
    after = [(start, end) for start, end in entries(data) if end > first][:2]
    return range(after[0][0], after[-1][1]) if after else range(first, len(data) + 1)


def test_clean_segments() -> None:
    for name, number, data in repair_logs("base"):
        found = both_ways(data, base_offsets=[int(number)])
        assert all(one.severity is Severity.INFO for one in found), (name, list(map(str, found)))


@pytest.mark.slow
def test_damage_is_found_where_it_is() -> None:
    bases = {name: data for name, _, data in repair_logs("base")}
    cases = [json.loads(line) for line in case_files("repair")["repair/results.jsonl"].splitlines()]
    mutants = {name: (number, data) for name, number, data in repair_logs("mutants")}
    missed = []
    for case in cases:
        if case["mutation"].startswith("index_"):
            continue
        number, data = mutants[case["id"]]
        found = both_ways(data, base_offsets=[int(number)])
        if case["outcome"] != "unchanged" or case["kafka_reads"].get("ok") is False:
            allowed = places(case, bases[case["base"]], data)
            is_found = any(one.severity is Severity.ERROR and one.position in allowed for one in found)
        else:
            told = [one for one in found if one.code is not Codes.TRANSACTION_OPEN]  # so is that of a base
            # Some mutations leave the base as it is.
            is_silent = data == bases[case["base"]] or not case["mutation"].startswith(TO_BE_SEEN)
            is_found = bool(told) or is_silent
        if not is_found:
            missed.append((case["id"], case["mutation"], list(map(str, found))))
    assert not missed
    assert len(cases) > 200


@pytest.mark.parametrize("name", partition_cases(name for name in partition_names() if not name.startswith("damaged/")))
def test_captures_are_sound(captures: Captures, name: str) -> None:
    for columnar in (False, True):
        found = partition_findings(captures.root / name, columnar)
        assert [one for one in found if one.severity is not Severity.INFO] == []


def partition_findings(directory: Path, columnar: bool) -> list[Finding]:
    parsed = parse_partition_directory(directory.name)
    ordered = OrderedChecks(is_coordinator=parsed is not None and parsed[0] in COORDINATOR_TOPICS)
    files = sorted(directory.glob("*.log")) or sorted(directory.glob("*.checkpoint"))
    names = [parse_file_name(path.name) for path in files]
    # A checkpoint's offsets start at 0 whatever its name says.
    bases = [name.base_offset if name and path.suffix == ".log" else 0 for path, name in zip(files, names, strict=True)]
    segments = [path.read_bytes() for path in files]
    return check(*segments, base_offsets=bases, ordered=ordered, options=CheckOptions(columnar=columnar))
