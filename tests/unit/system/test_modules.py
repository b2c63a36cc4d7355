"""Where the Pythons that kdump starts look for modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ASKING = """
import subprocess, sys
from kdump.system.modules import keep_to_own_modules
keep_to_own_modules()
sys.exit(subprocess.run([sys.executable, "-c", "import socket"]).returncode)
"""


@pytest.mark.parametrize("is_trusted", [False, True])
def test_started_pythons_take_modules_of_the_working_directory_as_this_one_does(
    tmp_path: Path, *, is_trusted: bool
) -> None:
    """Also where the script lies in that directory: it takes its own modules from there."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "socket.py").write_text("raise SystemExit(9)\n")
    script = tmp_path / ("logs" if is_trusted else ".") / "script.py"
    script.write_text(_ASKING)
    run = subprocess.run([sys.executable, str(script)], cwd=tmp_path / "logs", check=False)
    assert run.returncode == (9 if is_trusted else 0)
