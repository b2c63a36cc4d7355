"""Which copies the PATHs hold, and whose they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.diff.places import PartitionCopies, copies_of, matched
from kdump.inputs import resolve
from tests.harness.replicas import MadeBatch, fail, make_copy, make_log_directory

SEGMENTS = [[MadeBatch(0)]]


def found(*paths: Path) -> list[PartitionCopies]:
    return matched([copies_of(resolve(str(path)), fail) for path in paths])


def names(partitions: list[PartitionCopies], root: Path) -> list[tuple[object, list[str], list[str]]]:
    return [
        (
            one.name,
            [str(Path(copy.directory).relative_to(root)) for copy in one.copies],
            [str(Path(path).relative_to(root)) for path in one.absent],
        )
        for one in partitions
    ]


def test_log_directories_are_matched_by_name(tmp_path: Path) -> None:
    for node, topics in ((1, ("a-0", "b-0", "c-0-delete")), (2, ("a-0", "a-1"))):
        make_log_directory(tmp_path / f"n{node}", node=node)
        for topic in topics:
            make_copy(tmp_path / f"n{node}" / topic, SEGMENTS)
    make_copy(tmp_path / "n1" / "d-0.0123456789abcdef0123456789abcdef-delete", SEGMENTS)
    assert names(found(tmp_path / "n1", tmp_path / "n2"), tmp_path) == [
        (("a", 0), ["n1/a-0", "n2/a-0"], []),
        (("a", 1), ["n2/a-1"], ["n1"]),
        (("b", 0), ["n1/b-0"], ["n2"]),
    ]


def test_log_directories_of_one_node_are_one_copy(tmp_path: Path) -> None:
    for folder, node, topic in (("n1", 1, "a-0"), ("n2-d0", 2, "b-0"), ("n2-d1", 2, "a-0")):
        make_log_directory(tmp_path / folder, node=node)
        make_copy(tmp_path / folder / topic, SEGMENTS)
    assert names(found(tmp_path / "n1", tmp_path / "n2-d0", tmp_path / "n2-d1"), tmp_path) == [
        (("a", 0), ["n1/a-0", "n2-d1/a-0"], []),
        (("b", 0), ["n2-d0/b-0"], ["n1"]),
    ]
    copy = found(tmp_path / "n2-d1")[0].copies[0]
    assert (copy.path, copy.node, copy.topic_id) == (
        str(tmp_path / "n2-d1"),
        ("abcdefghijklmnopqrstuv", 2),
        copy.topic_id,
    )


@pytest.mark.parametrize(
    ("ids", "is_listed"), [(("", ""), True), (("C" * 22, "C" * 22), True), (("C" * 22, "D" * 22), False)]
)
def test_a_backup_of_a_log_directory_is_another_copy(tmp_path: Path, ids: tuple[str, str], *, is_listed: bool) -> None:
    """Its meta.properties are those of the original, directory id included."""
    for folder, topics, directory in (("n1", ("a-0", "b-0"), ids[0]), ("backup", ("a-0",), ids[1])):
        make_log_directory(tmp_path / folder, node=1)
        if directory:
            (tmp_path / folder / "meta.properties").open("a").write(f"directory.id={directory}\n")
        for topic in topics:
            make_copy(tmp_path / folder / topic, SEGMENTS)
    assert names(found(tmp_path / "n1", tmp_path / "backup"), tmp_path) == [
        (("a", 0), ["n1/a-0", "backup/a-0"], []),
        (("b", 0), ["n1/b-0"], ["backup"] if is_listed else []),
    ]


def test_a_partition_that_is_a_link_to_elsewhere_is_not_just_absent(tmp_path: Path) -> None:
    make_log_directory(tmp_path / "n1", node=1)
    make_copy(tmp_path / "n1" / "a-0", SEGMENTS)
    make_copy(tmp_path / "elsewhere" / "b-0", SEGMENTS)
    errors: list[KdumpError] = []
    for target, expected in ((tmp_path / "n1" / "a-0", []), (tmp_path / "elsewhere" / "b-0", [Codes.LINK_OUTSIDE])):
        link = tmp_path / "n1" / "b-0"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        copies = copies_of(resolve(str(tmp_path / "n1")), errors.append).copies
        assert (len(copies), [error.code for error in errors]) == (2 - len(expected), expected)


def test_a_copy_on_its_way(tmp_path: Path) -> None:
    make_log_directory(tmp_path / "n1", node=1)
    make_copy(tmp_path / "n1" / "a-0.0123456789abcdef0123456789abcdef-future", SEGMENTS)
    (copy,) = copies_of(resolve(str(tmp_path / "n1")), fail).copies
    assert (copy.name, copy.is_future) == (("a", 0), True)


@pytest.mark.parametrize("state", ["delete", "stray"])
def test_a_copy_that_was_put_aside_has_no_lines_of_the_partition_in_its_place(tmp_path: Path, state: str) -> None:
    """A restore left out what lies before the log start offset of the other partition."""
    make_log_directory(tmp_path / "n1", node=1)
    aside = make_copy(tmp_path / "n1" / f"a-0.{'0' * 32}-{state}", SEGMENTS)
    for name in ("log-start", "replication", "cleaner"):
        (tmp_path / "n1" / f"{name}-offset-checkpoint").write_text("0\n1\na 0 3\n")
    for is_replaced in (False, True):
        if is_replaced:
            make_copy(tmp_path / "n1" / "a-0", SEGMENTS)
        (copy,) = copies_of(resolve(str(aside)), fail).copies
        assert copy.settings is not None
        assert copy.settings.log_start_offset == (0 if is_replaced else 3)
        assert copy.known_high_watermark == (None if is_replaced else 3)
        assert copy.cleaned_to == (None if is_replaced else 3)
        assert copy.node_id == 1


def test_partitions_are_matched_whatever_they_are_called(tmp_path: Path) -> None:
    one = make_copy(tmp_path / "orders-0", SEGMENTS)
    other = make_copy(tmp_path / "backup", SEGMENTS)
    segment = one / f"{0:020}.log"
    (partition,) = found(other, one, segment)
    assert partition.name == ("orders", 0)
    assert [copy.log for copy in partition.copies] == [None, None, str(segment)]


def test_an_empty_log_directory_holds_nothing(tmp_path: Path) -> None:
    make_log_directory(tmp_path / "n1", node=1)
    assert copies_of(resolve(str(tmp_path / "n1")), fail).copies == ()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("missing", Codes.MISSING),
        ("file", Codes.NOT_A_SEGMENT_FILE),
        ("folder", Codes.NO_SEGMENTS),
        (f"{0:020}.index", Codes.NOT_A_SEGMENT_FILE),
        (f"{1:020}.log", Codes.MISSING),
    ],
)
def test_what_holds_no_copy(tmp_path: Path, name: str, code: Codes) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / f"{0:020}.index").write_bytes(b"")
    with pytest.raises(KdumpError) as caught:
        copies_of(resolve(str(tmp_path / name)), fail)
    assert caught.value.code is code


def test_a_partition_without_a_name_matches_none_of_a_log_directory(tmp_path: Path) -> None:
    make_log_directory(tmp_path / "n1", node=1)
    make_copy(tmp_path / "n1" / "a-0", SEGMENTS)
    other = make_copy(tmp_path / "backup", SEGMENTS)
    assert names(found(tmp_path / "n1", other), tmp_path) == [
        (None, ["backup"], ["n1"]),
        (("a", 0), ["n1/a-0"], ["backup"]),
    ]
