"""Time indexes beside damaged logs: what ends their dump, and what does not, is what ended the real tool's (4.3.1)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kdump.dump.text import output
from kdump.log.opening import read_whole
from tests.harness.batches import NOW, message, plain_rows, v2_batch, wrapper
from tests.harness.dumpoptions import text_dump
from tests.harness.inprocess import run_in_process
from tests.harness.outcome import Outcome

BATCH = v2_batch(plain_rows(3))
LATEST = NOW + 2
STUB = struct.pack(">qiib", 3, 14, 0, 2) + bytes(9)
"""A v2 entry of 26 bytes: shorter than the header that it should hold."""
ZEROS = bytes(30)
BATCH_SHOWN = f"timestamp: {LATEST} offset: 2"


def dumped(folder: Path, log: bytes, *entries: tuple[int, int], index: bytes = b"") -> Outcome:
    """Of a time index with these (timestamp, offset)."""
    (folder / "0.log").write_bytes(log)
    (folder / "0.index").write_bytes(index)
    (folder / "0.timeindex").write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    outcome = run_in_process([str(folder / "0.timeindex")], text_dump())
    assert outcome.failure is None
    return outcome


def lines(outcome: Outcome) -> list[str]:
    return outcome.stdout.decode().splitlines()[1:]


def test_a_message_in_a_wrapper_that_is_compressed_itself(tmp_path: Path) -> None:
    nested = wrapper(1, 0, [wrapper(1, 0, [message(1, 0, b"k", b"v")])])
    outcome = dumped(tmp_path, nested, (NOW, 0))
    assert (lines(outcome), outcome.status) == ([], 1)
    assert b"compressed itself" in outcome.stderr


def test_the_whole_log_is_walked_first(tmp_path: Path) -> None:
    """What cannot be walked lies after a batch that is shorter than its header."""
    outcome = dumped(tmp_path, BATCH + STUB + ZEROS, (LATEST, 2))
    assert (lines(outcome), outcome.status) == ([], 1)
    assert b"record size 0 is smaller" in outcome.stderr


def test_headers_are_read_up_to_the_batch_that_is_looked_for(tmp_path: Path) -> None:
    assert lines(dumped(tmp_path, BATCH + STUB, (LATEST, 2))) == [BATCH_SHOWN]
    outcome = dumped(tmp_path, BATCH + STUB, (LATEST, 2), (LATEST + 1, 3))
    assert (lines(outcome), outcome.status) == ([BATCH_SHOWN], 1)
    assert b"the file ends inside the batch header" in outcome.stderr


@pytest.mark.parametrize(("offset", "shown"), [(2, [f"timestamp: {LATEST} offset: 2"]), (4, [])])
def test_headers_after_a_position_inside_of_a_batch(tmp_path: Path, offset: int, shown: list[str]) -> None:
    """The index leads into a batch, to what reads as a message that ends where the stub begins."""
    inside = message(1, 2, b"k", b"v", timestamp=LATEST)
    log = v2_batch(body=inside, record_count=0) + STUB
    index = struct.pack(">ii", 1, len(log) - len(STUB) - len(inside))
    outcome = dumped(tmp_path, log, (LATEST, offset), index=index)
    assert (lines(outcome), outcome.status) == (shown, int(not shown))


def test_files_that_are_replaced_while_they_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log cleaner puts other files in the place of a segment's, one by one: what is checked is of one time."""
    shorter = v2_batch(plain_rows(2))
    replaced: list[str] = []

    def read_and_replaced(path: str) -> bytes:
        data = read_whole(path)
        if not replaced:
            for suffix, content in (("log", shorter), ("index", b""), ("timeindex", struct.pack(">qi", LATEST - 1, 1))):
                (tmp_path / f"0.{suffix}.swap").write_bytes(content)
                (tmp_path / f"0.{suffix}.swap").rename(tmp_path / f"0.{suffix}")
            replaced.append(path)
        return data

    monkeypatch.setattr(output, "read_whole", read_and_replaced)
    outcome = dumped(tmp_path, BATCH, (LATEST, 2))
    assert replaced
    assert (lines(outcome), outcome.stderr, outcome.status) == ([f"timestamp: {LATEST - 1} offset: 1"], b"", 0)


def test_files_that_are_never_all_of_one_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for ever: then the files are dumped as they are."""
    monkeypatch.setattr(output, "_PAUSE", 0)

    def read_and_replaced(path: str) -> bytes:
        data = read_whole(path)
        (tmp_path / "new").write_bytes(data)
        (tmp_path / "new").rename(path)
        return data

    monkeypatch.setattr(output, "read_whole", read_and_replaced)
    assert lines(dumped(tmp_path, BATCH, (LATEST, 2))) == [BATCH_SHOWN]
