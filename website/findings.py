"""A page for each finding code: the catalogue's text, what a broker logs in that case, and where to read on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from kdump.codes import Code, Codes

BROKER_LOG: Final = Path(__file__).parents[1] / "docs" / "spec" / "broker-log.toml"
INDEX: Final = "findings/index.md"
SUBJECTS: Final = {
    "KD0": "Input and output",
    "KD1": "Framing",
    "KD2": "Contents of a batch",
    "KD3": "Files beside the log",
    "KD4": "Log directories, metadata and ZooKeeper",
    "KD5": "Sequence of batches",
    "KD6": "Producers and transactions",
    "KD7": "Repair",
    "KD8": "Conversion",
    "KD9": "Copies compared",
}
_COMMANDS: Final = {
    "KD0": (),
    "KD1": ("verify", "dump"),
    "KD2": ("verify", "dump"),
    "KD7": ("repair",),
    "KD8": ("convert",),
    "KD9": ("diff",),
}
"""Who reports the codes of a subject; the others verify alone."""
_MANUALS: Final = {"KD7": "kdump.1", "KD8": "kdump.1", "KD9": "kdump-diff.1"}
"""The pages that explain the codes of a subject; the others kdump-verify(1)."""
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z ]+>")


@dataclass(frozen=True, slots=True)
class Logged:
    """Lines that a broker writes on one occasion.

    Args:
        when: the occasion, a sentence without its point.
        lines: ``LEVEL message``, or an exception; ``<offset>`` and the like stand for what differs.
        case: the case of ``fixtures/cases`` in which they were seen; None: the texts were found in Kafka's classes.
        since, until: the first and the last release that logs so; None: all that kdump models.
    """

    when: str
    lines: tuple[str, ...]
    case: str | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """What a broker writes about a code: on which occasions, and why it is silent otherwise."""

    logged: tuple[Logged, ...] = ()
    silent: str | None = None
    rules: tuple[str, ...] = field(default=())


@cache
def broker_log() -> dict[str, BrokerLog]:
    """What a broker logs, by code. A code without an entry of its own has that of its subject (``KD7``)."""
    entries: dict[str, Any] = tomllib.loads(BROKER_LOG.read_text("utf-8"))
    read = {
        name: BrokerLog(
            tuple(Logged(**{**one, "lines": tuple(one["lines"])}) for one in entry.get("logged", ())),
            entry.get("silent"),
            tuple(entry.get("rules", ())),
        )
        for name, entry in entries.items()
    }
    return {code: read.get(code) or read[code[:3]] for code in (entry.value.code for entry in Codes)} | read


def pattern(line: str) -> re.Pattern[str]:
    """A regular expression that a line of a real log matches."""
    return re.compile(".+?".join(map(re.escape, _PLACEHOLDER.split(line))))


def pieces(line: str) -> list[str]:
    """The parts of a line that are always the same."""
    return [piece for piece in _PLACEHOLDER.split(line) if piece]


def uri(code: str) -> str:
    """The page of a code, from the root of the site's sources."""
    return f"findings/{code}.md"


def page(code: Code) -> str:
    """The Markdown of the page of a code."""
    return "\n".join(_page(code)) + "\n"


def index() -> str:
    """The Markdown of the list of all codes, and of the lines of a broker's log that lead to them."""
    return "\n".join(_index()) + "\n"


def _page(code: Code) -> Iterator[str]:
    subject = code.code[:3]
    yield f"# {code.code} {code.name}"
    yield ""
    title = code.title[0].upper() + code.title[1:]
    yield f"**{title}.** Severity: {code.severity.value}. Reported by {_reported(subject)}."
    yield ""
    yield _linked(code.manual, code.code)
    yield ""
    yield "## What a broker logs"
    yield ""
    known = broker_log()[code.code]
    for one in known.logged:
        yield f"{one.when}:"
        yield ""
        yield "```text"
        yield from one.lines
        yield "```"
        yield ""
    if known.silent:
        yield known.silent
        yield ""
    if known.logged:
        yield "Lines are those of Kafka 4.4.0, without time and logger. What is in angle brackets differs."
        yield ""
    yield "## Read on"
    yield ""
    manual = _MANUALS.get(subject, "kdump-verify.1")
    name, _, section = manual.partition(".")
    yield f"- [{name}({section})](../man/{manual}.md#{code.code}), the manual"
    if subject not in ("KD0", "KD7", "KD8", "KD9"):
        yield "- [The broker died: decide before you restart](../guides/broker-died.md)"
    for rule in known.rules:
        yield f"- [{_title(rule)}](../{rule})"
    yield f"- [All findings](index.md#{_slug(SUBJECTS[subject])})"


def _index() -> Iterator[str]:
    yield "# Findings"
    yield ""
    yield "Each finding has a code. Codes never change their meaning, and are never used again."
    yield "If you came with a line of a broker's log, look for it [below](#a-line-of-a-brokers-log)."
    for subject, entries in groupby((entry.value for entry in Codes), key=lambda code: code.code[:3]):
        yield ""
        yield f"## {SUBJECTS[subject]}"
        yield ""
        yield "| Code | Name | Severity | |"
        yield "|---|---|---|---|"
        for code in entries:
            yield f"| [{code.code}]({code.code}.md) | {code.name} | {code.severity.value} | {code.title} |"
    yield ""
    yield "## A line of a broker's log"
    yield ""
    yield "| Line | Codes |"
    yield "|---|---|"
    lines: dict[str, list[str]] = {}
    for entry in Codes:
        for one in broker_log()[entry.value.code].logged:
            for line in one.lines:
                found = lines.setdefault(line, [])
                if entry.value.code not in found:
                    found.append(entry.value.code)
    for line, codes in sorted(lines.items(), key=lambda item: item[0].partition(" ")[2]):
        yield f"| `{line.replace('|', '&#124;')}` | {', '.join(f'[{code}]({code}.md)' for code in codes)} |"


def _reported(subject: str) -> str:
    commands = _COMMANDS.get(subject, ("verify",))
    return " and ".join(f"`kdump {command}`" for command in commands) or "every command"


def _linked(text: str, own: str) -> str:
    """Text in which other codes are links."""
    return re.sub(r"\bKD\d{3}\b", lambda found: found[0] if found[0] == own else f"[{found[0]}]({found[0]}.md)", text)


def _title(rule: str) -> str:
    """The heading that a rule's link leads to."""
    path, _, anchor = rule.partition("#")
    text = (BROKER_LOG.parents[1] / path).read_text("utf-8")
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        if _slug(heading) == anchor or not anchor:
            return str(heading)
    raise ValueError(f"{rule}: no such heading")


def _slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
