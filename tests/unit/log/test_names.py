"""log.names: what a file name and a directory name say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.log.names import (
    FileName,
    Kind,
    no_partition_name,
    owner_of_lines,
    parse_file_name,
    parse_partition_directory,
    sibling,
)

ZEROS = "0" * 20
UUID = "AAECAwQFBgcICQoLDA0ODw"


@given(
    st.integers(0, 2**63 - 1),
    st.sampled_from([kind for kind in Kind if kind is not Kind.WORLD_LOG]),
    st.sampled_from(["", "/data/t-0/", "./a.b/"]),
)
def test_brokers_names(offset: int, kind: Kind, folder: str) -> None:
    assert parse_file_name(f"{folder}{offset:020}{kind.value}") == FileName(kind, f"{offset:020}", "", offset)


@pytest.mark.parametrize("state", [".deleted", ".cleaned", ".swap", ".part"])
def test_states(state: str) -> None:
    assert parse_file_name(f"{5:020}.log{state}") == FileName(Kind.LOG, f"{5:020}", state, 5)


@pytest.mark.parametrize(
    ("name", "kind", "base_offset"),
    [
        (f"{7:020}-{UUID}.log", Kind.LOG, 7),
        (f"{7:020}-{UUID}.timeindex", Kind.TIME_INDEX, 7),
        (f"{7:020}-__-{UUID[3:]}.index", Kind.INDEX, 7),
        ("+5.log", Kind.LOG, 5),
        ("-5.log", Kind.LOG, -5),
        ("007.log", Kind.LOG, 7),
        ("1.2.log", Kind.LOG, 1),
        ("5.copy.log", Kind.LOG, 5),
        ("x.log", Kind.LOG, None),
        (".log", Kind.LOG, None),
        ("9223372036854775807.log", Kind.LOG, 2**63 - 1),
        ("9223372036854775808.log", Kind.LOG, None),
        ("5 .log", Kind.LOG, None),
        ("5-6.log", Kind.LOG, None),
        (f"{100:020}-{3:010}.checkpoint", Kind.CHECKPOINT, None),
        ("bootstrap.checkpoint", Kind.CHECKPOINT, None),
        (f"{7:020}.snapshot", Kind.SNAPSHOT, 7),
    ],
)
def test_other_names(name: str, kind: Kind, base_offset: int | None) -> None:
    parsed = parse_file_name(name)
    assert parsed is not None
    assert (parsed.kind, parsed.base_offset, parsed.state) == (kind, base_offset, "")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "log",
        "5",
        "5.txt",
        "5.log.bak",
        "5.log.deleted.deleted",
        "5.LOG",
        "5.log ",
        "leader-epoch-checkpoint",
        ".deleted",
    ],
)
def test_no_segment_files(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        (f"{ZEROS}.index", Kind.LOG, f"{ZEROS}.log"),
        (f"/a.b/{ZEROS}.timeindex.deleted", Kind.INDEX, f"/a.b/{ZEROS}.index.deleted"),
        (f"t-0//{7:020}-{UUID}.index", Kind.LOG, f"t-0//{7:020}-{UUID}.log"),
    ],
)
def test_siblings(path: str, kind: Kind, expected: str) -> None:
    assert sibling(path, kind) == expected


def test_sibling_of_another_file() -> None:
    with pytest.raises(ValueError, match=r"leader-epoch-checkpoint is no segment file"):
        sibling("t-0/leader-epoch-checkpoint", Kind.LOG)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-12", ("a-b", 12)),
        ("__cluster_metadata-0", ("__cluster_metadata", 0)),
        (f"orders-3.{'a' * 32}-delete", ("orders", 3)),
        (f"orders-3.{'a' * 32}-future", ("orders", 3)),
        (f"orders-3.{'a' * 32}-stray", ("orders", 3)),
        ("a.b-3", ("a.b", 3)),
        ("a\nb-3", ("a\nb", 3)),
        ("orders", None),
        ("orders-", None),
        ("-0", None),
        ("orders-x", None),
        ("orders-0.bak", None),
        ("lost+found", None),
    ],
)
def test_partition_directories(name: str, expected: tuple[str, int] | None) -> None:
    assert parse_partition_directory(name) == expected


@pytest.mark.parametrize(
    ("name", "alone", "beside"),
    [
        ("t-0", ("t", 0), ("t", 0)),
        ("t-00", ("t", 0), None),
        ("t-0.0a-future", ("t", 0), None),
        ("t-0.0a-stray", None, None),
        ("t-0.0a-delete", None, None),
        ("t", None, None),
    ],
)
def test_whose_lines_of_checkpoints(name: str, alone: tuple[str, int] | None, beside: tuple[str, int] | None) -> None:
    assert owner_of_lines(name, {name}.__contains__) == alone
    assert owner_of_lines(name, {name, "t-0"}.__contains__) == beside


def test_why_a_name_is_no_partitions() -> None:
    assert no_partition_name("lost+found") == no_partition_name("t_x") == "the name is not <topic>-<number>"
    told = "a hyphen stands before the number, as in my_topic-0, and not an underscore"
    assert no_partition_name("my_topic_0").endswith(told)
