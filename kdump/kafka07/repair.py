"""The repair of logs of Kafka 0.7: they end where the recovery of a 0.7 broker ends them.

Source: docs/spec/old-kafka.md#16-recovery. A log is not salvaged: an offset is a byte position, so every offset after a
gap that is closed would be another one. In place a log is cut with a backup and a journal, as today's logs are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from kdump.codes import Codes, KdumpError
from kdump.kafka.recover import Recovery, RecoveryOutcome
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.outcome import StartFailure
from kdump.kafka07.lognames import TITLE, base_of, is_log
from kdump.kafka07.recovery import not_recovered_07, recover_07
from kdump.kafka07.start import start_07
from kdump.kafka07.verify import count_entries, is_last_log
from kdump.log.content import Content, ContentSource, sha256
from kdump.log.files import FileFingerprint
from kdump.log.opening import open_source
from kdump.repair.account import named
from kdump.repair.apply.copies import Staging, account_name
from kdump.repair.apply.disk import can_be_cut
from kdump.repair.apply.journal import Unfinished, clear_unprepared, unfinished
from kdump.repair.apply.manifest import Manifest, undo_command
from kdump.repair.apply.preparation import Preparation, check_room
from kdump.repair.plan.location import place_of
from kdump.repair.plan.plan import RepairLoss, RepairMode
from kdump.repair.plan.recovery import digested
from kdump.repair.refusals import (
    GOES_ON,
    LockHolder,
    check_place,
    refuse_backup,
    refuse_special,
    refuse_unfinished,
    refused,
)
from kdump.repair.run import RepairOptions
from kdump.system.blocks import escaped
from kdump.system.files import like_of
from kdump.system.paths import absolute_path
from kdump.wire.jsontext import json_blocks

_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RepairedLog07:
    """One log: what recovery makes of it.

    ``good_after``: how many good messages lie after the place where recovery ends. ``sha256_before`` and
    ``sha256_after``: of the whole log, and of what is kept.
    """

    path: str
    base_offset: int
    recovery: Recovery
    good_after: int
    sha256_before: str
    sha256_after: str

    @property
    def end_offset(self) -> int:
        """The offset at which the log ends before the repair."""
        return self.base_offset + self.recovery.size


@dataclass(frozen=True, slots=True)
class Repaired07:
    """What came of one partition or one log.

    ``failure``: the loader ends with an exception, and nothing is written. ``written``: where the copies are.
    ``manifest``: of a repair in place. ``unfinished``: repairs that were begun before and not finished.
    """

    target: str
    logs: tuple[RepairedLog07, ...]
    failure: StartFailure | None
    written: str | None = None
    manifest: str | None = None
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def title(self) -> str:
        """Of the world."""
        return TITLE

    @property
    def is_done(self) -> bool:
        """Something was done."""
        return self.written is not None or self.manifest is not None

    @property
    def is_damaged(self) -> bool:
        """Recovery fails or cuts something."""
        return self.failure is not None or any(log.recovery.bytes_cut for log in self.logs)

    @property
    def leaves_damage(self) -> bool:
        """Something was left undone, or no repair can do it."""
        return bool(self.unfinished) or self.failure is not None or (self.is_damaged and not self.is_done)

    def text(self) -> str:
        """What would be or was done, for people."""
        target = escaped(self.target)
        lines = [f"{escaped(log.path)}: {text}" for log in self.logs for text in self._cut(log)]
        if self.failure is not None:
            lines.append(f"{target}: the start fails: {self.failure.message} ({self.failure.java_class})")
        if not self.is_damaged:
            lines.append(f"{target}: nothing to repair")
        if self.written is not None:
            lines.append(f"{target}: repaired copy in {escaped(self.written)}")
        if self.manifest is not None:
            lines.append(f"{target}: repaired in place; {undo_command(self.manifest)} takes it back")
        lines += (f"{escaped(begun.path)}: {begun}; {GOES_ON}" for begun in self.unfinished)
        return "".join(f"{line}\n" for line in lines)

    def _cut(self, log: RepairedLog07) -> Iterator[str]:
        recovery = log.recovery
        if recovery.cut is not None:
            verb = "cut" if self.is_done else "would cut"
            good = f", {log.good_after:,} good messages among them" if log.good_after else ""
            yield (
                f"{verb} {recovery.bytes_cut:,} bytes at {recovery.end:,}: {recovery.cut.message}; "
                f"offsets {recovery.next_offset}..{log.end_offset - 1} lost{good}"
            )

    def json(self) -> str:
        """The report as a JSON object in one line, with the members of other repairs."""
        loss = None if self.failure is not None else named(asdict(self._loss()))
        members = {
            "type": "repair",
            "path": self.target,
            "way": RepairMode.LIKE_BROKER.value,
            "isDamaged": self.is_damaged,
            "isDone": self.is_done,
            "written": self.written,
            "manifest": self.manifest,
            "unfinished": [begun.path for begun in self.unfinished],
            "losses": {RepairMode.LIKE_BROKER.value: loss, RepairMode.SALVAGE.value: None},
            "left": [],
            "snapshots": [],
            "starts": None,
            "logs": self.account(),
        }
        return json.dumps(members) + "\n"

    def account(self) -> list[dict[str, Any]]:
        """One member per log, as the account of other repairs has it."""
        return [self._member(log) for log in self.logs]

    def _member(self, log: RepairedLog07) -> dict[str, Any]:
        recovery = log.recovery
        members: dict[str, Any] = {
            "path": log.path,
            "baseOffset": log.base_offset,
            "sha256Before": log.sha256_before,
            "sha256After": None if self.failure else log.sha256_after,
        }
        if recovery.failure is not None:
            kind = recovery.failure.kind
            message = recovery.failure.message
            return {**members, "failure": {"class": kind.java_class, "message": message, "emptiesSegment": False}}
        if recovery.end:
            kept = {"origin": "kept", "path": log.path, "position": 0, "length": recovery.end}
            members["pieces"] = [{**kept, "firstOffset": log.base_offset, "lastOffset": recovery.next_offset - 1}]
        if recovery.cut is not None:
            extent = {"position": recovery.end, "length": recovery.bytes_cut, "reason": recovery.cut.message}
            members["dropped"] = [{**extent, "batches": log.good_after, "records": log.good_after}]
            lost = {"firstOffset": recovery.next_offset, "lastOffset": log.end_offset - 1, "isHeld": False}
            members["lost"] = [lost]
        return members

    def _loss(self) -> RepairLoss:
        cut = [log for log in self.logs if log.recovery.cut is not None]
        good = sum(log.good_after for log in cut)
        offsets = tuple((log.recovery.next_offset, log.end_offset - 1) for log in cut)
        end = max((log.recovery.next_offset for log in self.logs), default=0)
        return RepairLoss(sum(log.recovery.bytes_cut for log in cut), good, good, offsets, 0, end)


def repaired(
    target: str, options: RepairOptions, written: set[str] | None, locks: LockHolder, *, is_whole: bool
) -> Repaired07:
    """See WorldRepair."""
    if options.mode not in (None, RepairMode.LIKE_BROKER):
        raise refused("logs of Kafka 0.7 are repaired with --like-broker", target)
    if options.in_place:
        found = _in_place(target, options, locks, is_whole=is_whole)
    else:
        found = _planned(target, is_whole=is_whole, output=options.output, written=written)
    directory = target if is_whole else os.path.dirname(target)
    return replace(found, unfinished=tuple(unfinished(absolute_path(directory))))


def _planned(target: str, *, is_whole: bool, output: str | None = None, written: set[str] | None = None) -> Repaired07:
    """Plan what recovery makes of it; with ``output`` write it there."""
    directory = Directory.on_disk(target) if is_whole else _one_file(target)
    fingerprints = {name: FileFingerprint.of(os.path.join(directory.path, name)) for name in directory.before}
    failure = start_07(directory, is_clean=False).failure if is_whole else None
    logs = tuple(
        _log(directory, name, is_whole=is_whole) for name in sorted(directory.before) if _counts(name, is_whole)
    )
    if failure is None and not is_whole and logs[0].recovery.failure is not None:
        failed = logs[0].recovery.failure
        failure = StartFailure(failed.kind.java_class, failed.message)
    found = Repaired07(target, logs, failure)
    if output is None or failure is not None:
        return found
    if not is_whole:
        directory.resize(os.path.basename(target), logs[0].recovery.end)
    return _written(found, directory, fingerprints, output, is_whole=is_whole, written=written)


def _in_place(target: str, options: RepairOptions, locks: LockHolder, *, is_whole: bool) -> Repaired07:
    """Cut the last log of a partition, or one log. What is cut is kept in a backup."""
    place = place_of(target if is_whole else os.path.dirname(target))
    refuse_special([entry.path for entry in os.scandir(place.directory) if is_log(entry.name)])
    refuse_special([target])
    check_place(place, is_forced=options.force)
    refuse_backup(place, options.backup)
    locks.take_lock(place)
    refuse_unfinished(place.directory)
    clear_unprepared(place.directory, options.backup)
    found = _planned(target, is_whole=is_whole)
    cut = next((log for log in found.logs if log.recovery.cut is not None), None)
    if found.failure is not None or cut is None:
        return found
    if cut.good_after and options.mode is None:
        raise refused(
            f"good data lie after the damage ({cut.good_after:,} messages); --like-broker cuts them off", cut.path
        )
    if not can_be_cut(cut.path):
        message = "may not be written, or has another name, which would lose its end too (a hard link); use -o"
        raise refused(message, cut.path)
    check_room(options.backup or place.directory, cut.recovery.bytes_cut)
    with Preparation(place.directory, options.backup) as preparation:
        try:
            manifest = _cut(cut, found, preparation)
        except BaseException:
            preparation.discard()
            raise
        path = preparation.finish(manifest, f"the repair was begun: {GOES_ON}")
    return replace(found, manifest=path)


def _cut(cut: RepairedLog07, found: Repaired07, preparation: Preparation) -> Manifest:
    """Prepare the repair: the end of the log in the backup, and the steps in the journal."""
    name = os.path.basename(cut.path)
    with open_source(cut.path) as source:
        digests = digested(source, cut.recovery)
    if digests.whole != cut.sha256_before:
        raise KdumpError(Codes.CHANGED_WHILE_READ, Codes.CHANGED_WHILE_READ.value.title, path=cut.path)
    preparation.save_tail(name, cut.recovery.end, digests)
    preparation.cut(name)
    preparation.sync()
    known = {os.path.basename(log.path): log.sha256_before for log in found.logs}
    return preparation.begin(RepairMode.LIKE_BROKER.value, found.account(), known)


def _counts(name: str, is_whole: bool) -> bool:
    return is_log(name) or not is_whole


def _one_file(path: str) -> Directory:
    with open_source(path) as source:
        content = Content.of_file(path, source.size or 0)
    return Directory(os.path.dirname(path), {os.path.basename(path): content})


def _log(directory: Directory, name: str, *, is_whole: bool) -> RepairedLog07:
    path = os.path.join(directory.path, name)
    content = directory.before[name]
    base_offset = base_of(name)
    with ContentSource(path, content) as source:
        is_last = is_last_log(path, directory.before if is_whole else None)
        recovery = recover_07(source, base_offset) if is_last else not_recovered_07(base_offset, content.size)
        good_after = count_entries(source, recovery.end)[1] if recovery.outcome is RecoveryOutcome.TRUNCATED else 0
    after = sha256(content.resized(recovery.end))
    return RepairedLog07(path, base_offset, recovery, good_after, sha256(content), after)


def _written(
    found: Repaired07,
    directory: Directory,
    fingerprints: dict[str, FileFingerprint],
    output: str,
    *,
    is_whole: bool,
    written: set[str] | None,
) -> Repaired07:
    names = [name for name in directory.names() if _counts(name, is_whole)]
    check_room(output, sum(directory[name].size for name in names))
    target_name = os.path.basename(absolute_path(found.target))
    account = {"way": RepairMode.LIKE_BROKER.value, "source": found.target, "logs": found.account()}
    data = json_blocks(account, indent=1)
    with Staging(output, directory.path, written=written) as staging:
        staging.refuse_existing([target_name, account_name(target_name)])
        for name in names:
            _copy(staging, directory, name)
        for name, fingerprint in fingerprints.items():
            fingerprint.check(os.path.join(directory.path, name))
        if is_whole:
            staging.commit_directory(target_name, account_name(target_name), data)
        else:
            staging.commit_files(account_name(target_name), data)
    return Repaired07(found.target, found.logs, None, os.path.join(output, target_name if is_whole else ""))


def _copy(staging: Staging, directory: Directory, name: str) -> None:
    content = directory[name]
    status = like_of(os.path.join(directory.path, name)) if name in directory.before else None
    with staging.file(name, status) as copy, ContentSource(name, content) as source:
        for position in range(0, content.size, _BLOCK):
            copy.write(source.read(position, min(_BLOCK, content.size - position)))
        copy.finish(modified=None if status is None else status.st_mtime_ns)
