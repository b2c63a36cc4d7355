"""What a build adds to the wheel and the sdist: the commit that it was made from."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    """Adds ``kdump/commit.txt`` if the sources are a clone. An sdist has the file already."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See BuildHookInterface."""
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        describe = ["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        try:
            done = subprocess.run(describe, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            # Without git the version alone must do.
            return
        commit = Path(mkdtemp()) / "commit.txt"
        commit.write_bytes(done.stdout)
        build_data["force_include"][str(commit)] = "kdump/commit.txt"
