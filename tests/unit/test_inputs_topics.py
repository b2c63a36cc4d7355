"""inputs: which partitions ``--topic`` and ``--partition`` take."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import PartitionChoice, fits, inputs_of


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in ("orders-0", "orders-10", "orders-9", "orders-eu-0", "pay-0", "orders-1.0123-future", "backup", "else"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.log").touch()
    (tmp_path / "orders-2").write_bytes(b"a file")
    return tmp_path


def chosen(
    folder: Path, patterns: list[str], *names: str, numbers: tuple[int, ...] = ()
) -> tuple[list[str], list[KdumpError]]:
    errors: list[KdumpError] = []
    choice = PartitionChoice(tuple(patterns), numbers)
    inputs = inputs_of([folder / name for name in names or ("",)], errors.append, choice=choice)
    return [str(Path(one.path).relative_to(folder)) for one in inputs], errors


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["pay"], ["pay-0"]),
        (["orders"], ["orders-0", "orders-1.0123-future", "orders-9", "orders-10"]),
        (["orders-*"], ["orders-eu-0"]),
        (["pay", "orders-e?"], ["orders-eu-0", "pay-0"]),
        (["[o]*"], ["orders-0", "orders-1.0123-future", "orders-9", "orders-10", "orders-eu-0"]),
    ],
)
def test_log_directory(logs: Path, patterns: list[str], expected: list[str]) -> None:
    assert chosen(logs, patterns) == (expected, [])


def test_partitions_and_files_that_are_named(logs: Path) -> None:
    names = ("orders-9", "pay-0/", "pay-0/0.log", "orders-9/0.log")
    assert chosen(logs, ["pay"], *names) == (["pay-0", "pay-0/0.log"], [])


def test_numbers(logs: Path) -> None:
    assert chosen(logs, [], numbers=(0,)) == (["orders-0", "orders-eu-0", "pay-0"], [])
    assert chosen(logs, ["orders"], numbers=(10, 0)) == (["orders-0", "orders-10"], [])
    assert chosen(logs, [], "orders-9", "orders-10/0.log", "pay-0", numbers=(9, 10)) == (
        ["orders-9", "orders-10/0.log"],
        [],
    )


def test_no_such_number(logs: Path) -> None:
    found, (error,) = chosen(logs, ["pay"], numbers=(0, 3))
    assert (found, error.code) == (["pay-0"], Codes.NO_SEGMENTS)
    assert str(error) == "--partition 3: no partition has this number; there are 0"
    # Where a topic is not there, its numbers say nothing.
    found, (error,) = chosen(logs, ["nosuch"], numbers=(3,))
    assert (found, "--topic nosuch" in str(error)) == ([], True)


def test_a_missing_path_stays(logs: Path) -> None:
    assert chosen(logs, ["pay"], "not-there", "") == (["not-there", "pay-0"], [])


def test_nothing_fits(logs: Path) -> None:
    found, (error,) = chosen(logs, ["pay", "Orders"])
    assert found == ["pay-0"]
    assert error.code is Codes.NO_SEGMENTS
    assert (
        str(error) == "--topic Orders: no partition is of such a topic; there are partitions of orders, orders-eu, pay"
    )
    found, (error,) = chosen(logs, ["pay"], "backup")
    assert found == []
    assert str(error).endswith("; there are no partitions")


def test_many_topics_are_not_all_named(tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / f"t{number:02}-0").mkdir()
    _, (error,) = chosen(tmp_path, ["x"])
    assert str(error).endswith("there are partitions of t00, t01, t02, t03, t04, t05, t06, t07 and 3 others")


def test_a_topic_of_one_directory_need_not_be_in_the_other(logs: Path) -> None:
    other = logs / "else"
    (other / "0.log").unlink()
    (other / "late-0").mkdir()
    assert chosen(logs, ["pay", "late"], "", "else") == (["pay-0", "else/late-0"], [])


def test_a_link_to_elsewhere_is_told_for_its_topic_only(tmp_path: Path) -> None:
    logs, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    for folder in (logs / "pay-0", elsewhere):
        folder.mkdir(parents=True)
    (logs / "orders-0").symlink_to(elsewhere)
    assert chosen(logs, ["pay"]) == (["pay-0"], [])
    found, errors = chosen(logs, ["orders"])
    assert (found, [error.code for error in errors]) == ([], [Codes.LINK_OUTSIDE])


def test_fits() -> None:
    assert fits("orders", {"orders"})
    assert fits("orders", ("o*s",))
    assert not fits("orders", ("ORDERS", "order"))
    assert not fits("orders", ())
