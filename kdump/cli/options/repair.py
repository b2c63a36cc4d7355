"""Options of ``kdump repair``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar, Final

import click

from kdump.cli.conflicts import EVERYWHERE, Conflict, each_other
from kdump.cli.options.declaring import PATH, OptionGroup, argument, option
from kdump.cli.options.shared import (
    LogArguments,
    ReadingArguments,
    TopicArguments,
    broker_version_option,
    output_options,
)
from kdump.codes import KdumpError
from kdump.kafka.segmentindexes import DEFAULT_INDEX_INTERVAL
from kdump.log.files import strip_credentials
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.worlds import world_of_store

SALVAGE_OPTIONS: Final = ("--deep", "--hold-offsets", "--no-hold-offsets", "--txn", "--correct", "--from")


class RepairArguments(TopicArguments, LogArguments, ReadingArguments):
    """Options of ``kdump repair``."""

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *each_other("--like-broker", "--salvage", "--indexes"),
        Conflict(
            excludes=("a bucket",),
            message="{other} is a bucket, which is only read: repair what kdump convert {other} -o DIR takes out of it",
        ),
        Conflict(excludes=("an empty path",), message="a path is empty"),
        Conflict(
            excludes=("-o names a format",),
            message="-o names a directory; --output {other} prints the plan in that format",
        ),
        Conflict(
            "--undo",
            only=EVERYWHERE | {"replace_changed", "backup_dir", "force", "output"},
            message="--undo goes with nothing else but --replace-changed, --backup-dir and --force",
        ),
        Conflict(
            "--finish",
            only=EVERYWHERE | {"paths", "backup_dir", "force", "output"},
            message="--finish goes with nothing else but --backup-dir, --force and --output",
        ),
        Conflict(*SALVAGE_OPTIONS, excludes=("--like-broker", "--indexes"), message="{option} goes with --salvage"),
    )

    paths: tuple[str, ...] = argument("PATH...", many=True, type=PATH)
    like_broker: bool = option(
        OptionGroup.MODE,
        "--like-broker",
        "End the log where a broker's recovery cuts it; the default.",
    )
    salvage: bool = option(
        OptionGroup.MODE,
        "--salvage",
        "Keep every good batch, also after damage.",
    )
    indexes: bool = option(
        OptionGroup.MODE,
        "--indexes",
        "Rebuild index files and snapshots of good logs, nothing else.",
        """
        Rebuild the index files of good logs, as recovery builds them, and the producer snapshots in which
        kdump-verify(1) finds errors. Any number of segments can be given. A damaged log is refused.
        """,
    )
    deep: bool = option(
        OptionGroup.SALVAGE,
        "--deep",
        "With --salvage: also drop batches whose records do not decode.",
        "Also drop batches whose checksum holds but whose records do not decode.",
    )
    hold_offsets: bool | None = option(
        OptionGroup.SALVAGE,
        "--hold-offsets/--no-hold-offsets",
        "With --salvage: put empty batches over lost offsets, so that none is given out again (default).",
        """
        Put empty batches, as the log cleaner leaves them, over the lost offsets, also at the end of the log; the
        default. Without them a broker gives the lost offsets at the end of the log to new records, and followers are
        truncated. So it is in logs of magic 0 and 1, which know no empty batches: there nothing covers the lost
        offsets.
        """,
        default=None,
    )
    txn: str | None = option(
        OptionGroup.SALVAGE,
        "--txn",
        "With --salvage: what becomes of transactions whose end is lost.",
        """
        What to do with a transaction that touches a gap and whose end nothing proves; see `LOST MARKERS`: `abort` puts
        a marker into the gap that aborts it, `commit` puts a marker there that commits it, `drop` drops its batches, or
        leaves it as it is where it began in an earlier segment, `leave` leaves it as it is. After `leave` readers with
        read_committed take the next marker of its producer as its end; without such a marker they wait. A repair in
        place has no default: it names such a transaction and is refused. With `-o` the default is `leave`; if readers
        would then take a later marker as the end of the transaction, the exit status is 1.
        """,
        type=click.Choice([policy.value for policy in TxnPolicy]),
        show_default="leave; in place: none",
    )
    correct: bool = option(
        OptionGroup.SALVAGE,
        "--correct",
        "With --salvage: flip a bit back where that explains a wrong CRC.",
        """
        Flip one bit back if exactly one bit explains a wrong checksum and the records decode with it. This is the only
        way to repair the log of the metadata (*__cluster_metadata*), alone or with --salvage: the checksums must prove
        every byte of it, else all of it is refused. Salvage examines at most 65,536 damaged batches of a log, and one
        more for each KiB of the log.
        """,
    )
    replicas: tuple[str, ...] = option(
        OptionGroup.SALVAGE,
        "--from REPLICA_DIR",
        "With --salvage: take what is missing from another copy; of several, the first that has it gives it.",
        """
        Take missing data from another copy of the partition: *REPLICA_DIR* is its directory, or a log directory that
        holds a partition of the same name. The option may be repeated; the first copy that has the batches supplies
        them.

        - Whole segments are restored too, even if no *.log* of the partition is left: those between the log start and
        the end of the log. The log start is the one in *log-start-offset-checkpoint*. It is that of the copy if the
        copy's is later, or if the checkpoint does not name the partition. Snapshots and the checkpoints of the log
        directory tell the end; otherwise the end of the copy is taken, and the plan says so. A segment keeps its own
        name if index files of it are left; otherwise it gets the name of the copy's segment. Offsets that the copy
        never had, such as those that the log cleaner removed, do not count as lost.

        - kdump trusts a copy if, on both sides of the gap, the nearest batches that both logs have are the same, and if
        leader epochs agree with those batches and with *leader-epoch-checkpoint*. If the two logs share no batch, that
        checkpoint must tell the leader epochs of the gap. What kdump does not trust it names with the reason, and
        counts as lost. It never trusts a copy with another topic id in *partition.metadata*. The manifest tells where
        everything came from.
        """,
        type=PATH,
        multiple=True,
    )
    dry_run: bool = option(
        OptionGroup.WRITE,
        "--dry-run",
        "Print the plan and change nothing, as without -o and --in-place: the default.",
        "Print the plan and change nothing. This is the default, as long as you do not give `-o` or --in-place.",
        excludes=("-o", "--in-place", "--undo", "--finish"),
        message="--dry-run is the default: kdump prints the plan and changes nothing, as long as {other} is not given",
    )
    destination: str | None = option(
        OptionGroup.WRITE,
        "-o, --output-dir DIR",
        "Write repaired copies there.",
        """
        Write repaired copies to *DIR*, which is created if it is missing. For a segment these are *NAME.log* and its
        index files; for a partition directory, a directory of the same name with every file that belongs to it. The
        copies are written even if nothing is cut. They appear all at once when they are complete. Until then they are
        in a hidden directory *DIR/.kdump-PROCESS-TIME*. Only a run that is killed leaves this directory; remove it
        then. Directories that kdump makes let nobody in who may not enter the directory of the original. If an output
        file exists already, the exit status is 1 and nothing is written. Beside the copies, *kdump-NAME.json* tells
        where each byte came from and what was removed. *DIR* must not be in a broker's log directory.
        """,
        type=PATH,
        excludes=("--in-place",),
        message="{option} and {other} exclude each other",
    )
    in_place: bool = option(
        OptionGroup.WRITE,
        "--in-place",
        "Repair the files themselves; what is removed is kept in a backup.",
        "Repair the files themselves; see `IN PLACE`.",
    )
    manifest: str | None = option(
        OptionGroup.WRITE,
        "--undo MANIFEST",
        "Undo the repair in place that wrote this manifest.",
        """
        Undo the repair in place that wrote this manifest, and prove by SHA-256 that every file of the repair is as it
        was before. See `UNDO`.
        """,
        type=PATH,
    )
    finish: bool = option(
        OptionGroup.WRITE,
        "--finish",
        "Finish the repairs in place, and the undoing, that were interrupted.",
        """
        Finish interrupted repairs in place, and interrupted undos, in the partition directories *PATH* or in all
        partitions of the log directories *PATH*. See `MANIFESTS`.
        """,
    )
    overwrite: bool = option(
        OptionGroup.WRITE,
        "--overwrite",
        "With -o: replace files that exist; without it they are refused.",
        "With `-o`: replace files that exist. A directory is never replaced.",
        needs=("-o",),
    )
    output: str = output_options(
        "Text for people, or one JSON object per partition.",
        """
        `text` (the default), or `jsonl`: a JSON object in one line for each partition or segment, with the members type
        (`repair`), path, way, isDamaged, isDone, written, manifest, unfinished (manifests of earlier repairs that were
        begun and not finished), losses (the cost of each mode), snapshots (those that do not fit the log: path, action
        "`rebuild`" or "`remove`", code and message), starts (for a partition directory, else null: outcome, exception,
        logEndOffset and lost of the broker's next start "*without*" and "*with*" the repair, as in kdump-startup(7);
        marker: "`kept`" or "`removed`" if there is a *.kafka_cleanshutdown*; worse: the partitions whose start ends
        worse, with path, "*without*" and "*with*"), left (path, code and message of each text file that no repair
        changes) and logs (what is kept, dropped, lost, restored and made of each log, as in the manifest). In logs,
        sha256Before is null for a log that was missing, endFrom names the log of the copy whose end was taken, and
        notTaken lists what kdump did not trust in copies. With --finish there is an object for each partition with the
        members type (`finished`), path and manifests.
        """,
        ["text", "jsonl"],
    )
    first_segment: bool = option(
        OptionGroup.KNOWN,
        "--first-segment",
        "The segment is the first of its log: no producer is known before.",
        "The segment is the first one of its log: at its beginning there is no producer and no transaction.",
    )
    index_interval_bytes: int = option(
        OptionGroup.KNOWN,
        "--index-interval-bytes BYTES",
        "The broker's index.interval.bytes.",
        "The broker's *index.interval.bytes*; the default is 4096.",
        type=click.IntRange(0, 2**31 - 1),
        default=DEFAULT_INDEX_INTERVAL,
    )
    broker_version: str = broker_version_option(
        OptionGroup.KNOWN, says="The starts that a plan predicts are of this release."
    )
    backup_dir: str | None = option(
        OptionGroup.IN_PLACE,
        "--backup-dir DIR",
        "Where --in-place keeps the originals, or --finish and --undo find them.",
        """
        Where to keep the originals; the default is *.kdump* in the partition directory. If the disk is full, name a
        directory on another disk. It must not be among the partitions of a broker's log directory. --finish and --undo
        need the same *DIR* if the backup is not in the partition directory: they do not trust the manifest to tell
        where the backup is. The backup there must be that of the partition and of this repair, so a partition that has
        another name now is refused.
        """,
        type=PATH,
        show_default="PARTITION/.kdump",
        needs=("--in-place", "--finish", "--undo"),
        message="--backup-dir and --force go with --in-place",
    )
    allow_worse_start: bool = option(
        OptionGroup.IN_PLACE,
        "--allow-worse-start",
        "With --in-place: repair even if the next start ends worse.",
        """
        Repair even if the next start of the broker ends worse after the repair than without it, for this partition or
        for another one of the log directory.
        """,
        needs=("--in-place",),
    )
    replace_changed: bool = option(
        OptionGroup.IN_PLACE,
        "--replace-changed",
        "With --undo: put back logs that were written to since, too; what they hold now is kept in the backup.",
        """
        Also put back logs that were written to since the repair, and remove segments that were created since. Their
        present contents are kept in the backup.
        """,
        needs=("--undo",),
    )
    force: bool = option(
        OptionGroup.IN_PLACE,
        "--force",
        "Proceed even if kdump cannot tell whether a broker is running.",
        """
        Proceed even if the file system (NFS, CIFS, FUSE) does not tell whether a broker on another machine holds the
        lock.
        """,
        needs=("--in-place", "--finish", "--undo"),
        message="--backup-dir and --force go with --in-place",
    )

    def is_complete(self) -> bool:
        """There is something to repair, or to undo."""
        return bool(self.paths) or self.manifest is not None

    def facts(self) -> Mapping[str, str | bool | None]:
        """What the PATHs are."""
        destination = self.destination
        named = (destination, self.manifest, self.backup_dir, *self.replicas, *self.paths)
        is_format = destination in ("jsonl", "json", "text") and not os.path.isdir(destination)
        return {
            "an empty path": "" in named,
            "-o names a format": is_format and destination,
            "a bucket": next(filter(_is_bucket, self.paths), None),
        }


def _is_bucket(path: str) -> bool:
    try:
        return world_of_store(strip_credentials(path)) is not None
    except KdumpError:
        # Whoever opens it tells why it cannot be read.
        return False
