"""kafka.startup where no case of the fixtures leads; what is expected was measured on UnifiedLog.create of 4.3.1."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kdump.kafka.startup.directory import Directory, FileAction, LoadSettings
from kdump.kafka.startup.outcome import StartOutcome
from kdump.releases import KAFKA_4_3, NEWEST
from kdump.verify.startcheck import StartCheck, check_start
from tests.harness.batches import message, plain_rows, v2_batch, wrapper


def started(directory: Path, *, is_clean: bool = True) -> StartCheck:
    return check_start(Directory.on_disk(str(directory)), LoadSettings(is_clean))


@pytest.mark.parametrize(
    ("text", "outcome", "java_class"),
    [
        (b"0\n-1\n", StartOutcome.BROKER_STOPS, "java.lang.IllegalArgumentException"),
        (b"0\n-1\n1 5\n", StartOutcome.BROKER_STOPS, "java.lang.IllegalArgumentException"),
        (b"0\n1\n" + b"1" * 5000 + b" 5\n", StartOutcome.BROKER_STOPS, "java.lang.NumberFormatException"),
        (b"0" * 5000 + b"\n1\n1 5\n", StartOutcome.STARTS, None),
        (b"0\n" + b"0" * 5000 + b"1\n1 5\n", StartOutcome.STARTS, None),
    ],
)
def test_leader_epochs(tmp_path: Path, text: bytes, outcome: StartOutcome, java_class: str | None) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(text)
    start = started(tmp_path).start
    assert (start.outcome, start.failure and start.failure.java_class) == (outcome, java_class)


def test_names_of_negative_offsets(tmp_path: Path) -> None:
    """20 digits after the sign; another spelling opens that file, and stays as it is."""
    (tmp_path / "-5.log").write_bytes(b"")
    (tmp_path / f"{0:020}.log").write_bytes(v2_batch(plain_rows(1)))
    check = started(tmp_path)
    assert check.start.served is not None
    assert [base for base, _ in check.start.served.segments] == [-5, 0]
    made = {file.name for file in check.files if file.action is FileAction.CREATED}
    assert {f"-{5:020}.log", f"-{5:020}.index"} < made


def test_a_wrapper_in_a_wrapper_stops_the_broker(tmp_path: Path) -> None:
    inner = wrapper(1, 3, [message(1, number, b"k", b"v") for number in range(4)])
    (tmp_path / f"{0:020}.log").write_bytes(wrapper(1, 3, [inner]))
    for is_clean in (True, False):
        start = started(tmp_path, is_clean=is_clean).start
        assert start.outcome is StartOutcome.BROKER_STOPS
        assert start.failure is not None
        assert start.failure.java_class == "org.apache.kafka.common.InvalidRecordException"


@pytest.mark.parametrize(
    ("changes", "java_class"),
    [
        ({17: b"\1", 30: b"\0\0\x7f\0"}, "java.lang.IllegalArgumentException"),
        ({17: b"\1", 26: b"\0\0\x7f\0"}, "java.lang.IndexOutOfBoundsException"),
        ({17: b"\4", 26: b"\0\0\x7f\0"}, "org.apache.kafka.common.InvalidRecordException"),
        ({17: b"\5", 26: b"\0\0\x7f\0"}, "java.lang.IllegalArgumentException"),
        ({16: b"\xf3", 17: b"\1", 26: b"\0\0\x7f\0"}, "org.apache.kafka.common.InvalidRecordException"),
        ({16: b"\xf3", 17: b"\1", 30: b"\0\0\x7f\0"}, "org.apache.kafka.common.InvalidRecordException"),
        ({16: b"\xf3", 17: b"\7", 26: b"\0\0\x7f\0"}, "java.lang.IllegalArgumentException"),
    ],
)
def test_wrappers_with_several_flaws(tmp_path: Path, changes: dict[int, bytes], java_class: str) -> None:
    """Magic byte and codec come before the sizes."""
    log = bytearray(wrapper(1, 1, [message(1, number, b"k", b"v") for number in range(4)]))
    for position, data in changes.items():
        log[position : position + len(data)] = data
    (tmp_path / f"{0:020}.log").write_bytes(log)
    (tmp_path / f"{0:020}.index").write_bytes(b"")
    failure = started(tmp_path).start.failure
    assert failure is not None
    assert failure.java_class == java_class


def test_a_file_that_no_java_array_takes(tmp_path: Path) -> None:
    with (tmp_path / f"{3:020}.snapshot").open("wb") as file:
        file.truncate(2**31)
    (tmp_path / f"{0:020}.index").write_bytes(b"")
    (tmp_path / f"{0:020}.log").write_bytes(v2_batch(plain_rows(4)))
    failure = started(tmp_path).start.failure
    assert failure is not None
    assert failure.java_class == "java.lang.OutOfMemoryError"


def test_of_a_long_line_only_the_beginning_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(bytes(100_000))
    failure = started(tmp_path).start.failure
    assert failure is not None
    assert len(failure.message) < 400


@pytest.mark.parametrize(("version", "older"), [(0, True), (3, True), (-1, True), (256, False)])
def test_the_version_of_an_aborted_transaction(tmp_path: Path, version: int, older: bool) -> None:
    """A broker of 4.4 takes a whole int16, one of 4.3 the first byte; a sound one starts on both."""
    (tmp_path / f"{0:020}.log").write_bytes(v2_batch(plain_rows(1)))
    for kind in ("index", "timeindex"):
        (tmp_path / f"{0:020}.{kind}").write_bytes(b"")
    (tmp_path / f"{0:020}.txnindex").write_bytes(struct.pack(">hqqqq", version, 1, 0, 5, 6))
    for release, starts in ((NEWEST, version == 0), (KAFKA_4_3, older)):
        check = check_start(Directory.on_disk(str(tmp_path)), LoadSettings(is_clean=True, release=release))
        assert (check.start.outcome is StartOutcome.STARTS) == starts
        assert check.start.failure is None or check.start.failure.java_class == "org.apache.kafka.common.KafkaException"
