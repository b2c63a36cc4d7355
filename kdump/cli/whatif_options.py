"""``--what-if``, ``--at`` and others: questions that ``kdump stats`` answers in place of its figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import click

from kdump.cli.options import OptionGroup, option
from kdump.cli.params import Moment, OffsetRange, TimeRange

_Function = TypeVar("_Function", bound=Callable[..., Any])

QUESTIONS: Final = ("codec", "magic", "compaction", "retention")
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
_LIMIT: Final = re.compile(r"(\d{1,19})([a-z]+)", re.IGNORECASE)


NOW: Final = 2**63 - 1
"""``--at now``: everything counts, whatever its time."""
NO_CHANGE: Final = "no change that was asked for is there"


class AtMoment(Moment):
    """A point in time, or ``now``."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Usage error for anything else."""
        return NOW if value == "now" else super().convert(value, param, ctx)


class WhatIf(NamedTuple):
    """A question; ``milliseconds`` and ``size`` (bytes) are the limits of ``retention``."""

    question: str
    milliseconds: int | None = None
    size: int | None = None


class WhatIfParam(click.ParamType[WhatIf]):
    """``codec``, ``magic``, ``compaction``, or ``retention=LIMIT[,LIMIT]``."""

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
        if not equals:
            return WhatIf(question)
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


class HistoryOf(NamedTuple):
    """Whose history is asked for: ``kind`` is ``topic``, ``partition``, ``broker`` or ``group``."""

    kind: str
    name: str


class HistoryParam(click.ParamType[HistoryOf]):
    """``topic=NAME``, ``partition=NAME-0``, ``broker=ID`` or ``group=NAME``."""

    name = "OF"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> HistoryOf:
        """Usage error for anything else."""
        if isinstance(value, HistoryOf):
            return value
        kind, equals, name = str(value).partition("=")
        if kind not in ("topic", "partition", "broker", "group") or not equals or not name:
            self.fail(f"'{value}' is none of topic=NAME, partition=NAME-0, broker=ID, group=NAME", param, ctx)
        if kind == "broker" and not name.isdecimal():
            self.fail(f"'{name}' is no broker id", param, ctx)
        return HistoryOf(kind, name)


class ZxidParam(click.ParamType[int]):
    """The number of a transaction of ZooKeeper: ``0x`` and hexadecimal digits, or decimal."""

    name = "Z"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Usage error for anything else."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"0[xX]([0-9a-fA-F]{1,16})|([0-9]{1,19})", str(value))
        if match is None:
            self.fail(f"'{value}' is no zxid: 0x and hexadecimal digits, or a decimal number", param, ctx)
        return int(match[1], 16) if match[1] else int(match[2])


def whatif_options(function: _Function) -> _Function:
    """The options; the function takes them by the names in StatsArguments."""
    for each in (
        option(
            OptionGroup.QUESTIONS,
            "--value-decoder",
            metavar="NAME",
            help="With --at: values of a named partition, as in kdump dump.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--key-decoder",
            metavar="NAME",
            help="With --at: keys of a named partition, as in kdump dump.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--decode",
            type=click.Choice(["auto"]),
            help="With --at: decode keys and values of named partitions of internal topics.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--show-secrets",
            is_flag=True,
            help="With the salts and keys of SCRAM users, passwords in configs, and ids of delegation tokens.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--broker",
            "brokers",
            type=int,
            multiple=True,
            metavar="ID",
            help="Of the metadata only this broker and the partitions with a replica on it. May be repeated.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--offsets-for",
            type=Moment(),
            metavar="TIME",
            help="The first offset at or after this time in each partition.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--offset-map",
            multiple=True,
            type=click.Path(),
            metavar="FILE",
            help="With --output reset-csv: offsets as they are in logs that convert --renumber has made.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--history",
            type=HistoryParam(),
            metavar="topic=NAME",
            help="All changes of a topic, a partition (partition=NAME-0) or a broker (broker=ID) in the metadata log; "
            "in files of ZooKeeper also of a group (group=NAME).",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--between-offsets",
            type=OffsetRange(),
            metavar="A:B",
            help="As --between, by offsets of the metadata log: from A up to but not including B.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--between",
            type=TimeRange(),
            metavar="T1..T2",
            help="What changed in the metadata of the cluster from T1 up to but not including T2, in order.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--at-offset",
            type=click.IntRange(0),
            metavar="N",
            help="As --at, after the last whole batch up to this offset of the metadata log.",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--at-zxid",
            type=ZxidParam(),
            metavar="Z",
            help="The tree of ZooKeeper after all transactions up to this one (0x hexadecimal, or decimal).",
        ),
        option(
            OptionGroup.QUESTIONS,
            "--at",
            type=AtMoment(),
            metavar="TIME",
            help="The metadata of the cluster, the committed offsets and the states of transactional ids, as of this "
            "time or now. With --what-if: take it for now.",
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
