"""``--follow``: what is written later is shown, over segment rolls, until interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from batches import plain_rows, v2_batch

INTERRUPTED = 130
USAGE = 2


def start(folder: Path, out: Path, *words: str) -> subprocess.Popen[bytes]:
    with out.open("wb") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "kdump", "dump", "-f", *words], cwd=folder, stdout=stream, stderr=subprocess.PIPE
        )


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def interrupt(process: subprocess.Popen[bytes]) -> bytes:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
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


def test_a_limit_ends_it(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(v2_batch(plain_rows(3)))
    run = subprocess.run(
        [sys.executable, "-m", "kdump", "dump", "-f", "-n", "2", "--format", r"%o\n", str(log)],
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert run.stdout == b"0\n1\n"


def test_what_does_not_go_with_it(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b"")
    for words in (["--resync", str(log)], ["--isolation", "read_committed", str(log)], [str(log), str(log)]):
        run = subprocess.run(
            [sys.executable, "-m", "kdump", "dump", "-f", *words], capture_output=True, timeout=30, check=False
        )
        assert run.returncode == USAGE, words
