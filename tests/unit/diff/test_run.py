"""The comparison of one partition as plain data, and what becomes of copies that cannot be read."""

from __future__ import annotations

import shutil
from pathlib import Path

from kdump.codes import Codes, KdumpError
from kdump.diff.comparison import DifferenceKind
from kdump.diff.contents import DiffOptions
from kdump.diff.manifest import manifest_lines
from kdump.diff.places import copies_of, matched
from kdump.diff.run import _RESULT, PartitionReport, PartitionTask, diff
from kdump.diff.shown import RecordDifference
from kdump.inputs import resolve
from tests.harness.replicas import MadeBatch, fail, make_copy, make_log_directory


def row(*bases: int, value: bytes = b"value") -> list[MadeBatch]:
    return [MadeBatch(base, value=value) for base in bases]


def test_results_travel_as_plain_data(tmp_path: Path) -> None:
    paths = [make_copy(tmp_path / name / "t-0", [row(0, 5, value=name.encode())]) for name in "ab"]
    (partition,) = matched([copies_of(resolve(str(path)), fail) for path in paths])
    items = list(PartitionTask(partition, DiffOptions(with_records=True)).run())
    assert [type(item) for item in items] == [PartitionReport] + [RecordDifference] * 10
    assert [_RESULT.unpack(_RESULT.pack(item)) for item in items] == items


def test_the_range_that_is_equal(tmp_path: Path) -> None:
    one = make_copy(tmp_path / "a" / "t-0", [row(0, 5, 10)])
    other = make_copy(tmp_path / "b" / "t-0", [[*row(0), *row(5, value=b"x"), *row(10)]])
    empty = tmp_path / "c" / "t-0"
    empty.mkdir(parents=True)
    recreated = make_copy(tmp_path / "d" / "t-0", [row(0, 5, 10)], topic_id="B5THfWO6RnCFvJyvQ0gEvg")
    for paths, common, equal_to in (
        ((one, one), (0, 14), 14),
        ((one, other), (0, 14), 4),
        ((one, empty), None, None),
        ((one, recreated), (0, 14), None),
    ):
        (report,) = diff([resolve(str(path)) for path in paths], DiffOptions(), fail)
        assert isinstance(report, PartitionReport)
        assert (report.common, report.equal_to) == (common, equal_to)


def test_a_copy_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    one = make_copy(tmp_path / "a" / "t-0", [row(0)])
    other = make_copy(tmp_path / "b" / "t-0", [row(0)])
    log = other / f"{0:020}.log"
    log.unlink()
    log.symlink_to(one / f"{0:020}.log")
    errors: list[KdumpError] = []
    (report,) = diff([*map(resolve, [str(one), str(other)])], DiffOptions(), errors.append)
    assert isinstance(report, PartitionReport)
    assert [copy.path for copy in report.copies] == [str(one)]
    assert [error.code for error in errors] == [Codes.LINK_OUTSIDE]


def test_a_second_manifest(tmp_path: Path) -> None:
    one = make_copy(tmp_path / "a" / "t-0", [row(0)])
    for name in ("m1", "m2"):
        (tmp_path / name).write_text(f'# {{"type":"manifest","version":1,"paths":["{one}"]}}\n')
    errors: list[KdumpError] = []
    list(diff([*map(resolve, [str(tmp_path / "m1"), str(tmp_path / "m2"), str(one)])], DiffOptions(), errors.append))
    assert [error.code for error in errors] == [Codes.MANIFEST]


def test_each_copy_is_compared_with_what_the_manifest_says_of_it(tmp_path: Path) -> None:
    """Healthy copies of a compacted topic differ: none of them is what a manifest says of another one."""
    for node, bases in ((1, (0, 5, 10)), (2, (0, 10))):
        folder = make_log_directory(tmp_path / f"n{node}", node=node)
        make_copy(folder / "t-0", [row(*bases)])
    paths = [str(tmp_path / "n1"), str(tmp_path / "n2")]
    manifest = tmp_path / "manifest"
    manifest.write_text("".join(manifest_lines([*map(resolve, paths)], fail, ())))

    def changed(*given: str) -> list[tuple[str, ...]]:
        items = list(diff([*map(resolve, [str(manifest), *given])], DiffOptions(), fail))
        assert not [one for one in items if not isinstance(one, PartitionReport)]
        reports = [one for one in items if isinstance(one, PartitionReport)]
        return [
            tuple(report.copies[number].directory for number in one.copies)
            for report in reports
            for one in report.differences
            if one.kind is DifferenceKind.CHANGED
        ]

    assert changed(*paths) == []
    assert changed(*reversed(paths)) == []
    log = tmp_path / "n2" / "t-0" / f"{0:020}.log"
    (tmp_path / "n3").mkdir()
    copied = tmp_path / "n3" / "t-0"
    shutil.copytree(log.parent, copied)
    make_log_directory(tmp_path / "n3", node=3)
    errors: list[KdumpError] = []
    # Nobody knows which of the two it stands for.
    (report,) = diff([*map(resolve, [str(manifest), str(tmp_path / "n3")])], DiffOptions(), errors.append)
    assert isinstance(report, PartitionReport)
    told = [one.copies for one in report.differences if one.kind is DifferenceKind.CHANGED]
    assert ([error.code for error in errors], told) == ([Codes.MANIFEST], [(1, 0)])
    log.write_bytes(b"".join(batch.data() for batch in [*row(0), *row(10, value=b"x")]))
    items = list(diff([*map(resolve, [str(manifest), *paths])], DiffOptions(), fail))
    (report,) = [one for one in items if isinstance(one, PartitionReport)]
    assert [one.copies for one in report.differences if one.kind is DifferenceKind.CHANGED] == [(3, 1)]


def test_a_manifest_of_too_many_copies_of_a_partition(tmp_path: Path) -> None:
    """A copy would be read for each line of its partition."""
    one = make_copy(tmp_path / "a" / "t-0", [row(0)])
    head, *lines = "".join(manifest_lines([resolve(str(one))], fail, ())).splitlines(keepends=True)
    partition = next(line for line in lines if '"partition"' in line)
    manifest = tmp_path / "manifest"
    for count, codes in ((64, []), (65, [Codes.MANIFEST])):
        manifest.write_text("".join([head, *lines, partition * (count - 1)]))
        errors: list[KdumpError] = []
        reports = [
            one for one in diff([*map(resolve, [str(manifest), str(one)])], DiffOptions(), errors.append) if not codes
        ]
        assert [error.code for error in errors] == codes
        assert [len(one.copies) for one in reports if isinstance(one, PartitionReport)] == [1 + count] * (not codes)
