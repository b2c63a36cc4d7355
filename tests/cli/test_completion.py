"""The completion scripts of the manual load, and complete commands and options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A ``kdump`` on the path that is this one."""
    command = tmp_path / "kdump"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kdump "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.getcwd()}


def run(*words: str, environment: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=environment | more, capture_output=True, text=True, timeout=60, check=False)


def completions(environment: dict[str, str], words: str, number: int) -> set[str]:
    """What bash is offered for word ``number`` of a command line."""
    found = run(
        "kdump", environment=environment, _KDUMP_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(number)
    )
    assert found.returncode == 0
    return {line.partition(",")[2] for line in found.stdout.splitlines()}


@pytest.mark.parametrize("shell", SHELLS)
def test_script_is_printed(environment: dict[str, str], shell: str) -> None:
    script = run("kdump", "completion", shell, environment=environment)
    assert (script.returncode, script.stderr) == (0, "")
    assert "_KDUMP_COMPLETE" in script.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_script_loads(environment: dict[str, str], shell: str) -> None:
    """By the line that the manual gives."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    line = "kdump completion fish | source" if shell == "fish" else f'eval "$(kdump completion {shell})"'
    prepare = "autoload -Uz compinit && compinit -D; " if shell == "zsh" else ""
    check = {"bash": "complete -p kdump", "zsh": "whence -w _kdump_completion", "fish": "complete -c kdump"}[shell]
    loaded = run(shell, "-c", f"{prepare}{line} && {check}", environment=environment)
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert "kdump" in loaded.stdout


def test_bash_script_has_valid_syntax(environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(run("kdump", "completion", "bash", environment=environment).stdout)
    assert run("bash", "-n", str(script), environment=environment).stderr == ""


def test_completions(environment: dict[str, str]) -> None:
    assert completions(environment, "kdump du", 1) == {"dump"}
    assert completions(environment, "kdump dump --isol", 2) == {"--isolation"}
    formats = {"kafka", "jsonl", "csv", "table", "arrow", "parquet"}
    assert completions(environment, "kdump dump --output ", 3) == formats
    assert completions(environment, "kdump dump --output js", 3) == {"jsonl"}


def test_bash_completes_an_option(environment: dict[str, str]) -> None:
    """The function that the script defines, called as bash calls it."""
    call = (
        'eval "$(kdump completion bash)"; COMP_WORDS=(kdump dump --resy); COMP_CWORD=2; '
        '_kdump_completion kdump; echo "${COMPREPLY[@]}"'
    )
    completed = run("bash", "-c", call, environment=environment)
    assert (completed.stdout, completed.stderr) == ("--resync\n", "")
