"""Tests lie where the code that they test lies, and what tests share lies in tests/harness."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness import ROOT

TESTS = ROOT / "tests"
UNIT = TESTS / "unit"
IN_PACKAGES = sorted(path for path in UNIT.rglob("test_*.py") if path.parent != UNIT)
FOLDERS = ("unit", "cli", "property", "docs")


def modules(package: Path) -> set[str]:
    """The modules of a package, and the package itself."""
    return {path.stem for path in package.glob("*.py")} | {package.name}


def is_named_after_a_module(path: Path) -> bool:
    package = ROOT / "kdump" / path.parent.relative_to(UNIT)
    tested = path.stem.removeprefix("test_")
    named = any(re.fullmatch(rf"{name}(_\w+)?", tested) for name in modules(package))
    return named and (package / "__init__.py").is_file()


def test_files_are_named_after_modules() -> None:
    """``tests/unit/PACKAGE/test_MODULE.py``, or ``test_MODULE_WHAT.py`` where one module has several files."""
    assert not [str(path) for path in IN_PACKAGES if not is_named_after_a_module(path)]


def test_there_are_tests_in_packages() -> None:
    assert len(IN_PACKAGES) > 80


@pytest.mark.parametrize("folder", FOLDERS)
def test_helpers_are_in_the_harness(folder: str) -> None:
    others = [path.name for path in (TESTS / folder).rglob("*.py") if not path.name.startswith("test_")]
    assert not others
