"""The distribution is called kafka-kdump: the package index has another project named kdump."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.harness import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
WRONG = re.compile(r"(?<![\w(-])kdump\[[a-z,]+\]|pip install (?:-\S+ )*'?kdump\b")
TEXTS = (
    "*.md",
    "*.yml",
    "ci/*",
    "man/*",
    "docs/**/*.md",
    "examples/*",
    "packaging/*",
    "kdump/**/*.py",
    "pyproject.toml",
    "tests/**/*.py",
)


def texts() -> list[Path]:
    found = {path for pattern in TEXTS for path in ROOT.glob(pattern) if path.is_file()}
    # Old entries say what was so.
    return sorted(found - {ROOT / "CHANGELOG.md", Path(__file__)})


def test_no_text_installs_the_other_project() -> None:
    wrong = [f"{path}: {found[0]}" for path in texts() for found in WRONG.finditer(path.read_text("utf-8"))]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("pip install 'kdump[spark]'", True),
        ("pip install kdump", True),
        ("pip install -q -U kdump", True),
        ("pip install 'kafka-kdump[spark]'", False),
        ("pip install ./kdump", False),
        ("pip install '.[spark]'", False),
    ],
)
def test_what_is_wrong_is_found(text: str, is_wrong: bool) -> None:
    assert bool(WRONG.search(text)) == is_wrong


def test_names() -> None:
    assert PROJECT["name"] == "kafka-kdump"
    assert PROJECT["scripts"] == dict.fromkeys(("kdump", "kafka-kdump"), "kdump.__main__:main")


def test_the_sdist_has_every_file() -> None:
    """Its tests read the same files as those of a clone; .ci/run runs some of them there."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    included = set(PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    # Hatch adds these two.
    assert {name.partition("/")[0] for name in tracked.splitlines()} == included | {"pyproject.toml", ".gitignore"}


def test_the_second_name_of_the_command_is_installed() -> None:
    import sys

    program = Path(sys.executable).with_name("kafka-kdump")
    if not program.exists():
        pytest.skip("kdump is not installed in this environment")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kdump ")
