"""Tables for people: rich renders their frame, and the lines between are as it would render them."""

from __future__ import annotations

import io
import random
from typing import Any, Literal

import pytest
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from kdump.log.context import FileContext
from kdump.rows.humantable import HumanTable, _Page
from kdump.rows.tables import RECORD

HERE = FileContext("x", None, None)
WORDS = ("", "a", "no", "x" * 30, "日本語" * 9, "[bold]x[/]", " lead", "trail" + " " * 12, "e\u0301" * 9, "a b c d")


@pytest.mark.parametrize("seed", range(60))
def test_lines_of_a_page_are_those_of_rich(seed: int) -> None:
    chance = random.Random(seed)
    count, color = chance.randrange(1, 6), chance.random() < 0.5
    width = chance.choice((3, 5, 12)) if count == 1 else 100
    justified: list[Literal["left", "right"]] = [chance.choice(("left", "right")) for _ in range(count)]
    sizes = [chance.randrange(1, 16) for _ in range(count)]
    rows = [
        (
            chance.choice(("", "bold red", "dim yellow", "cyan")),
            [Text(chance.choice(WORDS), style=chance.choice(("", "dim"))) for _ in range(count)],
        )
        for _ in range(chance.randrange(6))
    ]

    def grid() -> RichTable:
        made = RichTable(title=Text("title"), pad_edge=False)
        for size, justify in zip(sizes, justified, strict=True):
            made.add_column("name", justify=justify, no_wrap=True, overflow="ellipsis", width=size)
        return made

    whole, text = grid(), io.StringIO()
    for style, cells in rows:
        whole.add_row(*cells, style=style)
    Console(file=text, width=width, force_terminal=color, no_color=not color).print(whole)
    page = _Page(grid(), justified, width, color=color)
    assert "".join((page.head, *(page.line(*row) for row in rows), page.foot)) == text.getvalue()


def test_rich_renders_as_much_for_many_rows_as_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    renders: list[object] = []
    render = Console.render

    def counted(self: Console, renderable: Any, options: Any = None) -> Any:
        renders.append(renderable)
        return render(self, renderable, options)

    monkeypatch.setattr(Console, "render", counted)
    counts = []
    for rows in (1, 150):
        renders.clear()
        table = HumanTable(None, HERE, width=120, color=True)
        for number in range(rows):
            table.line(RECORD, {"offset": number, "value": "v", "isControl": False})
        assert len(table.finish().splitlines()) == rows + 5
        counts.append(len(renders))
    assert counts[0] == counts[1]
