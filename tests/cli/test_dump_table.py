"""``--output table``: sized to the terminal, coloured on demand, and nothing stored in a file drives the terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.harness import ROOT
from tests.harness.batches import CONTROL, TRANSACTIONAL, plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, INTERRUPTED, KDUMP, kdump, on_a_terminal
from tests.harness.fast_reference import Row

ESCAPES = b"\x1b[2J\x1b]0;owned\x07\x9b31m\xc2\x9b31m\r\x08\x7f\0"
SGR = re.compile(rb"\x1b\[[0-9;]*m")
SEGMENT = ROOT / "fixtures" / "segments" / "v2-txn-0" / f"{0:020}.log"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a file whose name and contents hold what terminals obey."""
    folder = tmp_path / "a\x1b[31m-0"
    folder.mkdir()
    rows = [Row(0, 0, ESCAPES, ESCAPES, [(ESCAPES, ESCAPES), (b"[bold red]x[/]", b"\x1b[31m")])]
    (folder / "0.log").write_bytes(v2_batch(rows) + v2_batch(rows, crc=1, base_offset=1) + b"\x1b[31m")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["--output", "table", "--records"],
        ["--output", "table", "--records", "--color", "always"],
        ["--output", "table", "--fields", "headers,key,file,topic", "--records"],
        ["--output", "table", "--deep-iteration"],
        ["--output", "table", "--batches", "--resync"],
        ["--output", "jsonl", "--records"],
        ["--output", "csv", "--records"],
        ["--format", r"%k %v %h %f %t\n"],
        ["--print-data-log"],
        ["--explain", "70"],
        ["--explain", "70", "--color", "always"],
    ],
    ids=" ".join,
)
@pytest.mark.slow
def test_nothing_drives_the_terminal(hostile: Path, words: list[str]) -> None:
    shown = on_a_terminal("dump", *words, f"{hostile.name}/0.log", cwd=hostile.parent, columns=90)
    plain = SGR.sub(b"", shown).replace(b"\r\n", b"\n")
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|(?<![\xc2-\xf4\x80-\xbf])[\x80-\x9f]", plain)
    if words[0] != "--explain" or "always" not in words:
        # Colours are the table's own; what the file's name asks for (red) is not among them as it stands.
        assert b"\x1b[31m\x1b" not in shown
    # The name and the contents are there, spelled out.
    assert b"x1b" in plain or b"u001b" in plain


@pytest.mark.parametrize("columns", [40, 80, 119, 200])
@pytest.mark.slow
def test_width(columns: int) -> None:
    words = ["--output", "table", "--records", "--fields", "offset,key,value,headers", str(SEGMENT)]
    shown = on_a_terminal("dump", *words, cwd=SEGMENT.parent, columns=columns).decode()
    lines = SGR.sub(b"", shown.encode()).decode().splitlines()
    assert len(lines) > 100
    assert max(map(cell_len, lines)) <= columns


@pytest.mark.slow
def test_a_pipe_has_a_width_too() -> None:
    run = kdump("dump", "--output", "table", "--records", SEGMENT.name, cwd=SEGMENT.parent)
    lines = run.stdout.decode().splitlines()
    assert max(map(cell_len, lines)) <= int(os.environ.get("COLUMNS", "160"))
    assert b"\x1b" not in run.stdout


@pytest.mark.parametrize(
    ("words", "environment", "colored"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, True),
        (["--color", "never"], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
@pytest.mark.slow
def test_colors_on_a_terminal(words: list[str], environment: dict[str, str], colored: bool) -> None:
    words = ["--output", "table", "--records", *words, str(SEGMENT)]
    assert bool(SGR.search(on_a_terminal("dump", *words, cwd=SEGMENT.parent, columns=90, **environment))) == colored


def test_colors_in_a_pipe() -> None:
    words = ("dump", "--output", "table", "--records", SEGMENT.name, "--color")
    assert b"\x1b[" in kdump(*words, "always", cwd=SEGMENT.parent).stdout
    for when in ("auto", "never"):
        assert b"\x1b" not in kdump(*words, when, cwd=SEGMENT.parent).stdout


def test_colors_have_a_meaning(tmp_path: Path) -> None:
    marker = v2_batch([Row(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\5")], base_offset=2, attributes=CONTROL | TRANSACTIONAL)
    data = v2_batch(plain_rows(1)) + v2_batch(plain_rows(1), base_offset=1, crc=1) + marker
    (tmp_path / "0.log").write_bytes(data + v2_batch(plain_rows(1), base_offset=3, attributes=TRANSACTIONAL))
    words = ("dump", "--output", "table", "--color", "always", "0.log")
    run = kdump(*words, cwd=tmp_path)
    assert run.returncode == DAMAGE
    rows = [line for line in run.stdout.decode().splitlines() if "2023-" in line]
    codes = [set(re.findall(r"\x1b\[([0-9;]+)m", row)) for row in rows]
    assert len(rows) == 4
    assert not {"1;31", "35", "36"} & codes[0]
    assert "1;31" in codes[1]
    assert "35" in codes[2]
    assert "36" in codes[3]


def test_many_rows_in_pages(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(v2_batch(plain_rows(1000)))
    run = kdump("dump", "--output", "table", "--records", "--fields", "offset", "0.log", cwd=tmp_path)
    assert run.returncode == CLEAN
    assert [int(number) for number in re.findall(r"^│ +(\d+)│?", run.stdout.decode(), re.MULTILINE)] == list(
        range(1000)
    )


@pytest.mark.slow
def test_pager_gets_what_a_terminal_would(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(v2_batch([Row(0, 0, b"\x1b[2J", b"value")]))
    shown = on_a_terminal("dump", "--print-data-log", "--pager", "0.log", cwd=tmp_path, PAGER="sed s/^/paged:/")
    lines = shown.replace(b"\r\n", b"\n").splitlines()
    assert lines[0] == b"paged:Dumping 0.log"
    assert all(line.startswith(b"paged:") for line in lines)
    assert b"\x1b" not in shown
    # Without a terminal there is nothing to page.
    run = kdump("dump", "--pager", "0.log", cwd=tmp_path)
    assert run.stdout.startswith(b"Dumping 0.log\n")


@pytest.mark.parametrize(("words", "status"), [((), CLEAN), (("-f",), INTERRUPTED)])
@pytest.mark.slow
def test_an_interrupt_leaves_the_pager_to_its_user(tmp_path: Path, words: tuple[str, ...], status: int) -> None:
    (tmp_path / "0.log").write_bytes(v2_batch(plain_rows(2)))
    pager = {"PAGER": "sh -c 'cat; while [ ! -e go ]; do sleep 0.05; done'"}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*KDUMP, "dump", *words, "--pager", "0.log"],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | pager,
    ) as process:
        os.close(theirs)
        shown = b""
        while b"isvalid: true" not in shown:
            shown += os.read(ours, 1 << 16)
        for _ in range(3):
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        (tmp_path / "go").touch()
        assert process.wait(30) == status
    os.close(ours)
