"""What a question is answered with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Cell: TypeAlias = "str | int | float | bool | None"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question.

    ``rows``: the numbers; all rows of an answer have the same keys, which are those of the JSON lines. ``words``: the
    same in sentences, each without a line end.
    """

    question: str
    rows: list[dict[str, Cell]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def than_now(size: float, now: float) -> str:
    """A size against the one of now: ``12.3 % less than now``."""
    change = 100 * (size - now) / now if now else 0.0
    if abs(change) < 0.05:
        return "as much as now"
    return f"{abs(change):,.1f} % {'more' if change > 0 else 'less'} than now"


def size_text(size: float) -> str:
    """Bytes for people: ``1.5 MiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError


def plural(count: int, what: str, many: str | None = None) -> str:
    """``1 batch``, ``1,234 batches``."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"
