"""What a link does that takes the place of something that kdump found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import PathDirectory
from kdump.log import files
from kdump.log.opening import open_source

LOG_NAME = f"{0:020d}.log"


def log_directory(folder: Path) -> Path:
    """A log directory that a user named, with two partitions; a third one with the name of the second lies outside."""
    for path, content in (("logs/t-0", b"0"), ("logs/t-1", b"1"), ("outside/t-1", b"out"), ("logs/moved-0", b"moved")):
        partition = folder / path
        partition.mkdir(parents=True)
        (partition / LOG_NAME).write_bytes(content)
    files.strip_credentials(f"{folder / 'logs'}/")
    return folder / "logs"


def replace(partition: Path, target: str) -> None:
    partition.rename(partition.parent / "gone")
    partition.symlink_to(target)


def listed(partition: Path) -> list[str]:
    return [entry.path for entry in files.listing(str(partition))]


def sizes(partition: Path) -> list[int | None]:
    return [entry.size for entry in files.regular_files(str(partition))]


def content(partition: Path) -> bytes:
    with open_source(str(partition / LOG_NAME)) as source:
        return bytes(source.read(0, 100))


@pytest.mark.parametrize("read", [listed, sizes, content, lambda partition: files.special_files(str(partition))])
def test_a_link_to_elsewhere_in_place_of_a_partition(tmp_path: Path, read: Callable[[Path], object]) -> None:
    partition = log_directory(tmp_path) / "t-1"
    assert (listed(partition), sizes(partition), content(partition)) == ([str(partition / LOG_NAME)], [1], b"1")
    replace(partition, "../outside/t-1")
    with pytest.raises(KdumpError) as caught:
        read(partition)
    assert caught.value.code is Codes.LINK_OUTSIDE


def test_a_link_within_the_log_directory_in_place_of_a_partition(tmp_path: Path) -> None:
    partition = log_directory(tmp_path) / "t-1"
    replace(partition, "moved-0")
    assert (listed(partition), sizes(partition), content(partition)) == ([str(partition / LOG_NAME)], [5], b"moved")


def test_a_link_in_a_partition_that_is_a_link_to_elsewhere(tmp_path: Path) -> None:
    """Where the partition leads to is not the directory that its own links must stay in."""
    partition = log_directory(tmp_path) / "t-1"
    log = tmp_path / "outside" / "t-1" / LOG_NAME
    log.rename(log.with_name("real"))
    log.symlink_to("real")
    replace(partition, "../outside/t-1")
    with pytest.raises(KdumpError) as caught:
        content(partition)
    assert caught.value.code is Codes.LINK_OUTSIDE


def test_a_partition_becomes_a_link_after_the_log_directory_was_listed(tmp_path: Path) -> None:
    directory = log_directory(tmp_path)
    errors: list[KdumpError] = []
    found = (log.path for log in PathDirectory(str(directory)).logs(errors.append))
    assert [next(found), next(found)] == [str(directory / name / LOG_NAME) for name in ("moved-0", "t-0")]
    replace(directory / "t-1", "../outside/t-1")
    assert list(found) == []
    assert [(error.code, error.path) for error in errors] == [(Codes.LINK_OUTSIDE, str(directory / "t-1"))]


def test_a_user_names_a_link_to_a_partition(tmp_path: Path) -> None:
    """The user knows what it is, also where the log directory is named too."""
    partition = log_directory(tmp_path) / "t-1"
    replace(partition, "../outside/t-1")
    files.strip_credentials(str(partition))
    assert (listed(partition), content(partition)) == ([str(partition / LOG_NAME)], b"out")
