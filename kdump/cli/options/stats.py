"""Options of ``kdump stats``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kdump.cli.conflicts import Conflict, world_facts
from kdump.cli.options.declaring import PATH, OptionGroup, argument, option
from kdump.cli.options.shared import (
    ColorArguments,
    JobsArguments,
    LimitArguments,
    LogArguments,
    OffsetMapArguments,
    SchemaArguments,
    TierArguments,
    TopicArguments,
    broker_version_option,
    output_options,
)
from kdump.cli.params import MOMENT, WHAT_IF, ByParam, WhatIf


class StatsArguments(
    SchemaArguments,
    TierArguments,
    TopicArguments,
    LogArguments,
    OffsetMapArguments,
    ColorArguments,
    JobsArguments,
    LimitArguments,
):
    """Options of ``kdump stats``. Times are ms since 1970, sizes bytes."""

    about: ClassVar[Mapping[OptionGroup, str]] = {
        OptionGroup.QUESTIONS: "kdump answers these in place of the figures, in this process."
    }
    local_only = ("--what-if", "--offsets-for")
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            "--quick", excludes=("contents",), message="--by {other} reads every record, it does not go with --quick"
        ),
        Conflict("--by schema", excludes=("--html", "-j", "--log-format"), message="--by schema: not with {other}"),
        Conflict("--schemas", needs=("--by schema",)),
        Conflict("--output reset-csv", needs=("--offsets-for",)),
        Conflict(
            excludes=("a file of another world",),
            message="{other}: kdump state shows it",
        ),
    )

    paths: tuple[str, ...] = argument("PATH...", many=True, type=PATH)
    by: str = option(
        OptionGroup.COUNT,
        "--by WHAT",
        "What a group is: segment, partition, topic, producer, codec, magic, leader-epoch, minute, hour, day, key, "
        "schema, or header:NAME.",
        """
        Group the figures by `segment` (the default), `partition`, `topic`, `producer`, `codec`, `magic`,
        `leader-epoch`, `minute`, `hour`, `day`, `key`, `schema` or `header:`*NAME*; see `GROUPS`.
        """,
        type=ByParam(),
        default="segment",
        excludes=("--what-if", "--offsets-for"),
    )
    quick: bool = option(
        OptionGroup.COUNT,
        "--quick",
        "Headers only: nothing is decompressed, no key or value is looked at.",
        """
        Read headers only: nothing is decompressed and no record is read. The number of records and their times are
        those in the headers of their batches. What only the records tell is null.
        """,
        excludes=("--what-if", "--offsets-for"),
    )
    what_if: tuple[WhatIf, ...] = option(
        OptionGroup.QUESTIONS,
        "--what-if QUESTION",
        "Estimate the effect of other settings: codec, magic, compaction, retention=7d,10GB, or retention "
        "with the settings of each topic. May be repeated.",
        """
        Estimate the effect of other settings: `codec`, `magic`, `compaction` or `retention`[=*LIMIT*[,*LIMIT*...]];
        may be repeated. See `QUESTIONS`.
        """,
        type=WHAT_IF,
        multiple=True,
        excludes=("--offsets-for",),
        message="{option} and {other} exclude each other",
    )
    broker_version: str = broker_version_option(
        OptionGroup.QUESTIONS,
        "--what-if",
        says="The log cleaners of the releases keep other empty batches. Of a topic with remote storage they count "
        "local bytes differently. The answer names the release.",
    )
    now: int | None = option(
        OptionGroup.QUESTIONS,
        "--now TIME",
        "With --what-if: the time for which the questions are answered.",
        """
        With --what-if: the time for which the question is answered; the default is the time of this machine. *TIME* is
        in milliseconds since 1970, ISO 8601 (UTC unless it has another zone), or `-1h` (ago; s, m, h, d or w).
        """,
        type=MOMENT,
        show_default="the time of this machine",
        needs=("--what-if",),
    )
    offsets_for: int | None = option(
        OptionGroup.QUESTIONS,
        "--offsets-for TIME",
        "The first offset at or after this time in each partition.",
        "Show the first offset at or after *TIME* in each partition; see `OFFSETS FOR A TIME`.",
        type=MOMENT,
    )
    output: str = output_options(
        "A human-readable page, or JSON lines. With --offsets-for also reset-csv: offsets for "
        "kafka-consumer-groups.sh --from-file.",
        "`table` (the default), `jsonl`, or with --offsets-for `reset-csv`; see `OUTPUT FORMATS`.",
        ["table", "jsonl", "reset-csv"],
    )
    html: str | None = option(
        OptionGroup.OUTPUT,
        "--html FILE",
        "Write a report with charts too: one file, which a browser shows without a network.",
        """
        Also write a report with charts to *FILE*: first a map of the partitions, as that of `kdump verify --html`, then
        bytes and records over time, batch sizes, codecs, the heaviest keys, and timestamps along the offsets. The
        report is one file of about 5 MB that a browser shows without a network, in light or dark as the reader prefers.
        It replaces an older report, but no other file. If *FILE* is a link, the link stays, and the file that it points
        to gets the report. This option needs plotly: `pip install plotly`.
        """,
        type=PATH,
        excludes=("--what-if", "--offsets-for"),
    )

    def facts(self) -> Mapping[str, str | bool | None]:
        """``--by`` reads contents; a PATH is of another world."""
        return {
            "contents": self.by if self.by.startswith(("key", "header:", "schema")) else None,
            **world_facts(self.paths),
        }
