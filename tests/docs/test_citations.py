"""Citations of pages: each one in code, tests, manuals and pages leads to a page and an anchor that are there.

A citation is the path of a page from the root of the repository, mostly with the anchor of a heading:
``docs/<page>.md#<anchor>``. Numbers of rules or sections may follow it; the page has a heading for each.
Nothing cites what is not in the repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import pytest

from tests.harness import ROOT
from website.pages import generated

CITING = ("kdump/**/*.py", "tests/**/*.py", "fixtures/**/*.py", "examples/**/*.py", "docs/**/*.py", "man/*")
"""Files whose comments and texts cite pages; this one cites wrongly on purpose."""
PAGES = ("*.md", "docs/**/*.md", "fixtures/**/*.md", "tests/**/*.md")
"""Pages that link to one another."""

_PAGE = re.compile(r"(?<![\w./<>-])(?P<page>[\w./<>-]*\w\.md)\b(?:#(?P<anchor>[\w-]*\w))?")
_NUMBER = r"\d+(?:\.\d+)*"
_NUMBERS = re.compile(rf"\s+\(?(?P<kind>rule|section)s? (?P<numbers>{_NUMBER}(?:(?:,| and| to|, and) {_NUMBER})*)")
_LINK = re.compile(r"\]\((?P<page>[^)#\s:]*)(?:#(?P<anchor>[^)\s]*))?\)")
_ELSEWHERE = re.compile(r"(?:\.\./|(?<![\w/-]))shared/\w|\bissues? #?\d", re.IGNORECASE)
"""What only those can read who wrote it: a folder beside the repository, the numbers of its issues."""
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


@lru_cache
def headings(page: Path) -> list[str]:
    """The texts of the headings of a page."""
    return headings_of(page.read_text())


def headings_of(text: str) -> list[str]:
    return _HEADING.findall(_FENCE.sub("", text))


@lru_cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    return anchors_of(page.read_text())


def anchors_of(text: str) -> set[str]:
    found: set[str] = set()
    for heading in headings_of(text):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 1
        while (name := anchor if number == 1 else f"{anchor}-{number - 1}") in found:
            number += 1
        found.add(name)
    return found


@cache
def generated_pages() -> dict[Path, str]:
    """Pages that exist only while the site is built; tests/docs/test_site.py checks what they link to."""
    return {ROOT / "docs" / uri: text for uri, text in generated()}


def generated_page(target: Path) -> str | None:
    return generated_pages().get(Path(os.path.normpath(target)))


def wrong_citations(text: str, root: Path) -> Iterator[str]:
    """What is wrong with the citations in a text of a program or a manual."""
    plain = re.sub(r"\s*\n(?:\s*#)?\s*", " ", text.replace("\\-", "-"))
    for found in _ELSEWHERE.finditer(plain):
        yield f"{found[0]!r} is not in the repository"
    for found in _PAGE.finditer(plain):
        page = root / found["page"]
        if "<" in found["page"]:
            continue
        if not page.is_file():
            yield f"no page {found['page']}"
        elif found["anchor"] and found["anchor"] not in anchors(page):
            yield f"no heading {found[0]}"
        elif numbers := _NUMBERS.match(plain, found.end()):
            title = "Rule {}: " if numbers["kind"] == "rule" else "{} "
            for number in numbers_of(numbers["numbers"]):
                start = title.format(number)
                if not any(heading.replace(f"{number}.", number, 1).startswith(start) for heading in headings(page)):
                    yield f"{found['page']} has no {numbers['kind']} {number}"


def numbers_of(text: str) -> Iterator[str]:
    """All numbers in a text as '2, 4 to 6 and 9'."""
    for part in re.split(r", and |, | and ", text):
        first, _, last = part.partition(" to ")
        yield from map(str, range(int(first), int(last) + 1)) if last else (first,)


def wrong_links(page: Path) -> Iterator[str]:
    """What is wrong with the links of a page to other pages and to itself."""
    text = _FENCE.sub("", page.read_text())
    for found in _ELSEWHERE.finditer(text):
        yield f"{found[0]!r} is not in the repository"
    for found in _LINK.finditer(text):
        target = page.parent / found["page"] if found["page"] else page
        if (made := generated_page(target)) is not None:
            if found["anchor"] and f'id="{found["anchor"]}"' not in made and found["anchor"] not in anchors_of(made):
                yield f"no heading {found['page']}#{found['anchor']}"
        elif not target.exists():
            yield f"no file {found['page']}"
        elif found["anchor"] and found["anchor"] not in anchors(target):
            yield f"no heading {found['page']}#{found['anchor']}"


def files(patterns: tuple[str, ...]) -> list[Path]:
    """The files of the repository that match, but for this one."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(found - {Path(__file__)})


def test_every_citation_leads_to_a_heading() -> None:
    assert [f"{file}: {what}" for file in files(CITING) for what in wrong_citations(file.read_text(), ROOT)] == []


def test_every_link_of_a_page_leads_to_a_heading() -> None:
    assert [f"{page}: {what}" for page in files(PAGES) for what in wrong_links(page)] == []


def test_every_page_is_cited_or_linked() -> None:
    cited = {ROOT / found["page"] for file in files(CITING) for found in _PAGE.finditer(file.read_text())}
    linked = {
        (page.parent / found["page"]).resolve()
        for page in files(PAGES)
        for found in _LINK.finditer(page.read_text())
        if found["page"]
    }
    assert {page for page in files(("docs/**/*.md",)) if page not in cited | linked} == set()


PAGE = """# Title
## 1. First part
### Rule 2: `.log` files
```
## 7. No heading
```
## 4.2 A > B
## 5. Same
## 5. Same
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/x.md").write_text(PAGE)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "no citation",
        "Source: docs/x.md.",
        "(docs/x.md#1-first-part)",
        "docs/x.md#rule-2-log-files, docs/x.md#5-same-1; more",
        "see docs/x.md#42-a--b.",
        "docs/x.md rule 2 (a class), docs/x.md#1-first-part (sections 1, 4.2 and 5)",
        "docs/x.md\n    # sections 1 and\n    # 5",
        r"docs/x.md#1\-first\-part",
        "``docs/<page>.md#<anchor>``",
        "memory that is shared, shared/",
    ],
)
def test_right_citations(text: str, root: Path) -> None:
    assert list(wrong_citations(text, root)) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("docs/y.md", "no page docs/y.md"),
        ("x.md section 1", "no page x.md"),
        ("docs/x.md#first-part", "no heading docs/x.md#first-part"),
        ("docs/x.md#7-no-heading", "no heading docs/x.md#7-no-heading"),
        ("docs/x.md rules 2 to 3", "docs/x.md has no rule 3"),
        ("docs/x.md\n(sections 1\nand 4.3)", "docs/x.md has no section 4.3"),
        ("../shared/spec", "'../shared/s' is not in the repository"),
        ("Issue 7, point 3", "'Issue 7' is not in the repository"),
    ],
)
def test_wrong_citations(text: str, what: str, root: Path) -> None:
    assert list(wrong_citations(text, root)) == [what]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[a](x.md), [b](x.md#5-same), [c](#title), [d](https://example.org/x#y), [e](../docs)", []),
        ("[a](y.md)", ["no file y.md"]),
        ("[a](x.md#nothing), [b](#nothing)", ["no heading x.md#nothing", "no heading #nothing"]),
        ("```\n[a](y.md)\n```", []),
    ],
)
def test_links(text: str, wrong: list[str], root: Path) -> None:
    page = root / "docs/z.md"
    page.write_text(f"# Title\n{text}\n")
    assert list(wrong_links(page)) == wrong
