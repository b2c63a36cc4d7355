"""Options of ``kdump state``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import click

from kdump.cli.conflicts import Conflict, each_other, world_facts
from kdump.cli.options.declaring import PATH, OptionGroup, argument, option
from kdump.cli.options.shared import ColorArguments, LimitArguments, OffsetMapArguments, output_options
from kdump.cli.params import HISTORY, MOMENT_OR_NOW, OFFSETS, TIMES, ZXID, HistoryOf
from kdump.reading.selection import Range
from kdump.worlds import path_titles

_CHANGES: Final = ("--between", "--between-offsets", "--history")
_NOT_AT: Final = ("--at-offset", "--at-zxid", *_CHANGES)
QUESTIONS: Final = ("--at", *_NOT_AT)
"""Without any of them the state now is shown."""


class StateArguments(OffsetMapArguments, ColorArguments, LimitArguments):
    """Options of ``kdump state``. Times are ms since 1970, sizes bytes."""

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *each_other("--at", "--at-offset", "--at-zxid", "--between", "--between-offsets"),
        Conflict(
            "another PATH",
            excludes=(*_CHANGES, "--output records", "--output reset-csv"),
            message="a PATH of logs beside one of another world is for the lag, {other} does not go with it",
        ),
        Conflict(
            "--output reset-csv",
            excludes=("--at-offset", *_CHANGES),
            message="{option} goes with --at, or with --at-zxid",
        ),
        Conflict(
            "--output records",
            "--output commands",
            excludes=_CHANGES,
            message="{option} goes with --at or --at-offset",
        ),
        Conflict(
            "a file of another world",
            excludes=(
                "--topic",
                "--broker",
                "--at-offset",
                "--between-offsets",
                "--output commands",
                "--decode",
                "--key-decoder",
                "--value-decoder",
            ),
            message="{option}, {other} does not go with it",
        ),
    )

    paths: tuple[str, ...] = argument("PATH...", many=True, type=PATH)
    topics: tuple[str, ...] = option(
        OptionGroup.READ,
        "--topic NAME|GLOB",
        "Of the metadata only this topic, with its partitions and configs; may be repeated.",
        """
        Of the metadata show only this topic, or the topics that fit a pattern (`orders-*`), with their partitions and
        configs; may be repeated.
        """,
        multiple=True,
    )
    at: int | None = option(
        OptionGroup.QUESTIONS,
        "--at TIME",
        "The metadata of the cluster, the committed offsets and the states of transactional ids, as of this "
        "time or now.",
        """
        Show the state as of *TIME*: the metadata of the cluster in *__cluster_metadata-0*, see `METADATA OF THE
        CLUSTER`; the committed offsets in partitions of *__consumer_offsets*, the transactional ids in those of
        *__transaction_state*; see `GROUPS AND TRANSACTIONAL IDS`; the schemas of a registry, see `SCHEMAS`. *TIME* is
        in milliseconds since 1970, ISO 8601 (UTC unless it has another zone), `-1h` (ago; s, m, h, d or w), or `now`.
        With `now`, the default, everything counts, whatever its time.
        """,
        type=MOMENT_OR_NOW,
        show_default="now",
    )
    at_offset: int | None = option(
        OptionGroup.QUESTIONS,
        "--at-offset N",
        "As --at, after the last whole batch up to this offset of the metadata log.",
        """
        Show the metadata of the cluster after the last whole batch up to offset *N* of the metadata log; where there is
        none, the schemas of a registry after the record with offset *N* of its topic.
        """,
        type=click.IntRange(0),
    )
    at_zxid: int | None = option(
        OptionGroup.QUESTIONS,
        "--at-zxid Z",
        "The tree of ZooKeeper after all transactions up to this one (0x hexadecimal, or decimal).",
        """
        Show the tree of ZooKeeper after all transactions up to and including *Z*, which is `0x` and hexadecimal digits,
        or a decimal number; see `THE TREE OF ZOOKEEPER`.
        """,
        type=ZXID,
        needs=("a file of another world",),
        message=f"--at-zxid goes with files of {path_titles()}",
    )
    between: Range | None = option(
        OptionGroup.QUESTIONS,
        "--between T1..T2",
        "What changed in the metadata of the cluster from T1 up to but not including T2, in order.",
        """
        Show what changed in the metadata of the cluster from *T1* up to but not including *T2*, in the order of the
        log; either may be left out. See `CHANGES OF THE METADATA`. In the topic of a schema registry: what changed in
        it.
        """,
        type=TIMES,
    )
    between_offsets: Range | None = option(
        OptionGroup.QUESTIONS,
        "--between-offsets A:B",
        "As --between, by offsets of the metadata log: from A up to but not including B.",
        "The same by offsets of the metadata log.",
        type=OFFSETS,
    )
    history: HistoryOf | None = option(
        OptionGroup.QUESTIONS,
        "--history topic=NAME",
        "All changes of a topic, a partition (partition=NAME-0) or a broker (broker=ID) in the metadata log; "
        "in files of ZooKeeper also of a group (group=NAME), in a schema registry of a subject (subject=NAME).",
        """
        Show all changes of a topic, a partition or a broker (in files of ZooKeeper also of a group: `group=`*NAME*; in
        the topic of a schema registry of a subject: `subject=`*NAME*), or those in the range of --between or
        --between-offsets.
        """,
        type=HISTORY,
        excludes=("--at", "--at-offset", "--at-zxid"),
    )
    brokers: tuple[int, ...] = option(
        OptionGroup.QUESTIONS,
        "--broker ID",
        "Of the metadata only this broker and the partitions with a replica on it. May be repeated.",
        """
        Of the metadata show only this broker, its configs, and the partitions with a replica on it; may be repeated.
        """,
        type=int,
        multiple=True,
    )
    show_secrets: bool = option(
        OptionGroup.QUESTIONS,
        "--show-secrets",
        "With the salts and keys of SCRAM users, passwords in configs, and ids of delegation tokens.",
        """
        Show salts and keys of SCRAM users, passwords in configs, and ids of delegation tokens. Without this option they
        are `[redacted]`.
        """,
    )
    decode: str | None = option(
        OptionGroup.QUESTIONS,
        "--decode",
        "With --at: decode keys and values of named partitions of internal topics.",
        "With --at: decode keys and values; see `VALUES BY KEY`.",
        type=("auto",),
        excludes=_NOT_AT,
        message="{option} goes with --at",
    )
    key_decoder: str | None = option(
        OptionGroup.QUESTIONS,
        "--key-decoder NAME",
        "With --at: keys of a named partition, as in kdump dump.",
        "With --at: decode keys and values; see `VALUES BY KEY`.",
        excludes=_NOT_AT,
        message="{option} goes with --at",
    )
    value_decoder: str | None = option(
        OptionGroup.QUESTIONS,
        "--value-decoder NAME",
        "With --at: values of a named partition, as in kdump dump.",
        "With --at: decode keys and values; see `VALUES BY KEY`.",
        excludes=_NOT_AT,
        message="{option} goes with --at",
    )
    output: str = output_options(
        "A human-readable page, or JSON lines. With --at also records: those of a snapshot; "
        "commands: those that would make it again; reset-csv: offsets for kafka-consumer-groups.sh --from-file.",
        """
        `table` (the default), `jsonl`, or with --at and --at-offset `records` or `commands`, or with --at `reset-csv`;
        see `OUTPUT FORMATS`.
        """,
        ["table", "jsonl", "records", "commands", "reset-csv"],
    )

    def facts(self) -> Mapping[str, str | bool | None]:
        """A PATH is of another world."""
        return world_facts(self.paths)
