"""``kdump --most``: limits of what is kept in memory, in this process and in others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import DAMAGE, USAGE, shell


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_limit_holds_in_every_process(tmp_path: Path, jobs: str) -> None:
    for base in (0, 100):
        batches = [bytearray(v2_batch(plain_rows(1), base_offset=base + number)) for number in range(4)]
        for batch in batches[:3]:
            batch[-1] ^= 1
        (tmp_path / f"{base:020}.log").write_bytes(b"".join(batches))
    got = shell(f"$KDUMP --most findings=1 verify -j {jobs} .", tmp_path)
    assert got.returncode == DAMAGE
    assert got.stdout.count(b"KD108") == 2
    assert got.stdout.count(b"2 of severity error; kdump --most findings=NUMBER raises the limit of 1") == 2


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(("limit", "groups"), [(5, [0, 1, 2, 3, 4]), (3, [0, 1, 2, "(others)"])])
def test_groups_over_the_limit_are_one(tmp_path: Path, limit: int, groups: list[int | str], jobs: str) -> None:
    for base in (0, 100):
        batches = [v2_batch(plain_rows(1), base_offset=base + number, producer_id=number) for number in range(5)]
        (tmp_path / f"{base:020}.log").write_bytes(b"".join(batches))
    words = f"$KDUMP --most groups={limit} stats --by producer --output jsonl -j {jobs} ."
    got = shell(words, tmp_path)
    rows = [json.loads(line) for line in got.stdout.splitlines()]
    assert [row["group"] for row in rows] == [str(group) for group in groups]
    assert [row["records"] for row in rows] == [4 if group == "(others)" else 2 for group in groups]
    told = (
        b"KD011 the figures of further groups are in the group (others); kdump --most groups=NUMBER raises"
        in got.stderr
    )
    assert told == ("(others)" in groups)


@pytest.mark.parametrize("text", ["findings", "findings=-1", "findings=1e6", "others=5"])
def test_other_limits_are_refused(tmp_path: Path, text: str) -> None:
    got = shell(f"$KDUMP --most {text} verify x", tmp_path)
    assert got.returncode == USAGE
    assert b"findings=NUMBER" in got.stderr
