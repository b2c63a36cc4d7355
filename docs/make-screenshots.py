"""Make docs/explain.svg, a picture of ``--explain`` in the README: ``python docs/make-screenshots.py`` in the root.

The place is the CRC of a captured batch in which one bit was flipped: the picture shows its header, the verdict and
the first record.
"""

from __future__ import annotations

from pathlib import Path

from picture import SVG
from rich.console import Console
from rich.text import Text

from kdump.explain import explain
from kdump.explain.render import rich_lines
from kdump.log.source import open_source

SEGMENT = "fixtures/segments/damaged-crc-0/00000000000000000000.log"
POSITION = 7645
WIDTH = 100
MOST_LINES = 44


def main() -> None:
    """Explain the place, draw the first lines as a terminal."""
    with open_source(SEGMENT) as source:
        lines = rich_lines(explain(source, POSITION), WIDTH)
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        console.print(Text(f"$ kdump dump --explain {POSITION} {SEGMENT}", style="bold"), soft_wrap=True)
        for line in lines[:MOST_LINES]:
            console.print(line, highlight=False)
        svg = console.export_svg(title="kdump dump --explain", code_format=SVG, unique_id="explain")
    Path("docs/explain.svg").write_text("\n".join(line.strip() for line in svg.splitlines() if line.strip()) + "\n")


if __name__ == "__main__":
    main()
