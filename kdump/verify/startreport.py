"""What a broker's start makes of partition directories: text for people, and rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kdump.format.checkpoint import CLEAN_SHUTDOWN, PARTITION_METADATA
from kdump.kafka.startup.directory import FileAction
from kdump.kafka.startup.fate import Fate, FolderFate
from kdump.kafka.startup.outcome import OpenTransaction, StartOutcome
from kdump.log import files
from kdump.log.names import parse_partition_directory
from kdump.releases import NEWEST, Release
from kdump.rows.columns import Row
from kdump.system.blocks import escaped
from kdump.system.units import listed, time_text
from kdump.verify.startcheck import LogDirectoryCheck, LossReason, Obstacle, StartCheck, StartedFile
from kdump.verify.startups import Item

_FEW: Final = 5
"""So many names are listed; of more only their number is shown."""

_REASONS: Final = {
    LossReason.CUT: "after the first damage of a segment",
    LossReason.BEHIND_CUT: "in segments after one that is cut",
    LossReason.EMPTIED: "in a segment that is emptied, because its index would go backwards",
    LossReason.LOG_START: "the log ends before its log start offset",
    LossReason.REPLACED: "in the place of a .swap file",
    LossReason.HIDDEN: "left in the last segment, where its .index does not lead; new batches get the same offsets",
}


_NOTHING_SERVED: Final[Row] = {
    "logStartOffset": None,
    "recoveryPoint": None,
    "logEndOffset": None,
    "segments": [],
    "files": [],
    "deletedLater": [],
    "lost": [],
}
"""The members of a start that serves no log."""


def startup_row(item: Item, known: FolderFate | None = None, release: Release = NEWEST) -> Row | None:
    """The row of a partition, or of what stops a log directory or the broker. A log directory itself has none.

    What is not known is null: offsets of a partition that does not start, and all of one that a broker keeps changing.
    ``known``: what becomes of the directory by the metadata of the cluster. ``release``: of the broker.
    """
    broker: str | None = release.name
    outcome = exception = fate = None
    members = _NOTHING_SERVED
    match item:
        case LogDirectoryCheck():
            return None
        case Obstacle():
            outcome, exception = item.outcome, item.java_class
        case StartCheck():
            outcome, failure, members = item.start.outcome, item.start.failure, _check_members(item)
            broker = None if item.world else item.settings.release.name
            exception = None if failure is None else failure.java_class
            fate = None if known is None or failure is not None else known.fate
    name = parse_partition_directory(os.path.basename(files.absolute(item.path)))
    place = {"file": item.path, "topic": name and name[0], "partition": name and name[1]}
    head = {"type": "startup", **place, "outcome": outcome, "exception": exception, "brokerVersion": broker}
    return {**head, **members, "fate": fate}


def _check_members(check: StartCheck) -> Row:
    """The members ``alreadyLost`` and ``swapped`` are there only where they say something."""
    served = check.start.served
    already_lost = [
        {"firstOffset": lost.first_offset, "lastOffset": lost.last_offset, "knownFrom": lost.witnesses}
        for lost in check.already_lost
    ]
    return {
        "logStartOffset": served and served.log_start_offset,
        "recoveryPoint": served and served.recovery_point,
        "logEndOffset": served and served.end_offset,
        "segments": [] if served is None else served.segments,
        "files": [
            {"name": file.name, "action": file.action, "size": file.size, "sha256": file.sha256} for file in check.files
        ],
        "deletedLater": check.start.deleted_later,
        "lost": lost_members(check),
        **({"alreadyLost": already_lost} if already_lost else {}),
        **({"swapped": check.swapped} if check.swapped else {}),
    }


def lost_members(check: StartCheck) -> list[dict[str, Any]]:
    """What a start loses, as members of a JSON array."""
    return [
        {
            "firstOffset": lost.first_offset,
            "lastOffset": lost.last_offset,
            "records": lost.records,
            "reason": lost.reason.value,
        }
        for lost in check.lost
    ]


def startup_text(check: StartCheck, *, is_brief: bool) -> str:
    """Lines for people: whether it starts, what becomes of the files, what is lost.

    Args:
        check: the start.
        is_brief: if nothing is lost, leave out new and rebuilt files and open transactions.
    """
    path = escaped(check.path)
    lines = [*_lines(check), *_details(check, is_brief=is_brief and check.is_harmless)]
    return "".join(f"{path}: {escaped(line)}\n" for line in lines)


def has_topic_id(check: StartCheck) -> bool:
    """Whether there is a partition.metadata after the start."""
    return any(file.name == PARTITION_METADATA and file.size is not None for file in check.files)


def fate_text(path: str, known: FolderFate | None) -> str:
    """What becomes of a directory that is not served, in one line; '' for one that is, and where nothing is known."""
    if known is None or known.fate is Fate.SERVED or (known.fate is None and not known.why):
        return ""
    words = {
        Fate.STRAY: "becomes a stray",
        Fate.DELETE: "is deleted",
        Fate.FUTURE: "is a future log",
        None: "fate unknown",
    }
    return f"{escaped(path)}: {words[known.fate]}: {escaped(known.why)}\n"


def stray_text(path: str, partitions: Sequence[str]) -> str:
    """What becomes of partition directories without partition.metadata, in one line; '' if there are none.

    Args:
        path: the partition directory, or the log directory that they are in.
        partitions: the paths of those directories.
    """
    if not partitions:
        return ""
    missing = f"{escaped(path)}: there is no {PARTITION_METADATA}"
    if len(partitions) > 1:
        names = listed([os.path.basename(files.absolute(one)) for one in partitions], _FEW)
        missing += f" in {len(partitions):,} partitions ({escaped(names)})"
        return f"{missing}: Kafka 4 takes the directories for stray ones and does not serve them\n"
    inside = "" if partitions[0] == path else f" in {escaped(os.path.basename(files.absolute(partitions[0])))}"
    return f"{missing}{inside}: Kafka 4 takes the directory for a stray one and does not serve it\n"


def _lines(check: StartCheck) -> Iterator[str]:
    start, settings = check.start, check.settings
    kind = "clean" if settings.is_clean else "unclean"
    broker = "" if check.world else f"Kafka {settings.release.name}"
    if start.failure is not None:
        what = f"{kind} stop{broker and f', {broker}'}"
        java_class = start.failure.java_class or "without an end"
        yield f"does not start ({what}): {start.failure.message} ({java_class})"
        yield _CONSEQUENCES[start.outcome]
    if (served := start.served) is not None:
        ends = "log end offset "
        if check.end_before != served.end_offset:
            ends += f"{check.end_before} -> "
        ends += str(served.end_offset)
        harmless = ""
        if check.is_harmless:
            harmless = ", nothing more is lost" if check.already_lost else ", nothing is lost"
        scanned = f"{check.bytes_read:,} bytes scanned{broker and f' by {broker}'}"
        yield f"starts after {_ARTICLES[kind]} stop; {ends}{harmless}; {scanned}"
    if settings.tiered_by is not None:
        yield f"tiered, as {settings.tiered_by} says: its log start offset may be in remote storage"
    for one, other in check.swapped:
        yield f"swapped: the contents of {one} and {other} are exchanged; give each the other's name before the start"
    for gone in check.already_lost:
        yield f"already lost: {gone}"
    for lost in check.lost:
        records = "1 record" if lost.records == 1 else f"{lost.records:,} records"
        yield f"lost: offsets {lost.first_offset}..{lost.last_offset}, {records}, {_REASONS[lost.reason]}"
    for transaction in check.forgotten:
        yield f"forgotten: {_transaction(check, transaction)}; readers with read_committed get its records"


def _details(check: StartCheck, *, is_brief: bool) -> Iterator[str]:
    if check.start.served is not None and not is_brief:
        for transaction in check.start.served.open_transactions:
            yield f"left open: {_transaction(check, transaction)}"
    for file in check.files:
        if file.action is FileAction.CUT:
            yield f"cut: {file.name}, from {file.size_before:,} to {file.size:,} bytes"
    later = set(check.start.deleted_later)
    for title, names in (
        ("rebuilt", [] if is_brief else _names(check.files, FileAction.REBUILT)),
        ("created", [] if is_brief else _names(check.files, FileAction.CREATED)),
        ("deleted", _names(check.files, FileAction.DELETED)),
        ("renamed", [name for name in _names(check.files, FileAction.RENAMED) if name not in later]),
        ("deleted after 60 s", sorted(later)),
    ):
        if names:
            yield f"{title}: {listed(names, _FEW)}"


_ARTICLES: Final = {"clean": "a clean", "unclean": "an unclean"}
_CONSEQUENCES: Final = {
    StartOutcome.DIR_OFFLINE: "its log directory goes offline; the broker runs on if it has another one, else it stops",
    StartOutcome.BROKER_STOPS: "the whole broker stops",
}


def log_directory_text(check: LogDirectoryCheck) -> str:
    """What becomes of a log directory, in one line or two; the last one says what clients get."""
    path = escaped(check.path)
    text = f"{path}: {check.partitions:,} partitions, {'clean' if check.is_clean else 'unclean'}: "
    outcome = check.outcome
    exceptions = [
        f"{count:,} {one if count == 1 else several}"
        for count, one, several in (
            (check.unread, "cannot be read", "cannot be read"),
            (check.strays, "becomes a stray and is not served", "become strays and are not served"),
            (
                check.misnamed,
                "has the id of another topic and is not served",
                "have the id of another topic and are not served",
            ),
        )
        if count
    ]
    if outcome is StartOutcome.STARTS:
        return text + ", ".join([*exceptions, "the others start"] if exceptions else ["all start"]) + "\n"
    paths = [*(failed.path for failed in check.failed), *(obstacle.path for obstacle in check.obstacles)]
    failed = [os.path.basename(files.absolute(one)) for one in paths]
    text += "; ".join([f"{_CONSEQUENCES[outcome]}, because of {escaped(listed(failed, _FEW))}", *exceptions]) + "\n"
    if check.world:
        text += (
            f"{path}: a broker of {check.world} leaves {CLEAN_SHUTDOWN} after that: its next start recovers nothing\n"
        )
    elif check.is_clean:
        when = "the whole broker stops" if outcome is StartOutcome.BROKER_STOPS else "the log directory goes offline"
        text += f"{path}: {CLEAN_SHUTDOWN} is gone when {when}: the start after this one is an unclean one\n"
    return text


def obstacle_text(obstacle: Obstacle) -> str:
    """What stops the directory or the broker, in one line."""
    what = (
        "the whole broker stops" if obstacle.outcome is StartOutcome.BROKER_STOPS else "the log directory goes offline"
    )
    exception = "" if obstacle.java_class is None else f" ({obstacle.java_class})"
    return f"{escaped(obstacle.path)}: {what}: {escaped(obstacle.message)}{exception}\n"


def _transaction(check: StartCheck, transaction: OpenTransaction) -> str:
    text = f"the transaction of producer {transaction.producer_id}, open since offset {transaction.first_offset}"
    begun = check.begun.get(transaction.first_offset)
    if begun is not None and begun.timestamp is not None:
        text += f"; it began at {time_text(begun.timestamp)} UTC"
    if begun is not None and begun.transactional_id is not None:
        text += f"; transactional id '{begun.transactional_id}'"
    return text


def _names(states: Iterable[StartedFile], action: FileAction) -> list[str]:
    return [file.name for file in states if file.action is action]
