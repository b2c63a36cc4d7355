"""What tests share: runs of kdump, writers of logs and of damage, plain readers that kdump is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
"""The root of the repository."""
