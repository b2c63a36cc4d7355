"""The line that shows how far a run has come."""

from __future__ import annotations

import os
import time

import pytest

from kdump.cli.console import ProgressLine

ERASE = b"\r\x1b[K"


class Terminal:
    """What is written to standard error, at a time that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int = 100) -> None:
        self.now = 100.0
        self.written = b""
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(os, "write", self._write)
        monkeypatch.setenv("COLUMNS", str(columns))

    def _write(self, descriptor: int, data: bytes) -> int:
        assert descriptor == 2
        self.written += data
        return len(data)

    def taken(self) -> bytes:
        written, self.written = self.written, b""
        return written


def line_at(terminal: Terminal, *, total: int = 900, logs: int = 4) -> ProgressLine:
    line = ProgressLine(is_shown=True)
    line.in_all = lambda: (total, logs)
    terminal.now += 10
    return line


def test_bytes_logs_findings_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    line = line_at(terminal)
    line.show("d/t-0/0.log", 250)
    assert terminal.taken() == ERASE + b"250 B of 900 B, 1 of 4 logs, 26 s left: t-0/0.log"
    terminal.now += 1
    line.findings = 2
    line.show("d/t-0/0.index", 500)
    assert terminal.taken() == ERASE + b"500 B of 900 B, 1 of 4 logs, 2 findings, 8 s left: t-0/0.index"
    line.clear()
    line.clear()
    assert terminal.taken() == ERASE


def test_what_reads_more_than_once_promises_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    line_at(terminal).show("d/t-0/0.log", 1500)
    assert terminal.taken() == ERASE + b"1.5 KiB, 1 of 4 logs: t-0/0.log"


def test_processes_of_a_pool_name_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    line_at(terminal).show("40 logs", 500)
    assert terminal.taken() == ERASE + b"500 B of 900 B, 8 s left: 40 logs"


def test_it_fits_and_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, columns=40)
    line_at(terminal).show("d/\x1b[31m-0/" + "x" * 99, 500)
    (shown,) = terminal.taken().removeprefix(ERASE).splitlines()
    assert len(shown) < 40
    assert b"\x1b" not in shown


@pytest.mark.parametrize(("is_shown", "seconds"), [(False, 10), (True, 0.5)])
def test_not_shown(monkeypatch: pytest.MonkeyPatch, is_shown: bool, seconds: float) -> None:
    terminal = Terminal(monkeypatch)
    line = ProgressLine(is_shown=is_shown)
    terminal.now += seconds
    line.show("d/t-0/0.log", 500)
    line.clear()
    assert terminal.taken() == b""
