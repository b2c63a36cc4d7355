"""Figures by key and by the value of a header: those of a plain count, up to the limit of groups."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.inputs import resolve
from kdump.stats import grouping
from kdump.stats.grouping import By, grouping_of
from kdump.stats.report import stats_row
from kdump.stats.run import StatsOptions, StatsRun
from kdump.verify.run import Verification
from tests.harness.batches import CONTROL, TRANSACTIONAL, Row, message, v2_batch
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import CLEAN, NAME, USAGE, kdump
from tests.harness.examples import sparse
from tests.harness.plain_figures import shown

LOG = FIXTURES / "segments" / "v2-txn-0"


def rows_by(path: Path, by: str) -> dict[str, dict[str, Any]]:
    kind, header = grouping_of(by)
    run = StatsRun(StatsOptions(kind, header=header))
    for _ in Verification(run.judge(), on_error=lambda error: None).items(resolve(str(path))):
        pass
    return {str(figures.group): stats_row(figures, kind, header) for figures in run.report().groups}


def counts(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {group: row["records"] for group, row in rows.items()}


def label(stored: Any) -> str:
    """The name of a group, of a value as JSON lines have it."""
    if isinstance(stored, dict):
        return f"base64:{stored['base64']}"
    return "(null)" if stored is None else str(stored)


def plain(of_record: Callable[[dict[str, Any]], str]) -> Counter[str]:
    _, records = shown(*map(str, sorted(LOG.glob("*.log"))))
    return Counter("(control)" if row["isControl"] else of_record(row) for row in records)


def test_keys() -> None:
    found = rows_by(LOG, "key")
    assert counts(found) == plain(lambda row: label(row["key"]))
    _, records = shown(*map(str, sorted(LOG.glob("*.log"))))
    for group in ("user-0", "(null)"):
        own = [row for row in records if not row["isControl"] and label(row["key"]) == group]
        assert found[group]["valueBytes"] == sum(max(row["valueSize"], 0) for row in own)
        assert found[group]["maxOffset"] == max(row["offset"] for row in own)
        of_record = found[group]["keyBytes"] + found[group]["valueBytes"] + found[group]["headerBytes"]
        assert found[group]["bytes"] == of_record
        assert found[group]["batches"] is found[group]["transactions"] is None
        assert found[group]["codecs"]["none"]["bytes"] is None
    sizes = [row["bytes"] for row in found.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_values_of_a_header() -> None:
    _, records = shown(*map(str, sorted(LOG.glob("*.log"))))
    names = Counter(name for row in records for name, _ in row["headers"] if isinstance(name, str))
    for name, _ in names.most_common(3):

        def value(row: dict[str, Any], name: str = name) -> str:
            return label(dict(row["headers"])[name]) if name in dict(row["headers"]) else "(no header)"

        assert counts(rows_by(LOG, f"header:{name}")) == plain(value)


def test_the_last_header_counts(tmp_path: Path) -> None:
    headers = [
        [(b"h", b"1"), (b"h", b"2")],
        [(b"hh", b"1")],
        [(b"h", None)],
        [(b"h", b"1"), (b"h", None)],
        [],
        [(b"h", b"")],
    ]
    batch = v2_batch([Row(0, number, b"k", b"v", own) for number, own in enumerate(headers)])
    (tmp_path / NAME).write_bytes(batch + message(1, 6, b"k", b"v"))
    assert counts(rows_by(tmp_path, "header:h")) == {"2": 1, "(no header)": 3, "(null)": 2, "": 1}


def test_names_of_keys(tmp_path: Path) -> None:
    keys = [b"", b"\xff\x00", b"x" * 128, b"x" * 129, b"x" * 128 + b"y", b"\xc3\xa9" * 70, None, b"a/b"]
    marker = v2_batch([Row(0, 0, bytes(4), bytes(6))], base_offset=8, attributes=CONTROL | TRANSACTIONAL, producer_id=1)
    data = v2_batch([Row(0, number, key, b"v") for number, key in enumerate(keys)]) + marker
    (tmp_path / NAME).write_bytes(data)
    found = counts(rows_by(tmp_path, "key"))
    assert set(found.values()) == {1}
    exact = {"", "base64:" + base64.b64encode(b"\xff\x00").decode(), "x" * 128, "(null)", "(control)", "a/b"}
    assert exact < set(found)
    assert sorted(name.partition("…#")[0] for name in set(found) - exact) == ["x" * 128, "x" * 128, "é" * 64]


def test_more_keys_than_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.stats.fold.MOST_CONTENTS", 10)
    batches = []
    for number in range(20):
        rows = [
            Row(0, delta, b"key-%d" % (number * 5 + delta), b"v" * (100 if delta == 3 else 1)) for delta in range(5)
        ]
        batches.append(v2_batch(rows, base_offset=number * 5))
    (tmp_path / NAME).write_bytes(b"".join(batches))
    found = rows_by(tmp_path, "key")
    # A group is that of the batches, which is not shown, and one is of the others.
    assert len(found) == 10
    assert sum(counts(found).values()) == 100
    assert found["(others)"]["records"] == 91
    # The heavy ones of a chunk come first.
    assert all(row["records"] == 1 and row["valueBytes"] == 100 for name, row in found.items() if name != "(others)")
    assert grouping.MOST_CONTENTS == 1000


def test_epochs_and_times(tmp_path: Path) -> None:
    minute = 60_000
    start = 28_800_000 * minute
    batches = [
        v2_batch(
            [Row(0, 0, b"k", b"v"), Row(minute, 1, b"k", b"v")],
            base_offset=2 * number,
            base_timestamp=start + number * minute,
            partition_leader_epoch=number // 2,
        )
        for number in range(4)
    ]
    old = message(1, 8, b"k", b"v", timestamp=start)
    (tmp_path / NAME).write_bytes(b"".join(batches) + old)
    assert counts(rows_by(tmp_path, "leader-epoch")) == {"-1": 1, "0": 4, "1": 4}
    assert counts(rows_by(tmp_path, "minute")) == {
        "2024-10-04T00:00Z": 2, "2024-10-04T00:01Z": 2, "2024-10-04T00:02Z": 2, "2024-10-04T00:03Z": 2,
        "2024-10-04T00:04Z": 1,
    }  # fmt: skip
    assert counts(rows_by(tmp_path, "day")) == {"2024-10-04": 9}


@pytest.mark.parametrize("by", sparse(["day", "header:trace-id", "minute", "leader-epoch", "key"], fast=5))
def test_in_processes_and_on_the_page(by: str) -> None:
    words = ("stats", "--by", by, str(LOG))
    one = kdump(*words, "--output", "jsonl", "-j", "1", cwd=LOG)
    two = kdump(*words, "--output", "jsonl", "-j", "2", cwd=LOG)
    assert (one.returncode, one.stdout) == (two.returncode, two.stdout)
    rows = [json.loads(line) for line in one.stdout.splitlines()]
    assert {row["by"] for row in rows} == {by}
    page = kdump(*words, cwd=LOG)
    assert page.returncode == CLEAN
    assert len(rows) == 1 or by.partition(":")[0] in page.stdout.decode()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--by", "key", "--quick"), "--by key reads every record, it does not go with --quick"),
        (("--by", "header:h", "--quick"), "--by header:h reads every record"),
        (("--by", "header"), "'header' is none of segment, partition"),
        (("--by", "header:"), "'header:' is none of segment, partition"),
        (("--by", "minutes"), "'minutes' is none of segment, partition"),
    ],
)
def test_usage(words: tuple[str, ...], message: str) -> None:
    run = kdump("stats", *words, str(LOG), cwd=LOG)
    assert run.returncode == USAGE
    assert message in run.stderr.decode()


def test_names_of_groupings() -> None:
    assert grouping_of("header:a:b") == (By.HEADER, "a:b")
    assert grouping_of("leader-epoch") == (By.LEADER_EPOCH, "")
    for wrong in ("header", "key:a", "hours"):
        with pytest.raises(ValueError, match=wrong):
            grouping_of(wrong)
