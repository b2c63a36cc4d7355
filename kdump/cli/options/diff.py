"""Options of ``kdump diff``."""

from __future__ import annotations

from kdump.cli.options.declaring import PATH, OptionGroup, argument, option
from kdump.cli.options.shared import (
    ColorArguments,
    JobsArguments,
    LimitArguments,
    TierArguments,
    TopicArguments,
    output_options,
)


class DiffArguments(TierArguments, TopicArguments, ColorArguments, JobsArguments, LimitArguments):
    """Options of ``kdump diff``."""

    paths: tuple[str, ...] = argument("PATH...", many=True, type=PATH)
    content: bool = option(
        OptionGroup.COMPARE,
        "--content",
        "Compare records by offset, timestamp, key, value and headers only, for copies that are no replicas.",
        """
        Compare records by offset, timestamp, key, value and headers only, and leave out producers, sequences,
        transactions, leader epochs, topic ids and clusters. This is for copies that are no replicas: mirrored topics
        with the same offsets, and what kdump-convert(1) wrote. Markers are left out, and so is what the older of two
        message formats cannot hold: headers, and in magic 0 timestamps. Truncations are not predicted then.
        """,
    )
    output: str = output_options(
        "Table: a page per partition; JSON lines, or JUnit XML.",
        "`table` (the default), `jsonl` or `junit`; see `OUTPUT FORMATS`.",
        ["table", "jsonl", "junit"],
    )
    records: bool = option(
        OptionGroup.OUTPUT,
        "--records",
        "Show the records that differ, key and value of each copy.",
        "Also show the records in which copies differ, with the key and the value in each of them.",
        excludes=("--output junit",),
    )
    strict: bool = option(
        OptionGroup.OUTPUT,
        "--strict",
        "End with 1 for warnings too.",
        "Treat warnings as findings: they end the run with status 1, and fail a test case in JUnit XML.",
    )

    def is_complete(self) -> bool:
        """The command itself counts the PATHs."""
        return True
