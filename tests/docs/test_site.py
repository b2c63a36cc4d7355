"""The site: a page for each code, columns with a meaning, manual pages that convert, links that lead somewhere."""

from __future__ import annotations

import html.parser
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from kdump.codes import Codes
from kdump.kafka07 import rows as rows07
from kdump.rows import filetables, tables
from kdump.rows.columns import Table
from kdump.zookeeper import dump as zookeeperdump
from tests.harness import ROOT
from website import columns, findings, library, manual
from website.pages import generated

PAGES = dict(generated())


def test_every_code_has_a_page() -> None:
    for entry in Codes:
        code = entry.value
        page = PAGES[f"findings/{code.code}.md"]
        assert page.startswith(f"# {code.code} {code.name}\n")
        assert code.title[1:] in page
        assert f"Severity: {code.severity.value}." in page
        assert f"[{code.code}]({code.code}.md)" in PAGES[findings.INDEX]


def test_every_code_says_what_a_broker_logs() -> None:
    for entry in Codes:
        known = findings.broker_log()[entry.value.code]
        assert known.logged or known.silent, entry.value.code
        assert all(one.lines and not one.when.endswith(".") for one in known.logged)
        for line in (line for one in known.logged for line in one.lines):
            assert line in PAGES[f"findings/{entry.value.code}.md"]
            assert line in PAGES[findings.INDEX]


def test_the_broker_log_has_no_other_codes() -> None:
    codes = {entry.value.code for entry in Codes}
    assert findings.broker_log().keys() <= codes | {code[:3] for code in codes}


def test_lines_match_what_a_broker_writes() -> None:
    line = findings.broker_log()["KD108"].logged[0].lines[0]
    written = "WARN Found invalid messages in log segment /d/t-0/00000000000000000000.log at byte offset 7628."
    assert findings.pattern(line).search(written)
    assert not findings.pattern(line).search(written.replace("invalid", "good"))
    assert findings.pieces("a <x> (14) <y>b") == ["a ", " (14) ", "b"]


def test_every_table_is_on_the_page() -> None:
    declared = {
        value.type
        for module in (tables, filetables, rows07, zookeeperdump)
        for value in vars(module).values()
        if isinstance(value, Table)
    }
    assert [section.table.type for section in columns.SECTIONS if section.table.type not in declared] == []
    assert {section.table.type for section in columns.SECTIONS} == declared


@pytest.mark.parametrize("section", columns.SECTIONS, ids=lambda section: section.table.type)
def test_every_column_has_a_meaning(section: columns.Section) -> None:
    if section.table is filetables.STATS:
        return
    for column in columns.columns(section):
        assert columns.meaning(section.table, column)


def test_no_meaning_is_left_over() -> None:
    used = {
        name
        for section in columns.SECTIONS
        for column in columns.columns(section)
        for name in (column.name, f"{section.table.type}.{column.name}")
    }
    assert columns.MEANINGS.keys() <= used


def test_every_public_name_is_in_the_reference() -> None:
    import kdump

    listed = {name.removeprefix("kdump.") for name in library.names()}
    assert listed >= set(kdump.__all__) - {"__version__", "testing"}
    assert {"testing.write_segment", "testing.flip_bit", "testing.marker", "testing.truncate"} <= listed
    assert all(f"::: {name}" in PAGES[library.URI] for name in library.names())


@pytest.mark.parametrize("name", manual.names())
def test_manual_pages_are_whole(name: str) -> None:
    """Every word of a page is on the site, and no markup of man(7) is left."""
    source = (ROOT / "man" / name).read_text()
    page = manual.page(name)
    text = re.sub(r"<.*?>", "", page)
    assert not re.search(r"\\f[BIRP]|\\-|\\\(|\\&|^\.[A-Z]", text, re.MULTILINE)
    body = source[source.index(".SH") :]
    plain = re.sub(r'^\.\\".*$|^\.\S+|\\f[BIRP]|\\\(..|\\.', " ", body, flags=re.MULTILINE)
    assert set(re.findall(r"[A-Za-z]{4,}", plain)) <= set(re.findall(r"[A-Za-z]{4,}", text))
    assert len(re.findall(r"^\.TP$", source, re.MULTILINE)) == page.count("<dt")
    assert page.count("<dl>") == page.count("</dl>")


def test_markup_of_the_manual() -> None:
    assert manual._line(r".BR kdump\-verify (1),") == "<strong>kdump-verify</strong>(1),"
    assert manual._line(r'.BI \-\-at " TIME"') == "<strong>--at</strong><em> TIME</em>"
    assert manual._line(r"a \fBb\fP \(dqc\(dq < d") == 'a <strong>b</strong> "c" &lt; d'
    assert manual._linked("<strong>kdump-verify</strong>(1), KD108, ls(1)") == (
        '<a href="kdump-verify.1.html">kdump-verify(1)</a>, <a href="../findings/KD108.html">KD108</a>, ls(1)'
    )


class Links(html.parser.HTMLParser):
    """The anchors of a page, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and (target := given.get("href")):
            self.targets.add(target)
        if tag == "link" and given.get("rel") in ("stylesheet", "preconnect") and (target := given.get("href")):
            self.loaded.add(target)
        if source := given.get("src"):
            self.loaded.add(source)


@pytest.mark.slow
def test_the_site_is_built_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None or find_spec("material") is None:
        pytest.skip("mkdocs is not installed: pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    pages = {path: Links(path.read_text()) for path in tmp_path.rglob("*.html")}
    assert len(pages) > len(PAGES)
    wrong = []
    for path, page in pages.items():
        wrong += [f"{path.name} loads {source}" for source in page.loaded if re.match(r"(?:https?:)?//", source)]
        for target in page.targets:
            # 404.html is for a server, which knows where the site is.
            if re.match(r"[a-z]+:", target) or path.name == "404.html":
                continue
            file, anchor = urldefrag(target)
            found = (path.parent / unquote(file)).resolve() if file else path
            if found.is_dir():
                found /= "index.html"
            if not found.exists():
                wrong.append(f"{path.name}: no {target}")
            elif anchor and found in pages and unquote(anchor) not in pages[found].anchors | {"__skip"}:
                wrong.append(f"{path.name}: no anchor {target}")
    assert wrong == []
