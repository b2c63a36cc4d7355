"""Values of the library against the JSON of the commands."""

from __future__ import annotations

import json
import pickle
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.rows.columns import snake_case
from tests.harness.archives import unpack_cases
from tests.harness.captures import Captures, names_with_logs
from tests.harness.cli_runs import kdump as command

SOME = names_with_logs()[::16]


def told(*words: str, type_: str | None = None) -> list[dict[str, Any]]:
    run = command(*words, "--output", "jsonl", cwd=Path.cwd())
    assert run.returncode in (0, 1, 3), run.stderr
    return [row for row in map(json.loads, run.stdout.splitlines()) if type_ in (None, row["type"])]


def path_of(captures: Captures, partition: str) -> str:
    return str(captures.root / partition)


@pytest.mark.parametrize("partition", SOME)
class TestCaptures:
    def test_findings(self, captures: Captures, partition: str) -> None:
        path = path_of(captures, partition)
        expected = told("verify", path, type_="finding")
        found = kdump.findings(path)
        assert [finding.to_dict() for finding in found] == expected
        assert [{**row, "path": row["file"]} for row in found.to_arrow().to_pylist()] == [
            {**row, "path": row["file"]} for row in expected
        ]
        for finding, row in zip(found, expected, strict=True):
            assert (finding.code, finding.name, finding.severity) == (row["code"], row["name"], row["severity"])
            assert (finding.message, finding.path) == (row["message"], row["file"])
            assert (finding.position, finding.length) == (row["position"], row["length"])
            assert (finding.first_offset, finding.last_offset) == (row["firstOffset"], row["lastOffset"])
            assert finding.continue_at == row["continueAt"]
            assert finding.title
            assert finding.help
            assert finding.code in repr(finding)

    def test_figures(self, captures: Captures, partition: str) -> None:
        path = path_of(captures, partition)
        found = kdump.figures(path, by="partition")
        assert [figures.to_dict() for figures in found] == told("stats", "--by", "partition", path, type_="stats")
        assert all(figures.records == figures.to_dict()["records"] for figures in found)

    def test_start_prediction(self, captures: Captures, partition: str) -> None:
        path = path_of(captures, partition)
        now = 1_800_000_000_000
        expected = told("verify", "--startup", "--now", str(now), path, type_="startup")
        if not expected:
            with pytest.raises(kdump.KdumpError):
                kdump.start_prediction(path, now=now)
            return
        found = kdump.start_prediction(path, now=now)
        assert [start.to_dict() for start in found] == expected
        assert [start.outcome for start in found] == [row["outcome"] for row in expected]

    def test_repair_plan(self, captures: Captures, partition: str) -> None:
        path = path_of(captures, partition)
        run = command("repair", "--output", "jsonl", path, cwd=Path.cwd())
        expected = [json.loads(line) for line in run.stdout.splitlines()]
        if not expected:
            with pytest.raises(kdump.KdumpError):
                kdump.repair_plan(path)
            return
        found = kdump.repair_plan(path)
        assert [plan.to_dict() for plan in found] == expected
        assert [plan.is_damaged for plan in found] == [row["isDamaged"] for row in expected]


def test_a_row(captures: Captures) -> None:
    path = path_of(captures, "4.3.1/v2-none-0")
    [row] = kdump.figures(path, by="partition")
    members = row.to_dict()
    assert {name: getattr(row, snake_case(name)) for name in members} == members
    assert {"max_offset", "to_dict", *map(snake_case, members)} <= set(dir(row))
    assert f" max_offset={row.max_offset} " in repr(row)
    for wrong in ("maxOffset", "offset", "_offset"):
        with pytest.raises(AttributeError, match=f"'{wrong}'"):
            getattr(row, wrong)
    assert pickle.loads(pickle.dumps(row)) == row == copy(row) != kdump.figures(path, by="topic")[0]
    members.clear()
    assert row.records == row.to_dict()["records"]


def test_rows_of_flat_objects_have_a_hash(captures: Captures) -> None:
    path = str(captures.root / "4.3.1" / "__consumer_offsets-0")
    assert len({*kdump.group_offsets(path), *kdump.group_offsets(path)}) == len(kdump.group_offsets(path))


