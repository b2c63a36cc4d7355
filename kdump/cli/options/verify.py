"""Options of ``kdump verify``."""

from __future__ import annotations

from typing import ClassVar, Final

import click

from kdump.cli.conflicts import Conflict
from kdump.cli.options.declaring import PATH, OptionGroup, argument, either, option
from kdump.cli.options.shared import (
    ColorArguments,
    JobsArguments,
    LimitArguments,
    LogArguments,
    TierArguments,
    TopicArguments,
    broker_version_option,
    output_options,
)
from kdump.cli.params import MOMENT
from kdump.format.batch import MAX_INT32

_OFFSET: Final = click.IntRange(0, 2**63 - 1)


class VerifyArguments(TierArguments, TopicArguments, LogArguments, ColorArguments, JobsArguments, LimitArguments):
    """Options of ``kdump verify``. Times are ms since 1970, sizes bytes."""

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            "--output junit",
            "--output sarif",
            "--output github",
            "--quick",
            "--max-decompressed-size",
            excludes=("--startup",),
        ),
        Conflict(
            "--tier",
            excludes=("--startup",),
            message="a broker starts on what its log directory has: --tier does not go with --startup",
        ),
    )

    paths: tuple[str, ...] = argument("PATH...", many=True, type=PATH)
    depth: str = either(
        option(
            OptionGroup.CHECK,
            "--quick",
            "Framing and checksums only, nothing is decompressed.",
            """
            Check only framing, checksums, the sequence of batches and the sibling files. Nothing is decompressed and no
            record is read. Each byte of a log is read once.
            """,
            flag_value="quick",
        ),
        option(
            OptionGroup.CHECK,
            "--deep",
            "Decode every record too (default).",
            "Also decompress and decode every record; the default.",
            flag_value="deep",
            default=True,
        ),
    )
    gaps: bool = option(
        OptionGroup.CHECK,
        "--gaps",
        "List each range of missing offsets, also where compaction left it.",
        """
        List each range of missing offsets as a finding of its own (`KD505`, between segments `KD407`), also where
        compaction left it, and however many there are. Of offsets that are missing inside of batches only the number is
        told. Where damage took offsets, its finding names them, with this option or without it.
        """,
        excludes=("--startup",),
    )
    startup: bool = option(
        OptionGroup.START,
        "--startup",
        "Predict what a broker's start will do to partition and log directories, and what it will lose.",
        """
        Instead of the checks, predict what a broker will do to partition directories and log directories when it is
        started: whether it starts, which files it truncates, deletes and rebuilds, which offsets and open transactions
        are lost, and which repair would lose less. See kdump-startup(7). The output is `text` or `jsonl`.
        """,
    )
    is_clean: bool | None = option(
        OptionGroup.START,
        "--clean/--unclean",
        "With --startup: the broker was stopped, or killed.",
        """
        Assume that the broker was stopped cleanly, or that it was killed. By default *.kafka_cleanshutdown* in the log
        directory decides.
        """,
        default=None,
        show_default="as .kafka_cleanshutdown says",
        needs=("--startup",),
    )
    recovery_point: int | None = option(
        OptionGroup.START,
        "--recovery-point N",
        "With --startup: use this instead of the checkpoint's.",
        """
        Use this recovery point instead of the one in *recovery-point-offset-checkpoint* of the log directory.
        """,
        type=_OFFSET,
        needs=("--startup",),
    )
    log_start_offset: int | None = option(
        OptionGroup.START,
        "--log-start-offset N",
        "With --startup: use this instead of the checkpoint's.",
        "Use this log start offset instead of the one in *log-start-offset-checkpoint* of the log directory.",
        type=_OFFSET,
        needs=("--startup",),
    )
    segment_index_bytes: int | None = option(
        OptionGroup.START,
        "--segment-index-bytes BYTES",
        "With --startup: the broker's segment.index.bytes.",
        "The broker's *segment.index.bytes*. Without it the metadata of the cluster tells; else it is 10485760.",
        type=click.IntRange(12, MAX_INT32),
        show_default="10485760",
        needs=("--startup",),
    )
    index_interval_bytes: int | None = option(
        OptionGroup.START,
        "--index-interval-bytes BYTES",
        "With --startup: the broker's index.interval.bytes.",
        """
        The broker's *index.interval.bytes*, of indexes that the start builds again. Without it the metadata of the
        cluster tells; else it is 4096.
        """,
        type=click.IntRange(0, MAX_INT32),
        show_default="4096",
        needs=("--startup",),
    )
    broker_version: str = broker_version_option(
        OptionGroup.START,
        "--startup",
        says="An older broker starts on some *.txnindex* that a newer one refuses, and refuses metadata that a newer "
        "one wrote. The answer names the release.",
    )
    now: int | None = option(
        OptionGroup.START,
        "--now TIME",
        "With --startup: the clock of that start.",
        """
        The time of that start, in ms since 1970, in ISO 8601, or as `-1h` (ago). By default it is the time of the last
        write, as if the broker was started right after it stopped. So the answer is the same on any day. The broker
        forgets producers that are too old at that time.
        """,
        type=MOMENT,
        show_default="when the log was written last",
        needs=("--startup",),
    )
    output: str = output_options(
        "Text: one line per finding and per damaged segment; JSON lines of findings; JUnit XML; SARIF "
        "2.1.0; annotations of GitHub Actions.",
        "`text` (the default), `jsonl`, `junit`, `sarif` or `github`; see `OUTPUT FORMATS`.",
        ["text", "jsonl", "junit", "sarif", "github"],
    )
    quiet: bool = option(
        OptionGroup.OUTPUT,
        "-q, --quiet",
        "Text: only the findings, and a last line with their number.",
        "In the output `text` only print the findings, and a last line that counts segments and findings.",
        excludes=("--startup",),
    )
    html: str | None = option(
        OptionGroup.OUTPUT,
        "--html FILE",
        "Also write a page with a map of the partitions: one file, which a browser shows without a network.",
        """
        Also write a page to *FILE*: what matters most and what to type next, then a map on which each partition is a
        row, its copies are lanes, and its segments blocks, along the offsets or in time. It shows damage, missing
        offsets, open and aborted transactions, missing indexes, and where a start would end a log; point at a mark to
        see the finding and the command for it. Partitions that are all right are one line. The page is one small file
        that a browser shows without a network. It replaces an older report, but no other file.
        """,
        type=PATH,
        excludes=("--startup",),
    )
    strict: bool = option(
        OptionGroup.OUTPUT,
        "--strict",
        "End with 1 for warnings too.",
        "Treat warnings as errors: they end the run with status 1, and fail a test case in JUnit XML.",
        excludes=("--startup",),
    )
    manifest: str | None = option(
        OptionGroup.OUTPUT,
        "--manifest FILE",
        "Also write what is there to FILE: a SHA-256 per file, offsets and digests per partition.",
        """
        Also write a manifest to *FILE*: every file with its size and SHA-256, every partition with its offsets, counts
        and leader epochs, and a digest for each range of offsets that does not depend on the boundaries of segments.
        *FILE* takes the place of an older manifest or of an empty file, but of nothing else. `sha256sum -c` reads its
        lines of files. kdump-diff(1) compares it with the same files later, or with another copy. This reads the files
        once more.
        """,
        type=PATH,
        excludes=("--startup",),
    )
