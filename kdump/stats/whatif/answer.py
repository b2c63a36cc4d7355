"""The answer to a what-if question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Cell: TypeAlias = "str | int | float | bool | None"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question.

    ``rows``: the numbers; all rows of an answer have the same keys, those of the JSON lines. ``words``: the answer in
    sentences, each without a line end.
    """

    question: str
    rows: list[dict[str, Cell]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def than_now(size: float, now: float) -> str:
    """A size compared with the present one: ``12.3 % less than now``."""
    change = 100 * (size - now) / now if now else 0.0
    if abs(change) < 0.05:
        return "as much as now"
    return f"{abs(change):,.1f} % {'more' if change > 0 else 'less'} than now"
