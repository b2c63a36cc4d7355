"""The README and the pages of the site are typed from top to bottom, in a fresh copy of the files that they use.

What a command prints is compared where the page shows it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.harness import ROOT
from tests.harness.blocks import Block, blocks, shown
from tests.harness.cli_runs import KDUMP

PAGES = [
    path
    for path in [ROOT / "README.md", ROOT / "packaging/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if blocks(path)
]
SET_UP = "python3 -m venv "
"""The two set-up commands of the README, which .ci/run runs."""
TYPED = ("sh", "console", "python")
NOT_TYPED = ("text", "yaml", "toml")
_PACKAGES = {"duckdb", "polars", "pyspark", "pyarrow", "pandas"}


def is_there(needed: str) -> bool:
    return shutil.which(needed) is not None


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What the pages use of a clone, with an environment that has this kdump."""
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, command in {"kdump": KDUMP, "python": [sys.executable]}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n')
        (programs / name).chmod(0o755)
    (programs / "activate").write_text(f"PATH={shlex.quote(str(programs))}:$PATH\n")
    return tmp_path


def typed(command: str, clone: Path) -> subprocess.CompletedProcess[str]:
    # Pages show what a pipe gets: no width of a terminal, UTC.
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    paths = {"PATH": f"{clone / '.venv' / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=clone,
        env={**kept, **paths, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def wrong(block: Block, clone: Path, printed: str = "...") -> str | None:
    """What is wrong with a block, if anything is; ``printed``: what a program should print."""
    if block.language == "python":
        (clone / "block.py").write_text(block.text)
        run = typed("python block.py", clone)
        if run.returncode:
            return f"{block.text}\n{run.stderr[-1000:]}"
        return None if shown(printed).fullmatch(run.stdout) else f"{block.text}\nprinted:\n{run.stdout}"
    for number, (command, output) in enumerate(block.commands()):
        if command.startswith(SET_UP):
            continue
        run = typed(command, clone)
        if run.returncode != (0 if number else block.status):
            return f"{command}\nended with {run.returncode}: {run.stderr[-1000:]}"
        if output is not None and not shown(output).fullmatch(run.stdout):
            return f"{command}\nprinted:\n{run.stdout}"
    return None


def missing(block: Block) -> str | None:
    """What a block needs and this machine does not have."""
    packages = {name for name in _PACKAGES if f"import {name}" in block.text or f".to_{name}(" in block.text}
    lacking = [name for name in sorted(packages) if find_spec(name) is None]
    if block.needs and not is_there(block.needs):
        lacking.append(block.needs)
    if "| jq" in block.text and not is_there("jq"):
        lacking.append("jq")
    return ", ".join(lacking) or None


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_works(page: Path, clone: Path) -> None:
    for block, following in zip_longest(found := blocks(page), found[1:]):
        if block.language in TYPED and not block.is_example and block.why_not is None and missing(block) is None:
            printed = following.text if following and following.is_output else "..."
            assert wrong(block, clone, printed) is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for block in blocks(page):
        assert block.language in (*TYPED, *NOT_TYPED), block.text
        assert block.language != "yaml" or block.why_not, block.text
        assert block.remark in ("", "example", "printed") or block.why_not or block.needs or block.status, block.remark


def test_the_readme_begins_with_what_can_be_typed() -> None:
    first = blocks(ROOT / "README.md")[0]
    assert (first.language, first.remark) == ("sh", "")
    set_up, activate = (command for command, _ in first.commands())
    assert set_up.startswith(SET_UP)
    assert activate == ". .venv/bin/activate"


@pytest.mark.parametrize(
    ("printed", "output", "fits"),
    [
        ("a: b\n    c\n", "a: b c\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a ... d\n", "a d\n", True),
        ("a\n", "a b\n", False),
        ("...\nb\n", "a\nc\n", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_outputs_are_compared(printed: str, output: str, fits: bool) -> None:
    assert bool(shown(printed).fullmatch(output)) == fits


@pytest.mark.slow
def test_a_wrong_block_is_found(clone: Path) -> None:
    path = "fixtures/segments/damaged-crc-0"
    assert wrong(Block("console", f"$ kdump verify {path}\n...\n"), clone) is not None
    assert wrong(Block("console", f"$ kdump verify {path}\n...clean\n", "exit 1"), clone) is not None
    assert wrong(Block("console", f"$ kdump verify {path}\n...KD108...\n", "exit 1"), clone) is None
    assert wrong(Block("python", "raise ValueError\n"), clone) is not None
    assert wrong(Block("python", "print(1)\n"), clone, "2\n") is not None


PAGE = """# Title

```sh
a
```

<!-- exit 1 -->
```console
$ b |
  c
d
```

<!-- not run: no -->
```sh
e \\
  f
```
"""


def test_blocks_are_found(tmp_path: Path) -> None:
    (tmp_path / "page").write_text(PAGE)
    found = blocks(tmp_path / "page")
    told = [(block.language, block.status, block.why_not) for block in found]
    assert told == [("sh", 0, None), ("console", 1, None), ("sh", 0, "no")]
    assert list(found[2].commands()) == [("e    f", None)]
