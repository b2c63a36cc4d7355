"""Make pictures of the README, docs/dump.svg, table.svg and stats.svg, out of real runs: ``python docs/picture.py``.

To be run in the root of the repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PARTITION = "fixtures/segments/v2-txn-0"
LOG = f"{PARTITION}/00000000000000000000.log"
PICTURES = {
    "dump": (("dump", "--deep-iteration", LOG), 6),
    "table": (("dump", "--output", "table", "--records", "--offset", "27:36", LOG), 20),
    "stats": (("stats", PARTITION), 50),
}
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
    """Draw each run as a terminal that shows its first lines."""
    for name, (command, lines) in PICTURES.items():
        draw(name, command, lines)


def draw(name: str, command: tuple[str, ...], lines: int) -> None:
    """Run kdump, keep the first ``lines`` lines, write ``docs/<name>.svg``."""
    environment = {**os.environ, "COLUMNS": str(WIDTH)}
    words = [sys.executable, "-m", "kdump", *command, "--color", "always"]
    run = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        console.print(Text(f"$ kdump {' '.join(command)}", style="bold"))
        for line in run.stdout.splitlines()[:lines]:
            console.print(Text.from_ansi(line, overflow="fold"))
        svg = console.export_svg(title=f"kdump {command[0]}", code_format=SVG, unique_id=name)
    Path(f"docs/{name}.svg").write_text("\n".join(line.strip() for line in svg.splitlines() if line.strip()) + "\n")


if __name__ == "__main__":
    main()
