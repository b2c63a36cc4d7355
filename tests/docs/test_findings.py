"""The generated parts of the manual, and the incident that the page of ``kdump verify`` works through."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.harness import ROOT
from tests.harness.cli_runs import CLEAN, DAMAGE, kdump

PAGE = (ROOT / "man" / "kdump-verify.1").read_text()


def test_generated_parts_are_as_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("make_manual", ROOT / "docs" / "make-manual.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in module.PAGES:
        page = (ROOT / "man" / name).read_text()
        assert module.with_findings(name, page) == page, "run make man"
    for name in module.commands():
        page = (ROOT / "man" / name).read_text()
        assert module.with_options(name, page) == page, "run make man"


@pytest.mark.slow
def test_incident(tmp_path: Path) -> None:
    """The commands of the example print what the page says, but for folded lines; of one only what it finds is told."""
    example = PAGE.partition('.SH "A WORKED INCIDENT"')[2].partition(".SH")[0].replace("\\-", "-")
    commands = re.findall(r"^\$ kdump (.*)\n((?:(?!\.EE|\$).*\n)*)", example, flags=re.MULTILINE)
    statuses = [DAMAGE, DAMAGE, DAMAGE, CLEAN, CLEAN]
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    for (words, printed), status in zip(commands, statuses, strict=True):
        run = kdump(*words.split(), cwd=tmp_path)
        assert (run.returncode, run.stderr) == (status, b"")
        assert run.stdout.decode().split() == printed.split() or (not printed and b"flipped" in run.stdout)
