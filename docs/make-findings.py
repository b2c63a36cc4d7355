"""Write the section FINDINGS of man/kdump-verify.1 from ``kdump.codes``: ``python docs/make-findings.py`` in the root.

What stands between the two marker lines of the page is replaced; the rest is written by hand.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from kdump.codes import Code, Codes

PAGE = Path(__file__).parents[1] / "man" / "kdump-verify.1"
BEGIN, END = '.\\" Begin of the findings (docs/make-findings.py).\n', '.\\" End of the findings.\n'
SUBJECTS = {
    "KD0": "Input and output",
    "KD1": "Framing",
    "KD2": "Contents of a batch",
    "KD3": "Files beside the log",
    "KD4": "Log directories",
    "KD5": "Sequence of batches",
    "KD6": "Producers and transactions",
}
WIDTH = 119


def with_findings(page: str) -> str:
    """The page with its findings as the catalogue has them now.

    Raises:
        ValueError: a marker line is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no marker lines")
    return before + begin + "\n".join(findings()) + "\n" + end + after


def findings() -> Iterator[str]:
    """Lines of man(7): a heading a subject that verify looks at, a paragraph a code with its usual severity."""
    codes = [entry.value for entry in Codes if entry.value.code[:3] in SUBJECTS]
    for prefix, entries in groupby(codes, key=lambda code: code.code[:3]):
        yield f'.SS "{SUBJECTS[prefix]}"'
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
    """Rewrite the page in place."""
    PAGE.write_text(with_findings(PAGE.read_text()))


if __name__ == "__main__":
    main()
