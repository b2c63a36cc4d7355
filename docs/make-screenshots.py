"""Make docs/explain.svg and docs/stats-html.png of the README: ``python docs/make-screenshots.py`` in the root.

The place that is explained is the CRC of a captured batch in which one bit was flipped: the picture shows its header,
the verdict and the first record. The report is that of a captured partition, as chromium shows it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from picture import SVG
from rich.console import Console
from rich.text import Text

from kdump.explain import explain
from kdump.explain.layout import rich_lines
from kdump.log.opening import open_source

SEGMENT = "fixtures/segments/damaged-crc-0/00000000000000000000.log"
POSITION = 7645
WIDTH = 100
MOST_LINES = 44
PARTITION = "fixtures/segments/v2-txn-0"
WINDOW = "1200,1530"


def main() -> None:
    """Both."""
    draw_explanation()
    draw_report()


def draw_report() -> None:
    """A browser's window with the HTML report."""
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "report.html"
        subprocess.run(
            [sys.executable, "-m", "kdump", "stats", "--html", str(page), PARTITION],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        window = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WINDOW}"]
        subprocess.run(["chromium", *window, "--screenshot=docs/stats-html.png", page.as_uri()], check=True)


def draw_explanation() -> None:
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
