"""Tables for people: laid out part by part they are as in one piece, and no cell is endless."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from kdump.stats import rowtable
from kdump.stats.rowtable import row_table, table_parts

COLUMNS = {"path": "path", "size": "size of it", "reason": "why", "names": "a long title of names"}
WORDS = ("a", "word", "\u4e2d\u6587\u5b57", "/a/path/that/is/long", "x" * 40, "")


def some_rows(random: Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "path": " ".join(random.choices(WORDS, k=random.randrange(4))),
            "size": random.choice((None, 1, 1_234_567)),
            "reason": random.choice(WORDS),
            "names": random.choices(WORDS, k=random.randrange(3)),
            "goes": random.random() < 0.2,
        }
        for _ in range(count)
    ]


def plain_rows(random: Random, count: int) -> list[dict[str, Any]]:
    """As most are: nothing wraps where there is room."""
    return [
        {
            "path": random.choice(("", "a", "two words", "two  blanks", " indented", "a-name-of-20-letters")),
            "size": random.choice((None, 1, 1_234_567)),
            "reason": random.choice(("", "a", "word")),
            "names": [number for number in (1, 2, 3) if random.random() < 0.5],
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 100, 300])
@pytest.mark.parametrize("color", [False, True])
def test_parts_are_the_whole(monkeypatch: pytest.MonkeyPatch, width: int, color: bool) -> None:
    random = Random(width)
    for count, made in product((1, 6, 7, 30), (some_rows, plain_rows)):
        rows = made(random, count)
        whole = row_table(COLUMNS, rows, width=width, color=color)
        with monkeypatch.context() as small:
            small.setattr(rowtable, "_TOGETHER", 3)
            parts = list(table_parts(COLUMNS, rows, width=width, color=color))
        assert "".join(parts) == whole
        assert (len(parts) > 1) == (count > 3)


def test_a_cell_ends() -> None:
    rows: list[dict[str, Any]] = [{"path": "x" * 1_000_000, "size": 1, "reason": "", "names": []}] * 3
    found = row_table(COLUMNS, rows, width=100, color=False)
    assert len(found) < 200_000
    assert "1,000,000" in found
