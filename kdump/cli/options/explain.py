"""Options of ``kdump explain``."""

from __future__ import annotations

from typing import ClassVar

import click

from kdump.cli.conflicts import Conflict
from kdump.cli.options.declaring import PATH, OptionGroup, argument, option
from kdump.cli.options.shared import (
    ColorArguments,
    FrameArguments,
    LimitArguments,
    LogArguments,
    SchemaArguments,
    TierArguments,
)
from kdump.cli.params import POSITION


class ExplainArguments(SchemaArguments, TierArguments, FrameArguments, LogArguments, ColorArguments, LimitArguments):
    """Options of ``kdump explain``. Sizes and positions are bytes."""

    one_path = "One file and one position: kdump explain PATH POSITION"
    conflicts: ClassVar[tuple[Conflict, ...]] = (Conflict("--frame", excludes=("--offset", "--log-format")),)

    path: str = argument("PATH", required=True, type=PATH)
    position: int | None = argument("[POSITION]", type=POSITION)
    offset: int | None = option(
        OptionGroup.READ,
        "--offset N",
        "Explain the entry of the log that holds offset N.",
        type=click.IntRange(0),
    )
