"""docs/architecture.md names modules, classes, functions and codes that exist, and draws the arrows that are held."""

from __future__ import annotations

import re

from kdump.codes import Codes
from tests.harness import ROOT
from tests.unit.test_imports import RANKS

PAGE = (ROOT / "docs/architecture.md").read_text()
TOKENS = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
"""What the page sets as code."""
SOURCES = "\n".join(path.read_text() for path in [*(ROOT / "kdump").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_NAME = re.compile(r"_?[A-Z]\w*|\w+\(\)")


def is_there(token: str) -> bool:
    """A path from the root of the repository, or from the package on."""
    return any((folder / token).exists() for folder in (ROOT, ROOT / "kdump"))


DEFINED = {
    found[1] or found[2]
    for found in re.finditer(r"^ *(?:(?:class|def) (\w+)|(\w+)(?:: [^=\n]+)? = )", SOURCES, re.MULTILINE)
}
"""The names of classes, functions and constants."""


PATHS = [token.partition("#")[0] for token in TOKENS if _PATH.fullmatch(token.partition("#")[0])]
NAMES = [token.removesuffix("()") for token in TOKENS if _NAME.fullmatch(token)]


def test_paths_exist() -> None:
    assert [path for path in PATHS if not is_there(path)] == []


def test_names_are_defined() -> None:
    assert [name for name in NAMES if name not in DEFINED] == []


def test_what_is_not_there_is_seen() -> None:
    assert len(PATHS) > 100
    assert len(NAMES) > 40
    assert not is_there("verify/nothing.py")
    assert "Nothing" not in DEFINED


def test_codes_exist() -> None:
    assert set(re.findall(r"KD\d{3}", PAGE)) <= {entry.value.code for entry in Codes}


def test_the_picture_is_that_of_the_arrows() -> None:
    picture = re.search(r"^    {codes, limits, releases, worlds} <-(?:.*\n)+?\n", PAGE, re.MULTILINE)
    assert picture is not None
    drawn = [set(re.findall(r"\w+", part)) for part in picture[0].split("<-")]
    assert drawn == RANKS


def test_each_package_has_its_line() -> None:
    table = PAGE.partition("| Package |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(package for rank in RANKS for package in rank)
