"""``--version``: what this program is, for a report."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kdump import __version__
from kdump.releases import NEWEST

_PACKAGE: Final = Path(__file__).parents[1]
_COMMIT_FILE: Final = "commit.txt"


def version_line() -> str:
    """One line: ``kdump 0.1.0 (commit, Python, platform), speaks Kafka ...``."""
    import platform

    commit = _commit()
    return (
        f"kdump {__version__} ({'' if commit is None else f'commit {commit}, '}"
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}), speaks Kafka {NEWEST.version}"
    )


def _commit() -> str | None:
    """The commit that this was built from, or that is checked out; None: neither is known."""
    try:
        return (_PACKAGE / _COMMIT_FILE).read_text("utf-8").strip()
    except OSError:
        pass
    root = _PACKAGE.parent
    if not (root / ".git").exists():
        return None
    import subprocess  # slow, and needed in a clone only

    describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(describe, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
