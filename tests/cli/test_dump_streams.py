"""Pipes, terminals and closed descriptors around ``kdump dump``."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, NAME, UNREADABLE, USAGE, dump, dumped, on_a_terminal, shell
from tests.harness.fast_reference import Row

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(BATCH)
    return tmp_path


@pytest.mark.parametrize("batches", [1, 20_000])
@pytest.mark.parametrize("words", ["", "--print-data-log"])
def test_head(folder: Path, batches: int, words: str) -> None:
    (folder / NAME).write_bytes(BATCH * batches)
    run = shell(f"$KDUMP dump {words} {NAME} | head -n 1; exit ${{PIPESTATUS[0]}}", folder)
    assert (run.returncode, run.stdout, run.stderr) == (CLEAN, f"Dumping {NAME}\n".encode(), b"")


def test_reader_that_never_reads(folder: Path) -> None:
    run = shell(f"$KDUMP dump --deep-iteration {NAME} | true; exit ${{PIPESTATUS[0]}}", folder)
    assert (run.returncode, run.stderr) == (CLEAN, b"")


def test_stdin(folder: Path) -> None:
    data = v2_batch(plain_rows(2), base_offset=40)
    status, out, errors = dump("--deep-iteration", "-", cwd=folder, stdin=data)
    assert (status, errors) == (CLEAN, [])
    assert out[:2] == ["Dumping -", "Log starting offset: 40"]
    assert len(out) == 5
    assert shell(f"$KDUMP dump - < {NAME}", folder).stdout.decode().splitlines()[1:] == dump(NAME, cwd=folder)[1][1:]


def test_stdin_empty_and_damaged(folder: Path) -> None:
    assert dump("-", cwd=folder) == (CLEAN, ["Dumping -", "Log starting offset: 0"], [])
    status, out, errors = dump("-", cwd=folder, stdin=BATCH + BATCH[:-1])
    assert (status, errors) == (DAMAGE, [])
    assert out[-1] == f"Found {len(BATCH) - 1} invalid bytes at the end of -"


def test_stdin_beside_files(folder: Path) -> None:
    status, out, errors = dump(NAME, "-", NAME, cwd=folder, stdin=BATCH)
    assert (status, dumped(out), errors) == (CLEAN, [NAME, "-", NAME], [])


def test_dash_in_files_is_a_name(folder: Path) -> None:
    assert dump("--files", "-", cwd=folder, stdin=BATCH) == (CLEAN, ["Dumping -"], ["Ignoring unknown file -"])


def test_fifo(folder: Path) -> None:
    os.mkfifo(folder / "any name")
    data = v2_batch(plain_rows(5), base_offset=7) * 300
    writer = threading.Thread(target=(folder / "any name").write_bytes, args=(data,))
    writer.start()
    status, out, errors = dump("any name", cwd=folder)
    writer.join()
    assert (status, errors) == (CLEAN, [])
    assert out[:2] == ["Dumping any name", "Log starting offset: 7"]
    assert len(out) == 302


def test_process_substitution(folder: Path) -> None:
    run = shell(f"$KDUMP dump <(cat {NAME})", folder)
    assert run.returncode == CLEAN
    assert run.stdout.splitlines()[1:] == shell(f"$KDUMP dump {NAME}", folder).stdout.splitlines()[1:]


def test_slow_pipe(folder: Path) -> None:
    run = shell(f"(head -c 30 {NAME}; sleep 0.1; tail -c +31 {NAME}) | $KDUMP dump -", folder)
    assert (run.returncode, len(run.stdout.splitlines())) == (CLEAN, 3)


def test_control_characters_on_a_terminal(folder: Path) -> None:
    value = b"\x1b[31mred\x07\x00\x7f\xc2\x9b1m\ttab\xc3\xa9"
    (folder / NAME).write_bytes(v2_batch([Row(0, 0, b"\x08key", value)]))
    words = ["--print-data-log", "--skip-record-metadata", NAME]
    assert on_a_terminal("dump", *words, cwd=folder).replace(b"\r\n", b"\n").splitlines()[-1] == (
        rb"| key: \x08key payload: \x1b[31mred\x07\x00\x7f\x9b1m" + b"\ttab\xc3\xa9"
    )
    # Anywhere else the bytes are exact.
    assert shell(f"$KDUMP dump {' '.join(words)}", folder).stdout.endswith(b"| key: \x08key payload: " + value + b"\n")


def test_control_characters_in_names_on_a_terminal(folder: Path) -> None:
    (folder / "a\x1b[2J").mkdir()
    (folder / "a\x1b[2J" / "0.log").write_bytes(v2_batch(attributes=7))
    shown = on_a_terminal("dump", "a\x1b[2J/0.log", "a\x1b[2J/1.log", cwd=folder)
    assert b"\x1b" not in shown
    assert shown.count(rb"\x1b[2J") >= 4


def test_terminal_and_pipe_show_the_same(folder: Path) -> None:
    (folder / NAME).write_bytes(v2_batch(plain_rows(50)) * 20)
    words = ["--print-data-log", NAME]
    status, out, _ = dump(*words, cwd=folder)
    assert status == CLEAN
    shown = on_a_terminal("dump", *words, cwd=folder).decode().replace("\r\n", "\n").splitlines()
    assert shown[: len(out)] == out


def test_stdout_and_stderr_in_order(folder: Path) -> None:
    (folder / "5.log").write_bytes(bytes(50))
    run = shell(f"$KDUMP dump 5.log {NAME} 2>&1", folder)
    lines = run.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["Dumping", "Log", "kdump:", "Dumping", "Log", "baseOffset:"]


@pytest.mark.parametrize("words", ["--version", "completion bash", "dump --help"])
@pytest.mark.parametrize("stream", [">&-", ">/dev/full"])
def test_output_of_every_kind_that_is_lost(folder: Path, words: str, stream: str) -> None:
    assert shell(f"$KDUMP {words} {stream}", folder).returncode == UNREADABLE


@pytest.mark.parametrize(
    ("words", "status"), [("nothing", USAGE), ("dump nothere", UNREADABLE), (f"dump {NAME} nothere", UNREADABLE)]
)
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full"])
def test_a_message_that_is_lost_changes_no_status(folder: Path, words: str, status: int, stream: str) -> None:
    assert shell(f"$KDUMP {words} {stream}", folder).returncode == status


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(folder: Path, closed: str) -> None:
    words = "-" if closed == "<&-" else NAME
    run = shell(f"$KDUMP dump {words} {closed}", folder)
    assert run.returncode == (CLEAN if closed == "2>&-" else UNREADABLE)
    assert b"Traceback" not in run.stderr
    assert b"internal error" not in run.stderr


@pytest.mark.parametrize("locale", ["POSIX", "en_US.ISO-8859-1"])
def test_output_is_utf8_whatever_the_locale(folder: Path, locale: str) -> None:
    (folder / NAME).write_bytes(v2_batch([Row(0, 0, None, "\u043a\u043b\u044e\u0447".encode())]))
    run = shell(f"LC_ALL={locale} PYTHONUTF8=0 $KDUMP dump --print-data-log {NAME}", folder)
    assert run.returncode == CLEAN
    assert run.stdout.endswith(" payload: \u043a\u043b\u044e\u0447\n".encode())
