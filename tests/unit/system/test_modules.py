"""Where the Pythons that kdump starts look for modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kdump.system.modules import only_own_modules

_ASKING = """
import subprocess, sys
from kdump.system.modules import only_own_modules
with only_own_modules():
    run = subprocess.run([sys.executable, "-c", "import socket"])
sys.exit(run.returncode)
"""


@pytest.mark.parametrize("is_trusted", [False, True])
def test_started_pythons_take_modules_of_the_working_directory_as_this_one_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_trusted: bool
) -> None:
    """Also where the script lies in that directory: it takes its own modules from there."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "socket.py").write_text("raise SystemExit(9)\n")
    script = tmp_path / ("logs" if is_trusted else ".") / "script.py"
    script.write_text(_ASKING)
    run = subprocess.run([sys.executable, str(script)], cwd=tmp_path / "logs", check=False)
    assert run.returncode == (9 if is_trusted else 0)


@pytest.mark.parametrize("before", [None, "", "1"])
def test_the_environment_is_afterwards_what_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONSAFEPATH", before)
    with only_own_modules():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ.get("PYTHONSAFEPATH") == before


def test_a_working_directory_that_is_gone_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with only_own_modules():
        assert os.environ["PYTHONSAFEPATH"] == "1"
