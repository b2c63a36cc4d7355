"""The options of ``kdump state``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kdump.cli.common import offset_map_option
from kdump.cli.options import OptionGroup, option
from kdump.cli.params import HistoryParam, Moment, OffsetRange, TimeRange, ZxidParam

_Function = TypeVar("_Function", bound=Callable[..., Any])

NOW: Final = 2**63 - 1
"""``--at now``: everything counts, whatever its time."""
NO_CHANGE: Final = "no change that was asked for is there"


class AtMoment(Moment):
    """A point in time, or ``now``."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Usage error for anything else."""
        return NOW if value == "now" else super().convert(value, param, ctx)


def state_options(function: _Function) -> _Function:
    """The options; the function takes them by the names in StateArguments."""
    for each in (
        offset_map_option,
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
            show_default="now",
            help="The metadata of the cluster, the committed offsets and the states of transactional ids, as of this "
            "time or now.",
        ),
    ):
        function = each(function)
    return function
