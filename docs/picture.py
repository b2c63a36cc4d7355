"""Make docs/dump.svg, the picture in the README, out of a real run: ``python docs/picture.py`` in the root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COMMAND = ["dump", "--deep-iteration", "fixtures/segments/v2-txn-0/00000000000000000000.log"]
LINES = 6
WIDTH = 118

# Rich's own template loads a font from a foreign server; a README should not.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-title {{ font: bold 18px sans-serif }}
.{unique_id}-matrix {{ font: {char_height}px monospace; white-space: pre }}
{styles}
</style>
<defs>{lines}</defs>{chrome}
<g transform="translate({terminal_x}, {terminal_y})">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def main() -> None:
    """Run kdump, keep the first lines, draw them as a terminal."""
    run = subprocess.run([sys.executable, "-m", "kdump", *COMMAND], capture_output=True, text=True, check=True)
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        console.print(Text(f"$ kdump {' '.join(COMMAND)}", style="bold"))
        for line in run.stdout.splitlines()[:LINES]:
            console.print(Text(line, overflow="fold"))
        svg = console.export_svg(title="kdump dump", code_format=SVG, unique_id="kdump")
    Path("docs/dump.svg").write_text("\n".join(line.strip() for line in svg.splitlines() if line.strip()) + "\n")


if __name__ == "__main__":
    main()
