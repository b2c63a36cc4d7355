"""``--follow``: what is written later is shown, over segment rolls, until interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, INTERRUPTED, UNREADABLE, USAGE, shell

pytestmark = pytest.mark.slow


def start(folder: Path, out: Path, *words: str) -> subprocess.Popen[bytes]:
    with out.open("wb") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "kdump", "dump", "-f", *words], cwd=folder, stdout=stream, stderr=subprocess.PIPE
        )


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def interrupt(process: subprocess.Popen[bytes]) -> bytes:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == INTERRUPTED
    return errors


@pytest.mark.parametrize("path", ["t-0", "t-0/00000000000000000000.log"])
def test_growing_and_rolling(tmp_path: Path, path: str) -> None:
    first = tmp_path / "t-0" / f"{0:020}.log"
    first.parent.mkdir()
    batch = [v2_batch(plain_rows(2), base_offset=offset) for offset in (0, 2, 4)]
    first.write_bytes(batch[0])
    out = tmp_path / "out"
    process = start(tmp_path, out, "--deep-iteration", path)
    try:
        wait_for(lambda: b"offset: 1 " in out.read_bytes())
        with first.open("ab") as log:
            # A broker's write may be seen half done.
            log.write(batch[1][:70])
            log.flush()
            time.sleep(0.4)
            assert b"offset: 2 " not in out.read_bytes()
            log.write(batch[1][70:])
        wait_for(lambda: b"offset: 3 " in out.read_bytes())
        (tmp_path / "t-0" / f"{4:020}.log").write_bytes(batch[2])
        wait_for(lambda: b"offset: 5 " in out.read_bytes())
    finally:
        errors = interrupt(process)
    assert errors == b""
    offsets = [line.split()[2] for line in out.read_text().splitlines() if line.startswith("| offset")]
    assert offsets == ["0", "1", "2", "3", "4", "5"]


def test_rolled_and_deleted_at_once(tmp_path: Path) -> None:
    # What retention does to all of a partition: one new segment, the others are renamed in the same moment.
    first = tmp_path / "t-0" / f"{0:020}.log"
    first.parent.mkdir()
    first.write_bytes(v2_batch(plain_rows(2)))
    out = tmp_path / "out"
    process = start(tmp_path, out, "--format", r"%o\n", f"t-0//{first.name}")
    try:
        wait_for(lambda: b"1\n" in out.read_bytes())
        (tmp_path / "t-0" / f"{2:020}.log").write_bytes(v2_batch(plain_rows(2), base_offset=2))
        first.rename(f"{first}.deleted")
        wait_for(lambda: b"3\n" in out.read_bytes())
    finally:
        errors = interrupt(process)
    assert errors == b""
    assert out.read_bytes() == b"0\n1\n2\n3\n"


def test_the_last_rows_and_what_follows(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    for base in (0, 2, 4):
        (tmp_path / "t-0" / f"{base:020}.log").write_bytes(v2_batch(plain_rows(2), base_offset=base))
    out = tmp_path / "out"
    process = start(tmp_path, out, "--format", r"%o\n", "--tail", "3", "t-0")
    try:
        wait_for(lambda: b"5\n" in out.read_bytes())
        with (tmp_path / "t-0" / f"{4:020}.log").open("ab") as log:
            log.write(v2_batch(plain_rows(2), base_offset=6))
        wait_for(lambda: b"7\n" in out.read_bytes())
    finally:
        errors = interrupt(process)
    assert errors == b""
    assert out.read_bytes() == b"3\n4\n5\n6\n7\n"


@pytest.mark.parametrize("is_made_again", [False, True])
def test_deleted(tmp_path: Path, is_made_again: bool) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(v2_batch(plain_rows(2)))
    (tmp_path / "a.log").write_bytes(v2_batch(plain_rows(2)))
    out = tmp_path / "out"
    process = start(tmp_path, out, "--format", r"%o\n", log.name)
    wait_for(lambda: b"1\n" in out.read_bytes())
    log.unlink()
    if is_made_again:
        log.write_bytes(v2_batch(plain_rows(1), base_offset=7))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == UNREADABLE
    assert errors == b"kdump: 0.log: at 105: was deleted or replaced while it was followed\n"
    assert out.read_bytes() == b"0\n1\n"


def test_allocated_ahead(tmp_path: Path) -> None:
    # preallocate=true: zeros up to segment.bytes, cut off before the next segment is made.
    first = tmp_path / "t-0" / f"{0:020}.log"
    first.parent.mkdir()
    batch = [v2_batch(plain_rows(2), base_offset=offset) for offset in (0, 2, 4)]
    first.write_bytes(bytes(1 << 20))
    out = tmp_path / "out"
    process = start(tmp_path, out, "--format", r"%o\n", "t-0")
    try:
        with first.open("r+b", buffering=0) as log:
            time.sleep(0.5)
            log.write(batch[0])
            wait_for(lambda: b"1\n" in out.read_bytes())
            log.write(batch[1])
            wait_for(lambda: b"3\n" in out.read_bytes())
            log.truncate()
        (tmp_path / "t-0" / f"{4:020}.log").write_bytes(batch[2] + bytes(1 << 20))
        wait_for(lambda: b"5\n" in out.read_bytes())
    finally:
        errors = interrupt(process)
    assert errors == b""
    assert out.read_bytes() == b"0\n1\n2\n3\n4\n5\n"


def test_zeros_with_something_after_them_are_damage(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(v2_batch(plain_rows(2)) + bytes(4096) + v2_batch(plain_rows(2), base_offset=2))
    out = tmp_path / "out"
    process = start(tmp_path, out, "--format", r"%o\n", log.name)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == DAMAGE
    assert b"at 105: record size 0 is smaller" in errors


def test_a_reader_that_goes_ends_it(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(v2_batch(plain_rows(2)))
    run = shell('set -o pipefail; $KDUMP dump -f --format "%o\\n" 0.log | head -1', tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (CLEAN, b"0\n", b"")


def test_a_limit_ends_it(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(v2_batch(plain_rows(3)))
    run = subprocess.run(
        [sys.executable, "-m", "kdump", "dump", "-f", "-n", "2", "--format", r"%o\n", str(log)],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert run.stdout == b"0\n1\n"


@pytest.mark.slow
def test_what_does_not_go_with_it(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b"")
    path = str(log)
    for words in (
        ["--resync", path],
        ["--isolation", "read_committed", path],
        [path, path],
        ["--files", path, path],
        ["--all-files", str(tmp_path)],
    ):
        run = subprocess.run(
            [sys.executable, "-m", "kdump", "dump", "-f", *words], capture_output=True, timeout=120, check=False
        )
        assert run.returncode == USAGE, words


def test_logs_of_kafka_07_beside_those_of_today(tmp_path: Path) -> None:
    """Those of 0.7 were left out silently."""
    for suffix in ("log", "kafka"):
        (tmp_path / f"{0:020}.{suffix}").write_bytes(b"")
    run = shell("$KDUMP dump --follow .", tmp_path)
    assert run.returncode == UNREADABLE
    assert run.stderr == b"kdump: .: has logs of Kafka 0.7 and of today: name the one to follow\n"
