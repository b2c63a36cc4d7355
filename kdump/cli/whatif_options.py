"""``--what-if`` and ``--at``: questions that ``kdump stats`` answers in place of its figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import click

from kdump.cli.params import Moment

_Function = TypeVar("_Function", bound=Callable[..., Any])

QUESTIONS: Final = ("codec", "magic", "batch-size", "compaction", "retention")
_UNITS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_SIZES: Final = {
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "tb": 1_000_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_LIMIT: Final = re.compile(r"(\d+)([a-z]+)", re.IGNORECASE)


class WhatIf(NamedTuple):
    """A question; ``milliseconds`` and ``size`` (bytes) are the limits of ``retention``."""

    question: str
    milliseconds: int | None = None
    size: int | None = None


class WhatIfParam(click.ParamType[WhatIf]):
    """``codec``, ``magic``, ``batch-size``, ``compaction``, or ``retention=LIMIT[,LIMIT]``."""

    name = "QUESTION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> WhatIf:
        """Usage error for anything else."""
        if isinstance(value, WhatIf):
            return value
        question, equals, limits = str(value).partition("=")
        if question not in QUESTIONS:
            self.fail(f"'{value}' is none of {', '.join(QUESTIONS[:-1])}, retention=7d, retention=10GB", param, ctx)
        if question != "retention":
            return WhatIf(question) if not equals else self.fail(f"{question} takes no value", param, ctx)
        found: dict[str, int] = {}
        for limit in limits.split(","):
            match = _LIMIT.fullmatch(limit.strip())
            unit = match[2].lower() if match else ""
            if match is None or (unit not in _UNITS and unit not in _SIZES):
                self.fail(f"'{limit}' is no time (7d, 12h, 600000ms) and no size (10GB, 512MiB)", param, ctx)
            kind = "milliseconds" if unit in _UNITS else "size"
            if kind in found:
                self.fail(f"'{limits}' limits the {'time' if kind == 'milliseconds' else 'size'} twice", param, ctx)
            found[kind] = int(match[1]) * (_UNITS if unit in _UNITS else _SIZES)[unit]
        return WhatIf(question, **found)


def whatif_options(function: _Function) -> _Function:
    """The two options; the function takes them as ``what_if`` and ``at``."""
    for option in (
        click.option(
            "--at",
            type=Moment(),
            metavar="TIME",
            help="The committed offsets, or the states of transactional ids, as of this time. With --what-if: take it "
            "for now.",
        ),
        click.option(
            "--what-if",
            "what_if",
            multiple=True,
            type=WhatIfParam(),
            metavar="QUESTION",
            help="Estimate the effect of other settings: codec, magic, batch-size, compaction, retention=7d,10GB. "
            "May be repeated.",
        ),
    ):
        function = option(function)
    return function
