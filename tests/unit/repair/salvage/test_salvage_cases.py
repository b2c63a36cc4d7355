"""The cases of fixtures/cases, salvaged: nothing undamaged is lost, and every flipped bit is set back."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kdump.format import legacy
from kdump.format.batch import MAGIC_OFFSET, parse_header
from kdump.format.record import read_records
from kdump.repair.salvage.siblingcontext import sibling_context
from tests.harness.archives import case_files, repair_logs
from tests.harness.batches import entries
from tests.harness.salvaged import mend

UNDAMAGED_LOST = ("rightcrc_lastOffsetDelta_+1",)
"""A damaged batch lays claim, under a right CRC, to offsets of the next one, which has fewer records."""


@cache
def bases() -> dict[str, bytes]:
    return {name: data for name, _, data in repair_logs("base")}


def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in case_files("repair")["repair/results.jsonl"].splitlines()]


def records(entry: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    data = memoryview(entry)
    if entry[MAGIC_OFFSET] < 2:
        inner = list(legacy.read_records(legacy.parse_message(data)))
        return [(record.offset, record.message.key(), record.message.value()) for record in inner]
    return [(record.offset, record.key, record.value) for record in read_records(parse_header(data), data)]


def unpacked(case: dict[str, Any], directory: Path) -> Path:
    """The log of a case with its index files."""
    prefix = f"repair/mutants/{case['id']}/"
    for name, data in case_files("repair").items():
        if name.startswith(prefix):
            (directory / name.removeprefix(prefix)).write_bytes(data)
    return directory / f"{case['name']}.log"


@pytest.mark.slow
def test_undamaged_records_survive(tmp_path: Path) -> None:
    """In each result verify finds no error and recovery cuts nothing, too: ``mend`` looks at it."""
    possible = held = 0
    for case in cases():
        directory = tmp_path / case["id"]
        directory.mkdir()
        path = unpacked(case, directory)
        damaged = path.read_bytes()
        result = mend(damaged, sibling_context(str(path)))
        have = {record for entry in entries(result.data) for record in records(entry)}
        wanted = [entry for entry in entries(bases()[case["base"]]) if entry in damaged]
        lost = [record for entry in wanted for record in records(entry) if record not in have]
        possible += sum(len(records(entry)) for entry in wanted)
        held += sum(len(records(entry)) for entry in wanted) - len(lost)
        if not case["mutation"].startswith(UNDAMAGED_LOST):
            assert lost == [], (case["id"], case["mutation"])
    print(f"{held:,} of {possible:,} records")
    assert held > 80_000


def test_flipped_bits_are_set_back() -> None:
    told = Counter[str]()
    for case in cases():
        if not case["mutation"].startswith("flip_"):
            continue
        damaged = case_files("repair")[f"repair/mutants/{case['id']}/{case['name']}.log"]
        result = mend(damaged, sibling_context(f"/nowhere/{case['name']}.log"), correct=True)
        assert result.data == bases()[case["base"]], (case["id"], case["mutation"])
        told[case["mutation"].split("_")[-1]] += 1
    assert {"payload", "crc", "count", "producerId", "lastOffsetDelta"} <= set(told)


def test_a_replica_makes_a_log_whole(tmp_path: Path) -> None:
    """The sound segment as the replica: what has damaged bytes and an end that is known becomes it again."""
    kinds = ("garbage_middle", "zero_page_middle", "flip_payload", "rightcrc_compressed_cut", "rightcrc_record")
    done = 0
    for case in cases():
        if not case["mutation"].startswith(kinds):
            continue
        base = bases()[case["base"]]
        path = tmp_path / case["id"] / f"{case['name']}.log"
        path.parent.mkdir()
        path.write_bytes(base)
        damaged = case_files("repair")[f"repair/mutants/{case['id']}/{case['name']}.log"]
        around = sibling_context(f"/nowhere/{case['name']}.log")
        assert mend(damaged, around, replicas=(str(path),)).data == base, (case["id"], case["mutation"])
        done += 1
    assert done > 10


@pytest.mark.parametrize("name", sorted({"b09-v2-none-headers", "b15-v2-txn-mixed"}))
def test_clean_segments_stay_as_they_are(name: str) -> None:
    for number, start, data in repair_logs("base"):
        if number == name:
            assert mend(data, sibling_context(f"/nowhere/{start}.log")).data == data
