"""Write the sections FINDINGS of the manual from ``kdump.codes``: ``python docs/make-findings.py`` in the root.

What stands between the two marker lines of a page is replaced; the rest is written by hand.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from kdump.codes import Code, Codes

MANUAL = Path(__file__).parents[1] / "man"
BEGIN, END = '.\\" Begin of the findings (docs/make-findings.py).\n', '.\\" End of the findings.\n'
VERIFY = {
    "KD0": "Input and output",
    "KD1": "Framing",
    "KD2": "Contents of a batch",
    "KD3": "Files beside the log",
    "KD4": "Log directories",
    "KD5": "Sequence of batches",
    "KD6": "Producers and transactions",
}
PAGES = {"kdump-verify.1": VERIFY, "kdump-diff.1": {"KD9": "Copies compared"}}
"""The pages with such a section, and its subjects."""
WIDTH = 119


def with_findings(name: str, page: str) -> str:
    """A page with its findings as the catalogue has them now.

    Args:
        name: of the page, one of ``PAGES``.
        page: its text.

    Raises:
        ValueError: a marker line is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{name} has no marker lines")
    return before + begin + "\n".join(findings(PAGES[name])) + "\n" + end + after


def findings(subjects: dict[str, str]) -> Iterator[str]:
    """Lines of man(7): a heading for each subject, a paragraph for each code with its usual severity."""
    codes = [entry.value for entry in Codes if entry.value.code[:3] in subjects]
    for prefix, entries in groupby(codes, key=lambda code: code.code[:3]):
        yield f'.SS "{subjects[prefix]}"'
        for code in entries:
            yield from paragraph(code)


def paragraph(code: Code) -> Iterator[str]:
    """A code with its name, its severity and its text, a source line of at most ``WIDTH`` characters at a time."""
    name = code.name.replace("-", r"\-")
    yield ".TP"
    yield f'.BR "{code.code} {name}" " ({code.severity.value})"'
    # A sentence begins a line, as groff wants it.
    for sentence in re.split(r"(?<=[.]) (?=[A-Z])", code.manual):
        for line in textwrap.wrap(sentence, WIDTH, break_long_words=False, break_on_hyphens=False):
            yield roff(line)


def roff(line: str) -> str:
    """A line of text as man(7) takes it: signs that groff would turn into others, and dots that would be requests."""
    line = re.sub(r"(?<!\w)-|-(?=\d)", r"\\-", line.replace("\\", r"\e"))
    line = line.replace("^", r"\(ha").replace("~", r"\(ti")
    return rf"\&{line}" if line.startswith((".", "'")) else line


def main() -> None:
    """Rewrite the pages in place."""
    for name in PAGES:
        path = MANUAL / name
        path.write_text(with_findings(name, path.read_text()))


if __name__ == "__main__":
    main()
