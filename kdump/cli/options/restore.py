"""Options of ``kdump restore``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from kdump.cli.conflicts import EVERYWHERE, Conflict
from kdump.cli.options.convert import ConversionArguments
from kdump.cli.options.declaring import PATH, OptionGroup, argument, option
from kdump.cli.options.shared import broker_version_option, output_options
from kdump.cli.params import OpenTransactionsParam
from kdump.log.files import strip_credentials
from kdump.log.named import reads_once
from kdump.log.names import is_uri
from kdump.worlds import world_of_store


class RestoreArguments(ConversionArguments):
    """Options of ``kdump restore``."""

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(excludes=("an empty path",), message="a path is empty"),
        Conflict("no -o", only=EVERYWHERE | {"paths", "output", "dry_run"}, message="{other} goes with -o LOGDIR"),
        Conflict("-o", excludes=("--output commands", "a stream", "-o -")),
        Conflict("-o", excludes=("LOGDIR is a URI",), message="{other} is a URI: kdump writes to this machine only"),
        Conflict("-o", needs=("--topic", "--from-log-dir", "a bucket")),
        Conflict("no -o", excludes=("a bucket",), message="a bucket goes with -o LOGDIR"),
    )

    paths: tuple[str, ...] = argument("PATH...", many=True, type=PATH)
    open_transactions: str | None = option(
        OptionGroup.CHOICE,
        "--open-transactions",
        "Transactions without an end marker: keep them, or end them, all or by producer id (2=commit,7=abort); "
        "refuse: write nothing.",
        """
        What to do with transactions that are open at the end of a log. `abort` or `commit` adds a marker for each of
        them, `keep` adds none, `refuse` writes nothing and ends with 1. Without the option the log of its coordinator
        decides about each of them where it lies in the log directory of *PATH*, see `PRODUCERS AND TRANSACTIONS`; the
        others are kept. *PRODUCER*`=`*keep|abort|commit* with a producer id, several with commas, decides about single
        ones.
        """,
        type=OpenTransactionsParam(["refuse", "keep", "abort", "commit"]),
        show_default="what their coordinator's log beside PATH says, else keep",
    )
    dry_run: bool = option(
        OptionGroup.WRITE,
        "--dry-run",
        "Print the plan and change nothing, as without -o: the default.",
        "Print the plan and change nothing. This is the default, as long as you do not give `-o`.",
        excludes=("-o",),
        message="--dry-run is the default: kdump prints the plan and changes nothing, as long as {other} is not given",
    )
    destination: str | None = option(
        OptionGroup.WRITE,
        "-o LOGDIR",
        "The log directory of a stopped broker: make partition directories in it that the broker takes as its own.",
        type=PATH,
    )
    topic: str | None = option(
        OptionGroup.BROKER,
        "--topic NAME",
        "The topic that PATH becomes.",
    )
    topic_id: str | None = option(
        OptionGroup.BROKER,
        "--topic-id ID",
        "The id of the topic, 22 characters.",
        """
        The id of this topic in the target cluster, 22 characters, as *kafka-topics.sh --describe* shows it. Not needed
        with --metadata.
        """,
    )
    partition: int | None = option(
        OptionGroup.BROKER,
        "--partition N",
        "The partition.",
        "The partition that *PATH* becomes. The default is the number in the name of *PATH*, or 0.",
        type=click.IntRange(0, 2**31 - 1),
        show_default="by the name of PATH, else 0",
        excludes=("several PATHs",),
    )
    metadata: str | None = option(
        OptionGroup.BROKER,
        "--metadata DIR",
        "__cluster_metadata-0 of the target cluster, for ids, leader epochs and limits.",
        """
        The metadata of the target cluster: a *__cluster_metadata-0* directory, or a log directory that holds one. Topic
        ids, leader epochs, replicas and limits come from there.
        """,
        type=PATH,
    )
    from_log_dir: str | None = option(
        OptionGroup.BROKER,
        "--from-log-dir DIR",
        "All partitions of a log directory that the target cluster has a place for.",
        """
        Restore all partitions of a log directory that the target cluster has a place for in *LOGDIR*. A directory that
        a broker has put aside (*-stray*) counts if the partition has no other one. One that a broker had not finished
        (*-future*) is only listed, if it is all that is left. Topics in which brokers keep their own state
        (*__transaction_state*, *__share_group_state*, *__remote_log_metadata*) are left out with a note, unless the
        target has the topic with the same id; see `WHAT BROKERS KEEP FOR THEMSELVES`. Needs --metadata.
        """,
        type=PATH,
        needs=("--metadata",),
        excludes=("a PATH", "--topic", "--topic-id", "--partition"),
    )
    broker_version: str = broker_version_option(
        OptionGroup.BROKER, says="A partition is put in place only where such a broker starts on it."
    )
    link: str | None = option(
        OptionGroup.BROKER,
        "--link",
        "Logs that need not change get a second name, or share their blocks.",
        """
        Do not copy logs that need not change. `hard` gives a log a second name in the target; the last log of a
        partition is copied, because a broker writes to it. Source and target share these files: if the partition is
        truncated later, the source changes too. `reflink` makes a copy that shares its blocks with the source. A log is
        copied where the file system cannot do it, and with `hard` where its owner or mode is not that of the files in
        the target; the result says how many logs, and why.
        """,
        type=("hard", "reflink"),
    )
    forget_producers: bool = option(
        OptionGroup.BROKER,
        "--forget-producers",
        "The broker knows no producer of the log.",
        """
        Let the broker know no producer of the log, except those of open transactions. A new cluster may give out the
        producer ids that the log has; the broker then refuses batches of the new producers, or takes them for
        repetitions.
        """,
    )
    backup_dir: str | None = option(
        OptionGroup.BROKER,
        "--backup-dir DIR",
        "Where what is replaced goes.",
        """
        Where what is replaced goes. The default is *PARTITION/.kdump/<time>/old* in the target. A directory in the
        source is refused.
        """,
        type=PATH,
        show_default="PARTITION/.kdump",
    )
    force: bool = option(
        OptionGroup.BROKER,
        "--force",
        "Proceed even if kdump cannot tell whether a broker is running.",
        "Go on even if it is unknown whether a broker runs, as on a network file system.",
    )
    output: str = output_options(
        "Text for people, or one JSON object per partition; without -o also the commands to run.",
        "`text` (the default) or `jsonl`; without `-o` also `commands`: a script for the new cluster.",
        ["text", "jsonl", "commands"],
    )

    def is_complete(self) -> bool:
        """There is a source."""
        return bool(self.paths) or self.from_log_dir is not None

    def facts(self) -> Mapping[str, str | bool | None]:
        """What the PATHs and LOGDIR are."""
        return {
            "an empty path": "" in (*self.paths, self.destination),
            "no -o": self.destination is None,
            "a PATH": bool(self.paths),
            "several PATHs": len(self.paths) > 1,
            "LOGDIR is a URI": self.destination if is_uri(self.destination or "") else None,
            "a bucket": any(world_of_store(strip_credentials(path)) is not None for path in self.paths),
            "a stream": next(filter(reads_once, self.paths), None),
        }
