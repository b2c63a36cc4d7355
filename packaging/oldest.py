"""Print the oldest version of each library that pyproject.toml promises, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = ("parquet", "spark", "html", "tiered")

for one in (*PROJECT["dependencies"], *(each for extra in EXTRAS for each in PROJECT["optional-dependencies"][extra])):
    found = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", one)
    if found is not None:
        print(f"{found[1]}=={found[2]}")
