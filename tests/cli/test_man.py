"""``kdump man``, ``kdump help`` and ``kdump --version``: what kdump says of itself on a host that has nothing else."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from kdump import __version__
from kdump.cli import about
from kdump.cli.man import manual_pages, rendered
from tests.harness import ROOT
from tests.harness.cli_runs import CLEAN, USAGE, kdump

PAGES = sorted(manual_pages())


def test_all_pages_are_there() -> None:
    assert sorted(path.stem for path in (ROOT / "man").iterdir()) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page(tmp_path: Path, name: str) -> None:
    run = kdump("man", name.removeprefix("kdump-"), cwd=tmp_path)
    assert run.returncode == CLEAN
    text = run.stdout.decode()
    source = (next((ROOT / "man").glob(f"{name}.[17]"))).read_text()
    headings = re.findall(r'^\.SH "?([^"\n]+)"?$', source, re.MULTILINE)
    assert [line for line in text.splitlines() if line in headings] == headings
    options = {word.replace("\\", "") for word in re.findall(r"^\.BI? (\\-\\-[a-z\\-]+)", source, re.MULTILINE)}
    assert all(option in text for option in options)
    assert not re.search(r"\\f[BIRP]|\\-|\\\(|\(\\c|^\.[A-Z]|(?:^|\s)\.(?:br|nf|fi)\b", text, re.MULTILINE)
    assert "\x1b" not in text


def test_lines_are_filled_and_examples_kept() -> None:
    page = '.SH "A NAME"\nOne two\nthree four.\n.PP\n.EX\nkdump  dump \\-n 1\n.EE\n.TP\n.B \\-a\nWhat it does.\n'
    expected = "A NAME\n       One two three four.\n\n       kdump  dump -n 1\n\n       -a  What it does.\n\n"
    import click

    assert click.unstyle(rendered(page, 80)) == expected
    assert "\x1b[1m" in rendered(page, 80)
    broken = ".SH S\n.B one\ntwo\n.br\nthree\n.PP\nfour\n"
    assert click.unstyle(rendered(broken, 80)) == "S\n       one two\n       three\n\n       four\n\n"
    narrow = click.unstyle(rendered(".PP\n" + "word " * 40, 40))
    assert max(map(len, narrow.splitlines())) <= 40


def test_a_page_that_is_not_there(tmp_path: Path) -> None:
    run = kdump("man", "cut", cwd=tmp_path)
    assert run.returncode == USAGE
    assert b"there is no page 'cut'; there are: convert, " in run.stderr


@pytest.mark.parametrize("command", ["dump", "verify", "stats", "state", "repair", "restore", "convert", "diff"])
def test_help(tmp_path: Path, command: str) -> None:
    assert kdump("help", command, cwd=tmp_path).stdout == kdump(command, "--help", cwd=tmp_path).stdout


def test_help_of_all(tmp_path: Path) -> None:
    assert kdump("help", cwd=tmp_path).stdout == kdump("--help", cwd=tmp_path).stdout
    assert kdump("help", "cut", cwd=tmp_path).returncode == USAGE


@pytest.mark.parametrize("words", [["--version"], ["dump", "--version"]])
def test_version(tmp_path: Path, words: list[str]) -> None:
    line = kdump(*words, cwd=tmp_path).stdout.decode()
    assert line.startswith(f"kdump {__version__} (")
    assert f"Python {platform.python_version()}, {platform.system()} {platform.machine()})" in line


def test_the_commit_of_a_clone_and_of_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "kdump"
    package.mkdir()
    monkeypatch.setattr(about, "_PACKAGE", package)
    assert "commit" not in about.version_line()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout[:12]
    assert f"(commit {commit}, " in about.version_line()
    (package / "commit.txt").write_text("0123456789ab\n")
    assert "(commit 0123456789ab, " in about.version_line()
