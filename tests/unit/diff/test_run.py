"""The comparison of one partition as plain data, and what becomes of copies that cannot be read."""

from __future__ import annotations

from pathlib import Path

from kdump.codes import Codes, KdumpError
from kdump.diff.places import copies_of, partitions_of
from kdump.diff.run import _RESULT, DiffOptions, PartitionReport, PartitionTask, ReportedRecord, diff
from tests.harness.replicas import MadeBatch, fail, make_copy


def row(*bases: int, value: bytes = b"value") -> list[MadeBatch]:
    return [MadeBatch(base, value=value) for base in bases]


def test_results_travel_as_plain_data(tmp_path: Path) -> None:
    paths = [make_copy(tmp_path / name / "t-0", [row(0, 5, value=name.encode())]) for name in "ab"]
    (partition,) = partitions_of([copies_of(str(path), fail) for path in paths])
    items = list(PartitionTask(partition, DiffOptions(with_records=True)).run())
    assert [type(item) for item in items] == [PartitionReport] + [ReportedRecord] * 10
    assert [_RESULT.unpack(_RESULT.pack(item)) for item in items] == items


def test_the_range_that_is_equal(tmp_path: Path) -> None:
    one = make_copy(tmp_path / "a" / "t-0", [row(0, 5, 10)])
    other = make_copy(tmp_path / "b" / "t-0", [[*row(0), *row(5, value=b"x"), *row(10)]])
    empty = tmp_path / "c" / "t-0"
    empty.mkdir(parents=True)
    for paths, common, equal_to in (
        ((one, one), (0, 14), 14),
        ((one, other), (0, 14), 4),
        ((one, empty), None, None),
    ):
        (report,) = diff([str(path) for path in paths], DiffOptions(), fail)
        assert isinstance(report, PartitionReport)
        assert (report.common, report.equal_to) == (common, equal_to)


def test_a_copy_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    one = make_copy(tmp_path / "a" / "t-0", [row(0)])
    other = make_copy(tmp_path / "b" / "t-0", [row(0)])
    log = other / f"{0:020}.log"
    log.unlink()
    log.symlink_to(one / f"{0:020}.log")
    errors: list[KdumpError] = []
    (report,) = diff([str(one), str(other)], DiffOptions(), errors.append)
    assert isinstance(report, PartitionReport)
    assert [copy.path for copy in report.copies] == [str(one)]
    assert [error.code for error in errors] == [Codes.LINK_OUTSIDE]


def test_a_second_manifest(tmp_path: Path) -> None:
    one = make_copy(tmp_path / "a" / "t-0", [row(0)])
    for name in ("m1", "m2"):
        (tmp_path / name).write_text(f'# {{"type":"manifest","version":1,"paths":["{one}"]}}\n')
    errors: list[KdumpError] = []
    list(diff([str(tmp_path / "m1"), str(tmp_path / "m2"), str(one)], DiffOptions(), errors.append))
    assert [error.code for error in errors] == [Codes.MANIFEST]
