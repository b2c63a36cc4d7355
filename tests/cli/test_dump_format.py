"""``--format``: every verb and escape, exact bytes in a pipe, and what is a usage error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.batches import NOW, message, v2_batch, wrapper
from tests.harness.cli_runs import CLEAN, USAGE, kdump
from tests.harness.fast_reference import Row
from tests.harness.row_runs import run_rows

NAME = "00000000000000000040.log"
HEADERS = [(b"h", b"1"), (b"\xff", None), (b"", b"x=y")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``my-topic-7`` with two records."""
    partition = tmp_path / "my-topic-7"
    partition.mkdir()
    rows = [Row(5, 0, b"k\xff\0", "wért".encode(), HEADERS), Row(6, 1, None, None)]
    (partition / NAME).write_bytes(
        v2_batch(rows, base_offset=40, producer_id=9, producer_epoch=3, partition_leader_epoch=2, base_sequence=0)
    )
    return tmp_path


def formatted(folder: Path, template: str) -> bytes:
    run = run_rows([folder / "my-topic-7" / NAME], template=template)
    assert run.errors == []
    return run.output


def on_the_command_line(folder: Path, template: str, *words: str) -> bytes:
    run = kdump("dump", "--format", template, *words, "my-topic-7", cwd=folder)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    return run.stdout


@pytest.mark.parametrize(
    ("verb", "first", "second"),
    [
        ("t", b"my-topic", b"my-topic"),
        ("p", b"7", b"7"),
        ("o", b"40", b"41"),
        ("T", b"%d" % (NOW + 5), b"%d" % (NOW + 6)),
        ("d", b"%d" % (NOW + 5), b"%d" % (NOW + 6)),
        ("k", b"k\xff\0", b""),
        ("K", b"3", b"-1"),
        ("v", "wért".encode(), b""),
        ("s", "wért".encode(), b""),
        ("V", b"5", b"-1"),
        ("S", b"5", b"-1"),
        ("h", b"h=1,\xff=,=x=y", b""),
        ("H", b"3", b"0"),
        ("e", b"2", b"2"),
        ("x", b"9", b"9"),
        ("y", b"3", b"3"),
        ("i", b"1", b"2"),
        ("%", b"%", b"%"),
    ],
)
def test_verbs(folder: Path, verb: str, first: bytes, second: bytes) -> None:
    assert formatted(folder, f"<%{verb}>") == b"<" + first + b"><" + second + b">"


@pytest.mark.parametrize(
    ("escape", "expected"),
    [
        (r"\n", b"\n"),
        (r"\t", b"\t"),
        (r"\r", b"\r"),
        (r"\0", b"\0"),
        (r"\\", b"\\"),
        (r"\x41", b"A"),
        (r"\xfF", b"\xff"),
        (r"\xc3\xa9", "é".encode()),
        (r"\x5c\x6e", b"\\n"),
    ],
)
def test_escapes(folder: Path, escape: str, expected: bytes) -> None:
    assert formatted(folder, f"a{escape}é%o") == (b"a" + expected + "é40".encode()) + (b"a" + expected + "é41".encode())


def test_file(folder: Path) -> None:
    assert on_the_command_line(folder, r"%f\n") == f"my-topic-7/{NAME}\n".encode() * 2


def test_no_line_end_is_added(folder: Path) -> None:
    assert on_the_command_line(folder, "%o", "-n", "1") == b"40"
    assert formatted(folder, "") == b""
    assert on_the_command_line(folder, r"%k\n%v\n", "--offset", ":41") == b"k\xff\0\n" + "wért\n".encode()


def test_every_byte_is_exact(tmp_path: Path) -> None:
    everything = bytes(range(256)) * 3
    (tmp_path / NAME).write_bytes(v2_batch([Row(0, 0, everything, everything, [(everything, everything)])]))
    run = kdump("dump", "--format", "%k%v%h", NAME, cwd=tmp_path)
    assert run.stdout == everything * 3 + b"=" + everything


def test_outside_of_a_partition_directory(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(v2_batch([Row(0, 0, b"k", b"v")]))
    assert kdump("dump", "--format", "<%t %p>", NAME, cwd=tmp_path).stdout == b"< >"


def test_legacy_records(tmp_path: Path) -> None:
    inner = [message(1, offset, b"k%d" % offset, None) for offset in range(2)]
    (tmp_path / NAME).write_bytes(message(0, 0, None, b"v") + wrapper(1, 2, inner, 1))
    run = kdump("dump", "--format", r"%o|%T|%K|%V|%H|%e|%x|%y\n", NAME, cwd=tmp_path)
    assert run.stdout.decode().splitlines() == ["0||-1|1|0|||", f"1|{NOW}|2|-1|0|||", f"2|{NOW}|2|-1|0|||"]


def test_other_files_have_no_records(folder: Path) -> None:
    (folder / "my-topic-7" / NAME.replace(".log", ".index")).write_bytes(bytes(8))
    assert on_the_command_line(folder, r"%o\n", "--all-files") == b"40\n41\n"


@pytest.mark.parametrize("template", ["%q", "%", "%1", r"\q", "\\", r"\x", r"\x4", r"\xgg", "%o%", "% o"])
def test_errors(folder: Path, template: str) -> None:
    run = kdump("dump", "--format", template, "my-topic-7", cwd=folder)
    assert (run.returncode, run.stdout) == (USAGE, b"")
    assert run.stderr.splitlines()[-1].startswith(b"Error: --format: ")


def test_it_is_an_output_of_its_own(folder: Path) -> None:
    for output in ("jsonl", "csv", "table"):
        assert kdump("dump", "--format", "%o", "--output", output, "my-topic-7", cwd=folder).returncode == USAGE


def test_null_has_a_name(tmp_path: Path) -> None:
    """Keys, values and values of headers; what is empty stays empty."""
    rows = [Row(0, 0, None, b"", [(b"h", None)]), Row(1, 1, b"", None, [(b"h", b"")])]
    (tmp_path / f"{0:020}.log").write_bytes(v2_batch(rows))
    done = kdump("dump", "--format", r"%k|%v|%h|%K\n", "--null", "NULL", f"{0:020}.log", cwd=tmp_path)
    assert done.stdout == b"NULL||h=NULL|-1\n|NULL|h=|0\n"
    assert kdump("dump", "--null", "NULL", f"{0:020}.log", cwd=tmp_path).returncode == USAGE
