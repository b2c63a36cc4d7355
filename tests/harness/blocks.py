"""The blocks of the README and of the site's pages: what is typed, what it prints, and how it is tried.

A remark in front of a block tells how: ``<!-- exit 1 -->`` (its first command ends with 1), ``<!-- needs java -->``,
``<!-- printed -->`` (by the program before it), ``<!-- not run: why -->``, ``<!-- example -->`` (names of other
machines: tests/docs/test_commands.py runs its lines).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"(?:^<!-- (?P<remark>.+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_CONTINUES = re.compile(r"\\\n|\|\n")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page."""

    language: str
    text: str
    remark: str = ""

    @property
    def is_example(self) -> bool:
        return self.remark == "example"

    @property
    def is_output(self) -> bool:
        """What the program in the block before it prints."""
        return self.remark == "printed"

    @property
    def why_not(self) -> str | None:
        """Why the block is not run; None: it is."""
        return self.remark.removeprefix("not run: ") if self.remark.startswith("not run: ") else None

    @property
    def needs(self) -> str | None:
        """A program without which the block cannot run."""
        return self.remark.removeprefix("needs ") if self.remark.startswith("needs ") else None

    @property
    def status(self) -> int:
        """The exit status of the first command; that of the others is 0."""
        return int(self.remark.removeprefix("exit ")) if self.remark.startswith("exit ") else 0

    def commands(self) -> Iterator[tuple[str, str | None]]:
        """What is typed, and what it prints if the page shows it."""
        if self.language == "console":
            for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
                command, _, printed = part.partition("\n")
                yield command, printed
        else:
            whole = _CONTINUES.sub(lambda found: "| " if found[0][0] == "|" else " ", self.text)
            for line in whole.splitlines():
                if line.strip() and not line.startswith("#"):
                    yield line, None


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in their order."""
    return [
        Block(found["language"], found["text"], found["remark"] or "") for found in _BLOCK.finditer(page.read_text())
    ]


def shown(printed: str) -> re.Pattern[str]:
    """A regular expression for an output as a page shows it: lines may be folded, and ``...`` stands for anything."""
    parts = (r"\s+".join(map(re.escape, part.split())) for part in printed.split("..."))
    return re.compile(r"\s*" + r"\s*.*?\s*".join(parts) + r"\s*", re.DOTALL)