def test_group_offsets(captures: Captures) -> None:
    paths = [str(captures.root / "4.3.1" / f"__consumer_offsets-{number}") for number in (0, 2)]
    expected = told("state", "--at", "2100-01-01", *paths, type_="committedOffset")
    found = kdump.group_offsets(paths)
    assert len(found) > 3
    assert [offset.to_dict() for offset in found] == expected
    assert kdump.group_offsets(paths, at=datetime(2100, 1, 1, tzinfo=UTC)) == found
    name = found[0].group
    assert kdump.group_offsets(paths, group=name) == [offset for offset in found if offset.group == name]
    middle = sorted(offset.timestamp for offset in found)[len(found) // 2]
    early = told("state", "--at", str(middle), *paths, type_="committedOffset")
    assert [offset.to_dict() for offset in kdump.group_offsets(paths, at=middle)] == early != expected


@pytest.mark.slow
def test_starts_of_the_directories_of_a_broker(tmp_path: Path) -> None:
    """Of several directories the metadata says what becomes of each."""
    paths = [str(path) for path in sorted((unpack_cases("strays", tmp_path) / "futures").glob("n2-*"))]
    found = kdump.start_prediction(paths, now=1_800_000_000_000)
    expected = told("verify", "--startup", "--now", "1800000000000", *paths, type_="startup")
    assert [start.to_dict() for start in found] == expected
    assert {"served", "stray", "future"} <= {start.fate for start in found}


def test_a_path_without_groups(captures: Captures) -> None:
    with pytest.raises(kdump.KdumpError, match="__consumer_offsets"):
        kdump.group_offsets(captures.root / "4.3.1/v2-none-0")


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("metadata", tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize("words", [("n1",), ("n1", "n101", "n103"), ("n2", "../damaged/bitflip")])
@pytest.mark.parametrize("show_secrets", [False, True])
def test_cluster_state(metadata: Path, words: tuple[str, ...], show_secrets: bool) -> None:
    paths = [str(metadata / "cluster" / word) for word in words]
    options = ("--show-secrets",) if show_secrets else ()
    found = kdump.cluster_state(paths, show_secrets=show_secrets)
    assert found.to_dicts() == told("state", "--at", "now", *options, *paths)
    assert [head.leader for head in found.metadata][:1] == [103]
    assert bool(found.findings) == ("../damaged/bitflip" in words)
    early = kdump.cluster_state(paths[:1], at_offset=203, show_secrets=show_secrets)
    assert early.to_dicts() == told("state", "--at-offset", "203", *options, paths[0])


def test_every_thing_of_a_state_is_in_one_list(metadata: Path) -> None:
    state = kdump.cluster_state(metadata / "cluster/n1", at_offset=203)
    lists = (
        state.metadata, state.voters, state.features, state.brokers, state.controllers, state.topics, state.partitions,
        state.configs, state.quotas, state.producer_ids, state.acls, state.scram, state.tokens,
    )  # fmt: skip
    assert all(lists)
    assert sorted(map(id, (row for rows in lists for row in rows))) == sorted(map(id, state.rows))
    for rows in lists:
        for row in rows:
            for name, value in row.to_dict().items():
                assert name == "type" or getattr(row, snake_case(name)) == value
    partition = next(partition for partition in state.partitions if partition.topic == "__transaction_state")
    assert (partition.leader, partition.isr) == (2, [2, 3])


def test_groups_and_transactions_of_a_state(captures: Captures) -> None:
    root = captures.root / "4.3.1"
    names = ("__consumer_offsets-0", "__consumer_offsets-2", "__transaction_state-0", "v2-none-0")
    paths = [str(path) for path in map(root.joinpath, names) if path.is_dir()]
    at = 4_000_000_000_000
    state = kdump.cluster_state(paths, at=at)
    # The last value of each key of a partition that is named is no state of the cluster.
    assert state.to_dicts() == [row for row in told("state", "--at", str(at), *paths) if row["type"] != "key"]
    assert state.groups
    assert state.group_offsets == kdump.group_offsets(paths, at=at)
    assert [row.transactional_id for row in state.transactional_ids] == [
        row["transactionalId"] for row in told("state", "--at", str(at), *paths, type_="transactionalId")
    ]


def test_a_state_that_is_not_there(captures: Captures) -> None:
    with pytest.raises(kdump.KdumpError, match="nothing that has a state"):
        kdump.cluster_state(captures.root / "4.3.1/v2-none-0")
    with pytest.raises(ValueError, match="not both"):
        kdump.cluster_state("x", at=5, at_offset=5)


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.slow
def test_differences(tmp_path: Path, records: bool) -> None:
    root = unpack_cases("replicas", tmp_path)
    for case in sorted(path for path in root.iterdir() if len(list(path.glob("n*"))) > 1)[:3]:
        paths = sorted(map(str, case.glob("n*")))
        found = kdump.differences(*paths, records=records)
        expected = told("diff", *(["--records"] if records else []), *paths)
        assert found.to_dicts() == expected
        assert [one.to_dict() for one in found] == [row for row in expected if row["type"] == "difference"]
        assert len(found) == len(list(found))
        lists = (list(found), found.copies, found.common, found.absent, found.truncations, found.recommendations)
        assert sum(map(len, lists)) + len(found.records) == len(expected)
        for row in found.rows:
            for name, value in row.to_dict().items():
                assert name == "type" or getattr(row, snake_case(name)) == value


def test_differences_of_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two paths"):
        kdump.differences(tmp_path)
    with pytest.raises(kdump.KdumpError, match="no such file"):
        kdump.differences(tmp_path / "a", tmp_path / "b")


def test_wrong_arguments(captures: Captures) -> None:
    path = captures.root / "4.3.1/v2-none-0"
    with pytest.raises(ValueError, match="by is one of"):
        kdump.figures(path, by="month")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode is one of"):
        kdump.repair_plan(path, mode="all")  # type: ignore[arg-type]
    for function in (kdump.figures, kdump.start_prediction, kdump.repair_plan, kdump.group_offsets):
        with pytest.raises(kdump.KdumpError, match="no such file"):
            function(path / "missing")
    with pytest.raises(kdump.KdumpError, match="no such file"):
        list(kdump.findings(path / "missing"))


def test_a_time_may_be_a_text() -> None:
    path = "fixtures/segments/__consumer_offsets-0"
    for time, same in (("2026-11-23", datetime(2026, 11, 23, tzinfo=UTC)), ("now", None)):
        found = [row.to_dict() for row in kdump.group_offsets(path, at=time)]
        assert found == [row.to_dict() for row in kdump.group_offsets(path, at=same)] != []


@pytest.mark.parametrize("time", ["yesterday", 1.5])
def test_what_is_no_time(time: Any) -> None:
    for ask in (kdump.group_offsets, kdump.cluster_state):
        with pytest.raises(ValueError, match=r"a datetime or milliseconds since 1970|'yesterday' is no time"):
            ask("fixtures/segments/__consumer_offsets-0", at=time)
