"""Ask the package index whether kdump can be installed without a compiler: wheels of all that it requires.

``python packaging/wheels.py`` asks for each Python that kdump promises and each kind of machine, and ends with 1 where
something is missing. pip resolves as on such a machine; it installs nothing and loads no wheel whose metadata the index
has apart.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = {
    "Linux x86-64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "Linux ARM": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "macOS ARM": ("macosx_14_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64"),
}
"""Tags of wheels that a machine of a few years takes, the newest first."""
AT_ONCE = 4
LONGEST = 300
"""Seconds for one question."""


def missing(python: str, machine: str, required: list[str]) -> str:
    """What pip says where something has no wheel; empty: everything has one."""
    tags = [word for tag in MACHINES[machine] for word in ("--platform", tag)]
    asked = ["--python-version", python, "--implementation", "cp", "--only-binary", ":all:", *tags, *required]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--target", "no"]
    run = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=LONGEST, check=False)
    return "" if run.returncode == 0 else run.stderr.strip() or f"pip ended with {run.returncode}"


def main() -> int:
    """Ask for all of them, and print a line for each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = list(product(PYTHONS, MACHINES))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda one: missing(*one, project["dependencies"]), asked))
    for (python, machine), answer in zip(asked, answers, strict=True):
        print(f"{python} {machine}: {answer or 'wheels of everything'}")
    return 1 if any(answers) else 0


if __name__ == "__main__":
    sys.exit(main())
