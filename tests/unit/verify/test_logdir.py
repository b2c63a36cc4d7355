"""verify.logdir: a log directory put together from captures is clean, and what is wrong with one is found."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from kdump.codes import Codes, Finding, Severity
from kdump.kafka.image.names import TopicNames
from kdump.log.names import parse_partition_directory
from kdump.verify.logdir import (
    Checkpoints,
    Partition,
    PartitionExtent,
    check_directory_names,
    check_log_directory,
)
from tests.harness.captures import Captures
from tests.harness.log_columns import view

ID, OTHER_ID = "f6And08oSwep04PoOtraAQ", "PWc8Y-vtRN2-qcf49L4yoQ"
EXTENT = PartitionExtent(start_offset=10, end_offset=100, last_base=60)


def codes(findings: Iterable[Finding]) -> list[Codes]:
    return [finding.code for finding in findings]


def checked(directory: Path, partitions: Mapping[Partition, PartitionExtent | None]) -> Iterator[Finding]:
    return check_log_directory(Checkpoints(str(directory)), partitions, TopicNames([]))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["topic-0", "topic-1", "a-b.c_d-12"], []),
        (["lost+found"], [Codes.DIRECTORY_NAME]),
        (["topic-"], [Codes.DIRECTORY_NAME]),
        (["topic-0", "topic-00"], [Codes.DUPLICATE_PARTITION]),
        (["topic-0", "topic-0.abcdef-future"], [Codes.DIRECTORY_STATE]),
        (["topic-0.abcdef-delete", "topic-0.abcdef-stray"], [Codes.DIRECTORY_STATE, Codes.DIRECTORY_STATE]),
    ],
)
def test_directory_names(names: list[str], expected: list[Codes]) -> None:
    assert codes(check_directory_names(names)) == expected


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory with two partitions of one topic, cleanly shut down."""
    root = tmp_path / "logs"
    for number in (0, 1):
        (root / f"topic-{number}").mkdir(parents=True)
        (root / f"topic-{number}" / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
    (root / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id=abc\ndirectory.id={ID}\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":3}')
    for name in ("recovery-point", "replication"):
        (root / f"{name}-offset-checkpoint").write_text("0\n2\ntopic 0 100\ntopic 1 100\n")
    (root / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 15\n")
    (root / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 60\n")
    return root


PARTITIONS: dict[Partition, PartitionExtent | None] = {("topic", 0): EXTENT, ("topic", 1): EXTENT}


def test_a_sound_directory(directory: Path) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert not codes(checked(directory, PARTITIONS))
    assert before == {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("recovery-point-offset-checkpoint", "0\n1\ntopic 0 101\n", Codes.RECOVERY_POINT),
        ("replication-offset-checkpoint", "0\n1\ntopic 0 101\n", Codes.HIGH_WATERMARK),
        ("log-start-offset-checkpoint", "0\n1\ntopic 0 101\n", Codes.LOG_START),
        ("cleaner-offset-checkpoint", "0\n1\ntopic 0 61\n", Codes.CLEANER_OFFSET),
        ("recovery-point-offset-checkpoint", "0\n1\ntopic 7 5\n", Codes.PARTITION_MISSING),
        ("recovery-point-offset-checkpoint", "0\n1\ntopic 0 -5\n", Codes.TEXT_FILE),
        ("recovery-point-offset-checkpoint", "0\n2\ntopic 0 5\n", Codes.TEXT_FILE),
        ("meta.properties", "version=9\n", Codes.TEXT_FILE),
        (".kafka_cleanshutdown", "{", Codes.TEXT_FILE),
        (".lock", "", Codes.LOCK_FILE),
        ("topic-1/partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}", Codes.TOPIC_ID),
        ("backup/readme.txt", "", Codes.DIRECTORY_NAME),
        ("topic-0.1234-delete/00000000000000000000.log", "", Codes.DIRECTORY_STATE),
    ],
)
def test_what_is_wrong(directory: Path, name: str, text: str, expected: Codes) -> None:
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    (found,) = checked(directory, PARTITIONS)
    assert found.code is expected
    assert found.path is not None
    assert str(path).startswith(found.path)


def test_what_is_missing(directory: Path) -> None:
    (directory / "meta.properties").unlink()
    (directory / ".kafka_cleanshutdown").unlink()
    expected = [Codes.META_PROPERTIES, Codes.UNCLEAN_SHUTDOWN]
    assert codes(checked(directory, PARTITIONS)) == expected
    assert codes(checked(directory / "none", {})) == [Codes.UNREADABLE]


def test_a_folder_of_captured_partitions_lacks_nothing(directory: Path) -> None:
    """None of its files is a broker's."""
    for path in directory.iterdir():
        if path.is_file():
            path.unlink()
    assert not codes(checked(directory, PARTITIONS))
    (directory / ".lock").touch()
    assert codes(checked(directory, PARTITIONS)) == [Codes.META_PROPERTIES, Codes.UNCLEAN_SHUTDOWN, Codes.LOCK_FILE]


def test_unknown_extents_are_not_judged(directory: Path) -> None:
    (directory / "recovery-point-offset-checkpoint").write_text("0\n1\ntopic 0 101\n")
    assert not codes(checked(directory, dict.fromkeys(PARTITIONS)))


def test_recovery_point_says_what_is_lost(directory: Path) -> None:
    (directory / "recovery-point-offset-checkpoint").write_text("0\n1\ntopic 1 120\n")
    (found,) = checked(directory, PARTITIONS)
    assert (found.first_offset, found.last_offset, found.severity) == (100, 119, Severity.ERROR)
    assert found.message.startswith("topic-1: ")


def extents(directories: list[Path]) -> dict[Partition, PartitionExtent | None]:
    """Of partition directories."""
    partitions: dict[Partition, PartitionExtent | None] = {}
    for directory in directories:
        partition = parse_partition_directory(directory.name.replace("-killed9", "-killed"))
        assert partition is not None
        logs = [view(path) for path in sorted(directory.glob("*.log"))]
        last = logs[-1]
        partitions[partition] = PartitionExtent(logs[0].base_offset, last.end_offset + 1, last.base_offset)
    return partitions


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2", "3.9.1", "4.3.1"])
def test_captured_directories(captures: Captures, tmp_path: Path, version: str) -> None:
    """Only what was not captured is missing: some partitions, the marker, and meta.properties of 0.8."""
    logs = [path for path in sorted((captures.root / version).iterdir()) if list(path.glob("*.log"))]
    partitions = extents(logs)
    for path in (captures.root / version / "_broker").iterdir():
        shutil.copy(path, tmp_path)
    findings = list(checked(tmp_path, partitions))
    expected = {Codes.PARTITION_MISSING, Codes.UNCLEAN_SHUTDOWN}
    assert {finding.code for finding in findings} <= expected | (
        {Codes.META_PROPERTIES} if version == "0.8.2.2" else set()
    )
    assert all(finding.severity is not Severity.ERROR for finding in findings)
