"""``--what-if``, its clock, and ``--offsets-for``: questions that ``kdump stats`` answers in place of its figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kdump.cli.common import offset_map_option
from kdump.cli.options import OptionGroup, option
from kdump.cli.params import Moment, WhatIfParam

_Function = TypeVar("_Function", bound=Callable[..., Any])


def whatif_options(function: _Function) -> _Function:
    """The options; the function takes them by the names in StatsArguments."""
    for each in (
        offset_map_option,
        option(
            OptionGroup.QUESTIONS,
            "--offsets-for",
            type=Moment(),
            metavar="TIME",
            help="The first offset at or after this time in each partition.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--now",
            type=Moment(),
            show_default="the time of this machine",
            help="With --what-if: the time for which the questions are answered.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--what-if",
            "what_if",
            multiple=True,
            type=WhatIfParam(),
            metavar="QUESTION",
            help="Estimate the effect of other settings: codec, magic, compaction, retention=7d,10GB, or retention "
            "with the settings of each topic. May be repeated.",
        ),
    ):
        function = each(function)
    return function
