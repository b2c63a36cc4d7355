"""``python -m tests.fuzz.faults``: commands on disks that fail or get full, and killed, at each of their system calls.

A point is a case (a command on a directory that is made for it), the number of a system call that changes the file
system, and what happens there. After a command that writes elsewhere the evidence is as it was, and its output is all
there or not at all. After a repair in place nothing is lost: it is finished, to what an undisturbed one gives, or
undone, to what was there, both also when that fails or is killed in its turn.

``--case``, ``--trouble`` and ``--number`` choose points; ``--sample N`` takes so many of them by ``--seed``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from kdump.log.names import METADATA_DIRECTORY
from tests.fuzz.__main__ import load_everything
from tests.fuzz.case import Fault
from tests.fuzz.forked import Done, run
from tests.fuzz.running import Ran, allow_timers, run_command
from tests.fuzz.trees import Node, Nodes, empty, nodes_of, restore
from tests.harness import killedrepairs
from tests.harness.archives import unpack_cases
from tests.harness.killing import Point, Trouble

_LOGS: Final = "logs"
_OUT: Final = "out"
_BACKUP: Final = "backup"
_PARTITION: Final = f"{_LOGS}/v2-txn-0"
_UNREADABLE: Final = 3
_REMOVING: Final = frozenset({"unlink", "remove", "rmdir"})
_HIDDEN: Final = re.compile(r"(?:^|/)(?:\.[^/]*\.kdump-part$|\.kdump-\d+-\d+(?:/|$))")
"""Names under which kdump(1) says that unfinished output lies."""
_NUMBERS: Final = re.compile(r"\.kdump-\d+-\d+|\.[^./]*(?=\.kdump-part$)")
_TIME: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z")
_CHECKPOINT: Final = re.compile(r"-checkpoint$")


def _contents(nodes: Nodes) -> dict[str, bytes | None]:
    return {name: node.data for name, node in nodes.items()}


@dataclass(frozen=True, slots=True)
class Case:
    """A command and where it runs.

    Attributes:
        name: of the case.
        build: makes the files, below the directory in which the command runs.
        words: of the command.
    """

    name: str
    build: Callable[[Path], object]
    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The kind of command, for counts."""
        if self.is_restore:
            return "restore"
        if self.words[0] == "convert":
            return "convert"
        return "repair --in-place" if self.is_in_place else "repair -o"

    @property
    def is_in_place(self) -> bool:
        """It changes the files themselves."""
        return "--in-place" in self.words or self.is_restore

    @property
    def is_restore(self) -> bool:
        """It makes partitions in a log directory."""
        return self.words[0] == "restore"

    @property
    def going_on(self) -> tuple[str, ...]:
        """The command that finishes it: a restore is run again."""
        more = ("--backup-dir", _BACKUP) if _BACKUP in self.words else ()
        return self.words if self.is_restore else ("repair", "--finish", self.words[-1], *more)


# The files.


def _whole_directory(root: Path) -> None:
    """Two damaged partitions, both in several segments."""
    partition = killedrepairs.build(root)
    shutil.copytree(partition, root / _LOGS / "other-3")


def _renamed(root: Path) -> None:
    """A log under the name of another offset, with damage in it."""
    partition = killedrepairs.build(root)
    for path in sorted(partition.glob(f"{397:020}.*")):
        path.rename(partition / f"{399:020}{path.suffix}")


def _over(words: Sequence[str]) -> Callable[[Path], None]:
    """Over the output of the same command from other evidence."""

    def build(root: Path) -> None:
        partition = killedrepairs.build(root)
        _run_whole(words, root)
        for base_offset in (0, 105):
            log = partition / f"{base_offset:020}.log"
            log.write_bytes(log.read_bytes()[:-1500])

    return build


def _target(root: Path) -> None:
    """A log directory after a clean shutdown, in which a topic is new and empty, and a source beside it."""
    shutil.copytree(killedrepairs.SOURCE, root / _SOURCE)
    partition = root / _LOGS / "new-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").touch()
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {_ID}\n")
    (root / _LOGS / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    (root / _LOGS / killedrepairs.MARKER).touch()
    for name in killedrepairs.CHECKPOINTS:
        (root / _LOGS / name).write_text("0\n2\nother 0 9\nnew 0 0\n")
    (root / _LOGS / ".lock").touch()


def _target_without(root: Path) -> None:
    """The partition is not there yet."""
    _target(root)
    shutil.rmtree(root / _LOGS / "new-0")


def _target_with_records(root: Path) -> None:
    """The partition has other records."""
    _target(root)
    partition = root / _LOGS / "new-0"
    for path in sorted((root / _SOURCE).glob(f"{105:020}.*")):
        shutil.copy(path, partition)
    (partition / f"{0:020}.log").unlink()
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 105\n")


def _target_of_several(root: Path) -> None:
    """A whole log directory is restored into one that has the metadata of its cluster."""
    old = unpack_cases("metadata", root) / "cluster" / "n1" / METADATA_DIRECTORY
    shutil.copytree(old, root / _METADATA / METADATA_DIRECTORY)
    shutil.rmtree(root / "metadata")
    for topic in ("mail", "orders", "payments"):
        shutil.copytree(killedrepairs.SOURCE, root / _SOURCE / f"{topic}-0")
    _target_without(root / "target")
    for name in killedrepairs.CHECKPOINTS:
        # The order of new lines is that in which partitions are restored.
        lines = "".join(f"{topic} 0 0\n" for topic in ("mail", "other", "orders", "payments"))
        (root / "target" / _LOGS / name).write_text(f"0\n4\n{lines}")
    shutil.move(root / "target" / _LOGS, root / _LOGS)
    shutil.rmtree(root / "target")


def _run_whole(words: Sequence[str], root: Path) -> None:
    assert run(words, root).ran is not None


_CRASHED: Final = partial(killedrepairs.build, is_clean=False)
_SALVAGE: Final = ("repair", "--salvage", "--in-place", "--txn", "leave")
_CUT: Final = ("repair", "--like-broker", "--in-place")
_GZIP: Final = ("convert", _PARTITION, "-o", f"{_OUT}/", "--codec", "gzip", "--skip-damaged")
_SOURCE: Final = "source"
_METADATA: Final = "known"
_ID: Final = "kdumpkdumpkdumpkdumpkg"
_RESTORE: Final = ("restore", _SOURCE, "--topic", "new", "--topic-id", _ID, "-o", _LOGS)
_RESTORE_ALL: Final = ("restore", "--from-log-dir", _SOURCE, "--metadata", _METADATA, "-o", _LOGS)
_ONE_LOG: Final = ("repair", "--salvage", "-o", _OUT, f"{_PARTITION}/{105:020}.log")


def _export(form: str, source: str, target: str, *more: str) -> tuple[str, ...]:
    return ("convert", source, "-o", target, "--to", form, "--skip-damaged", *more)


CASES: Final = (
    Case("salvage", killedrepairs.build, (*_SALVAGE, _PARTITION)),
    Case("salvage-crash", _CRASHED, (*_SALVAGE, _PARTITION)),
    Case("salvage-backup", killedrepairs.build, (*_SALVAGE, "--backup-dir", _BACKUP, _PARTITION)),
    Case("salvage-renamed", _renamed, (*_SALVAGE, _PARTITION)),
    Case("salvage-all", _whole_directory, (*_SALVAGE, _LOGS)),
    Case("cut", killedrepairs.build, (*_CUT, _PARTITION)),
    Case("cut-crash", _CRASHED, (*_CUT, _PARTITION)),
    Case("cut-backup", killedrepairs.build, (*_CUT, "--backup-dir", _BACKUP, _PARTITION)),
    Case("cut-all", _whole_directory, (*_CUT, _LOGS)),
    Case("restore", _target, _RESTORE),
    Case("restore-new", _target_without, (*_RESTORE, "--forget-producers", "--open-transactions", "abort")),
    Case("restore-over", _target_with_records, (*_RESTORE, "--overwrite", "--backup-dir", _BACKUP)),
    Case("restore-linked", _target, (*_RESTORE, "--link", "hard")),
    Case("restore-all", _target_of_several, _RESTORE_ALL),
    Case("copy", killedrepairs.build, ("repair", "--salvage", "-o", _OUT, _PARTITION)),
    Case("copy-cut", killedrepairs.build, ("repair", "--like-broker", "-o", f"{_OUT}/new", _PARTITION)),
    Case("copy-all", _whole_directory, ("repair", "--salvage", "-o", _OUT, _LOGS)),
    Case("copy-log", killedrepairs.build, _ONE_LOG),
    Case("copy-over", _over(_ONE_LOG), (*_ONE_LOG[:-1], "--overwrite", _ONE_LOG[-1])),
    Case("gzip", killedrepairs.build, _GZIP),
    Case("gzip-all", _whole_directory, ("convert", _LOGS, "-o", _OUT, *_GZIP[4:])),
    Case("gzip-over", _over(_GZIP), (*_GZIP, "--overwrite")),
    Case("split", killedrepairs.build, (*_GZIP, "--split-bytes", "4000")),
    Case("jsonl", killedrepairs.build, _export("jsonl", _PARTITION, f"{_OUT}/new/er")),
    Case("csv", killedrepairs.build, _export("csv", f"{_PARTITION}/{105:020}.log", f"{_OUT}.csv")),
    Case("csv-over", _over(_export("csv", _PARTITION, _OUT)), _export("csv", _PARTITION, _OUT, "--overwrite")),
    Case("parquet", killedrepairs.build, _export("parquet", _PARTITION, _OUT)),
)


@dataclass(frozen=True, slots=True)
class Known:
    """A case as it is without trouble.

    Attributes:
        case: the case.
        place: where it runs.
        before: what is there.
        after: what they are after the command.
        ran: what the command came to.
        calls: its system calls that change the file system.
        undone: what they are when a repair in place was undone.
    """

    case: Case
    place: Path
    before: Nodes
    after: Nodes
    ran: Ran
    calls: list[str]
    undone: Nodes


class Way(NamedTuple):
    """How it goes on after trouble in a repair in place.

    Attributes:
        first: ``finish`` or ``undo``.
        second: trouble in that, None: none.
    """

    first: str
    second: Point | None = None


class Job(NamedTuple):
    """One point of a case."""

    case: Case
    points: tuple[Point, ...]
    way: Way

    def __str__(self) -> str:
        points = " ".join(f"--number {point.number} --trouble {point.trouble.value}" for point in self.points)
        second = self.way.second
        then = "" if second is None else f" --then {second.number}:{second.trouble.value}"
        return f"--case {self.case.name} {points} --way {self.way.first}{then}"


class Checker:
    """Runs jobs, one after the other; each case has its own directory in ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Known] = {}
        self._gone_on: set[object] = set()

    def known(self, case: Case) -> Known:
        """The case without trouble."""
        if case.name not in self._known:
            place = self._root / case.name
            empty(place)
            case.build(place)
            before = nodes_of(place)
            self._warm_up(case, place)
            restore(place, before)
            done = run(case.words, place)
            assert done.ran is not None
            assert not done.faults, done.faults
            after = nodes_of(place)
            assert after != before, done.ran
            for _, manifest in _manifests(place):
                assert run(_undo(case, manifest), place).ran is not None
            undone = nodes_of(place)
            assert not case.is_in_place or _partition_files(undone) == _partition_files(before)
            self._known[case.name] = Known(case, place, before, after, done.ran, done.calls, undone)
        return self._known[case.name]

    @staticmethod
    def _warm_up(case: Case, place: Path) -> None:
        """In this process, so that its children have what a command makes once a process."""
        faults: list[Fault] = []
        run_command(case.words, place, faults)
        for _, manifest in _manifests(place):
            run_command(case.going_on, place, faults)
            run_command(_undo(case, manifest), place, faults)
        assert not faults, faults
        gc.collect()
        gc.freeze()

    def check(self, job: Job) -> list[Fault]:
        """Run one; gives the promises that it breaks."""
        known = self.known(job.case)
        restore(known.place, known.before)
        done = run(job.case.words, known.place, job.points)
        inspection = _Inspection(job, known, done, self._gone_on)
        if job.case.is_in_place:
            inspection.in_place()
        else:
            inspection.output()
        return [*done.faults, *inspection.faults]


def _undo(case: Case, manifest: str) -> list[str]:
    return ["repair", "--undo", manifest, *(["--backup-dir", _BACKUP] if _BACKUP in case.words else [])]


def _manifests(root: Path) -> list[tuple[str, str]]:
    """State and path of each, the last first; those of journals before those of other backups."""
    found = []
    for pattern in (f"{_LOGS}/*/.kdump/*/manifest.json", f"{_BACKUP}/*/manifest.json"):
        paths = sorted(root.glob(pattern), key=lambda path: path.parent.name[-24:], reverse=True)
        found += [(json.loads(path.read_bytes())["state"], str(path.relative_to(root))) for path in paths]
    return found


def _is_begun(root: Path) -> bool:
    """There is something for ``--finish``, if only a journal that is over."""
    is_begun = any(state in ("begun", "undoing") for state, _ in _manifests(root))
    return is_begun or any(not (path / "manifest.json").exists() for path in root.glob(f"{_LOGS}/*/.kdump/*"))


def _partition_files(nodes: Nodes) -> Nodes:
    """Without what a repair in place keeps for itself."""
    return {
        name: node
        for name, node in nodes.items()
        if ".kdump" not in Path(name).parts and not name.startswith(_BACKUP) and node.data is not None
    }


def _shape(nodes: Nodes) -> list[str]:
    """Names, whatever time is in them."""
    return sorted(_TIME.sub("TIME", name) for name in nodes)


class _Inspection:
    """What is to be seen after one command, and the promises that it breaks."""

    def __init__(self, job: Job, known: Known, done: Done, gone_on: set[object]) -> None:
        """``gone_on``: the states from which the next run came to the end; it takes more."""
        self._job, self._known, self._root, self._done = job, known, known.place, done
        self._gone_on = gone_on
        self._trouble = job.points[-1].trouble
        calls = done.calls or known.calls
        number = job.points[-1].number
        self._call = calls[number - 1] if number <= len(calls) else "-"
        self._call_before = calls[number - 2] if 2 <= number <= len(calls) else "-"
        self.faults: list[Fault] = []

    def _blame(self, promise: str, detail: object) -> None:
        where = f"{self._job.case.name} {self._trouble.value} {self._call}"
        said = "" if self._done.ran is None else self._done.ran.errors.decode(errors="replace")
        self.faults.append(Fault(promise, where, f"{detail}\n{said}"))

    @property
    def _may_leave(self) -> bool:
        """Nothing more could be removed after the trouble, or just not that, or not durably."""
        is_removing = self._call in _REMOVING or (self._call == "fsync" and self._call_before in _REMOVING)
        return self._trouble in (Trouble.KILL, Trouble.GONE) or is_removing

    def _check_error(self, ran: Ran) -> None:
        """It failed as the contract says."""
        lines = ran.errors.decode(errors="replace").splitlines()
        if ran.status != _UNREADABLE:
            self._blame("status", ran.status)
        reasons = {point.trouble.reason for point in self._job.points}
        if not any(line.startswith("kdump: ") and _names(line, reasons) for line in lines):
            self._blame("message", lines)

    # Output elsewhere.

    def output(self) -> None:
        """The evidence is as it was; the output is all there, or as before."""
        before, after = self._known.before, self._known.after
        now = nodes_of(self._root)
        evidence = {name: node for name, node in now.items() if name.startswith(_LOGS)}
        if evidence != {name: node for name, node in before.items() if name.startswith(_LOGS)}:
            self._blame("evidence", _differences(before, now))
        hidden = sorted(name for name in now if _HIDDEN.search(name))
        visible = _outputs(now)
        is_complete = visible == _outputs(after)
        is_alone = "-all" not in self._job.case.name
        left = hidden if is_complete or not is_alone else sorted((now.keys() ^ before.keys()) - self._named())
        if left and not self._may_leave:
            self._blame("leftovers", left)
        ran = self._done.ran
        if ran is not None and ran.status != self._known.ran.status:
            self._check_error(ran)
        if ran is not None and ran.status == self._known.ran.status and not is_complete:
            self._blame("success", _differences(after, now))
        if not (is_complete or visible == _outputs(before)):
            if is_alone and not self._may_leave:
                self._blame("all or nothing", _differences(before, now))
            for name, content in visible.items():
                if content not in (_outputs(before).get(name), _outputs(after).get(name)):
                    self._blame("incomplete", name)
            for name in _outputs(before).keys() - visible.keys():
                self._blame("lost", name)
        if is_complete and ran is not None and ran.status != self._known.ran.status and not self._may_leave:
            self._blame("failed but there", _differences(before, now))
        state = self._known.case.name, _state(now)
        if not is_complete and state not in self._gone_on:
            self._again(visible, _outputs(after))
            if not self.faults:
                self._gone_on.add(state)

    def _named(self) -> set[str]:
        """The directory for copies and those above it: it is made first, and stays without copies."""
        words = self._job.case.words
        place = Path(words[words.index("-o") + 1])
        return {str(path) for path in (place, *place.parents)} if "repair" in words else set()

    def _again(self, visible: dict[str, object], wanted: dict[str, object]) -> None:
        """The next run comes to the end, whatever was left."""
        words = list(self._job.case.words)
        for name in visible if "repair" in words else ():
            path = self._root / _OUT / Path(name).parts[1]
            if path.is_dir():
                # A directory of copies is complete, and never replaced.
                shutil.rmtree(path)
        if "--overwrite" not in words:
            words.insert(1, "--overwrite")
        done = run(words, self._root)
        self.faults += done.faults
        found = _outputs(nodes_of(self._root))
        if done.ran is None or done.ran.status != self._known.ran.status or found != wanted:
            said = "" if done.ran is None else done.ran.errors
            self._blame("again", (said, sorted(found.items() ^ wanted.items())[:3]))

    # In place.

    def in_place(self) -> None:
        """Nothing is lost, and it goes on."""
        before, after = self._known.before, self._known.after
        now = nodes_of(self._root)
        for name in self._lost(now):
            self._blame("lost", name)
        ran, states = self._done.ran, [state for state, _ in _manifests(self._root)]
        is_whole = _contents(_partition_files(now)) == _contents(_partition_files(after))
        if ran is not None and (ran.status != self._known.ran.status or not is_whole):
            self._check_error(ran)
        if "begun" not in states and "done" not in states:
            if _partition_files(now) != _partition_files(before):
                self._blame("touched", _differences(before, now))
            if now.keys() != before.keys() and not self._may_leave:
                self._blame("leftovers", sorted(now.keys() ^ before.keys()))
        if now == before and self._job.way.second is None:
            # As where ``known`` began.
            return
        if self._job.way.first == "finish":
            self._finish()
        self._undo()

    def _lost(self, now: Nodes) -> Iterator[str]:
        """Originals that are neither in place nor in a backup; lines of checkpoints are in the manifest."""
        blobs = {node.data for node in now.values()}
        for name, node in _partition_files(self._known.before).items():
            if node.data is None or node.data in blobs or _CHECKPOINT.search(name):
                continue
            start = now[name].data if name in now else None
            if start is None or not any(
                start[: int(other.rpartition("-")[2])] + (saved.data or b"") == node.data
                for other, saved in now.items()
                if f"/old/{Path(name).name}.from-" in other
            ):
                yield name

    def _finish(self) -> None:
        """To what an undisturbed repair gives."""
        after = self._known.after
        words = self._job.case.going_on
        self._second(words)
        if _is_begun(self._root):
            self._run(words, (0,))
        if _contents(_partition_files(nodes_of(self._root))) != _contents(_partition_files(after)):
            self._run(self._job.case.words, (self._known.ran.status,))
        now = nodes_of(self._root)
        if _contents(_partition_files(now)) != _contents(_partition_files(after)):
            self._blame("finished", _differences(after, now))
        elif left := set(_shape(now)) ^ set(_shape(after)):
            self._blame("leftovers after finish", sorted(left))

    def _undo(self) -> None:
        """To exactly what was there."""
        is_second = self._job.way.first == "undo"
        for _ in range(9):
            left = [(state, path) for state, path in _manifests(self._root) if state != "undone"]
            if not left:
                break
            words = _undo(self._job.case, left[0][1])
            if is_second:
                is_second = False
                self._second(words)
            else:
                self._run(words, (0,))
        now = nodes_of(self._root)
        if _partition_files(now) != _partition_files(self._known.before):
            self._blame("undone", _differences(self._known.before, now))
        for _, path in _manifests(self._root):
            if left := sorted(now.keys() & {str(Path(path).parent / name) for name in ("old", "new")}):
                self._blame("leftovers after undo", left)

    def _second(self, words: Sequence[str]) -> None:
        point = self._job.way.second
        if point is None:
            if _is_begun(self._root):
                self._run(words, (0,))
            return
        done = run(words, self._root, [point])
        self.faults += done.faults
        for name in self._lost(nodes_of(self._root)):
            self._blame("lost in a second fault", name)

    def _run(self, words: Sequence[str], statuses: Sequence[int]) -> None:
        done = run(words, self._root)
        self.faults += done.faults
        if done.ran is None or done.ran.status not in statuses:
            self._blame("going on", (words, done.ran))


def _names(line: str, reasons: Iterable[str]) -> bool:
    """An error line names a file of the case, and the reason."""
    return any(reason in line for reason in reasons) and any(
        word in line for word in (f"{_LOGS}/", f"{_LOGS}:", f"{_OUT}", f"{_BACKUP}", "kdump: .: ")
    )


def _outputs(nodes: Nodes) -> dict[str, object]:
    """Mode and content of what was written beside the evidence and is not hidden; empty directories are nothing."""
    return {
        name: (node.mode, node.data)
        for name, node in nodes.items()
        if not name.startswith(_LOGS) and not _HIDDEN.search(name) and node.data is not None
    }


def _state(nodes: Nodes) -> object:
    """What is there, whatever numbers and times are in the names of unfinished output."""
    return tuple(sorted((_NUMBERS.sub("-", name), node.mode, node.data or b"") for name, node in nodes.items()))


def _differences(wanted: Nodes, found: Nodes) -> list[str]:
    return [
        f"{name}: {_described(wanted.get(name))} became {_described(found.get(name))}"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ][:8]


def _described(node: Node | None) -> str:
    if node is None:
        return "nothing"
    size = "directory" if node.data is None else f"{len(node.data)} bytes {hash(node.data) & 0xFFFF:x}"
    return f"{node.mode:o} {node.modified} {size}"


# Which points.


def jobs_of(known: Known, _: Random) -> Iterator[Job]:
    """All points of a case, those in place with each way."""
    for number in range(1, len(known.calls) + 1):
        for trouble in Trouble:
            for way in ("finish", "undo") if known.case.is_in_place else ("again",):
                yield Job(known.case, (Point(number, trouble),), Way(way))


def double_jobs_of(known: Known, random: Random) -> Iterator[Job]:
    """All points of a case, with a second trouble soon after, or while it is finished or undone."""
    case = known.case
    for number in range(1, len(known.calls) + 1):
        for trouble in Trouble:
            points = (Point(number, trouble),)
            way = Way(random.choice(("finish", "undo"))) if case.is_in_place else Way("again")
            if case.is_in_place:
                second = Point(random.randrange(1, 60), random.choice(list(Trouble)))
                yield Job(case, points, way._replace(second=second))
            if trouble is Trouble.ERROR or not (case.is_in_place or trouble is Trouble.KILL):
                kinds = (Trouble.ERROR, Trouble.KILL) if case.is_in_place else (Trouble.KILL,)
                later = Point(number + random.randrange(1, 6), random.choice(kinds))
                yield Job(case, (*points, later), way)


@dataclass(slots=True)
class Campaign:
    """What was run, by command and trouble, and what broke."""

    points: Counter[tuple[str, str]]
    faults: list[tuple[Job, Fault]]
    seconds: float = 0

    def add(self, other: Campaign) -> None:
        """What another one was and found, too."""
        self.points += other.points
        self.faults += other.faults
        self.seconds += other.seconds

    def found(self) -> Iterator[str]:
        """Each fault once, with the first job that shows it."""
        counts = Counter(fault.name for _, fault in self.faults)
        for job, fault in self.faults:
            if count := counts.pop(fault.name, 0):
                yield f"{fault.promise} ({count}): {fault.where}\n  {job}\n{fault.detail}"

    def __str__(self) -> str:
        commands = list(dict.fromkeys(command for command, _ in self.points))
        lines = []
        for command in commands:
            counts = {trouble: count for (name, trouble), count in self.points.items() if name == command}
            named = ", ".join(f"{trouble} {count:,}" for trouble, count in sorted(counts.items()))
            lines.append(f"{command}: {sum(counts.values()):,} points ({named})")
        return "\n".join([*lines, f"{len(self.faults)} faults in {self.seconds:.0f} s"])


def run_jobs(jobs: Iterable[Job], checker: Checker) -> Campaign:
    """Check them all; an interrupt ends it."""
    begun = time.monotonic()
    campaign = Campaign(Counter(), [])
    with suppress(KeyboardInterrupt):
        for job in jobs:
            campaign.faults += ((job, fault) for fault in checker.check(job))
            campaign.points[job.case.command, "+".join(point.trouble.value for point in job.points)] += 1
    campaign.seconds = time.monotonic() - begun
    return campaign


def all_jobs(cases: Iterable[Case], seed: int, checker: Checker) -> list[list[Job]]:
    """Every point of the cases: a list for each case, then a list for each with the double troubles."""
    known = [checker.known(case) for case in cases]
    return [list(jobs(one, Random(f"{seed} {one.case.name}"))) for jobs in (jobs_of, double_jobs_of) for one in known]


def fast_directory() -> str | None:
    """Where files cost little."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def load() -> None:
    """Import what the commands import, so that a child has it already."""
    load_everything()
    allow_timers()


def main() -> int:
    """Exit status 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.faults", description=__doc__)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--command", choices=list(dict.fromkeys(case.command for case in CASES)))
    parser.add_argument("--number", type=int, action="append")
    parser.add_argument("--trouble", action="append", choices=[trouble.value for trouble in Trouble])
    parser.add_argument("--way", choices=["finish", "undo", "again"], default="finish")
    parser.add_argument("--then", metavar="NUMBER:TROUBLE", help="trouble while it is finished or undone")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    load()
    cases = [case for case in CASES if not given.case or case.name in given.case]
    cases = [case for case in cases if given.command in (None, case.command)]
    with tempfile.TemporaryDirectory(dir=fast_directory()) as name:
        checker = Checker(Path(name))
        if given.number:
            troubles = map(Trouble, given.trouble or [Trouble.KILL.value])
            points = tuple(map(Point, given.number, troubles))
            second = given.then and given.then.split(":")
            way = Way(given.way, Point(int(second[0]), Trouble(second[1])) if second else None)
            groups = [[Job(cases[0], points, way)]]
        else:
            groups = all_jobs(cases, given.seed, checker)
            if given.trouble:
                groups = [[job for job in jobs if job.points[0].trouble.value in given.trouble] for jobs in groups]
            if given.sample:
                jobs = [job for group in groups for job in group]
                groups = [Random(given.seed).sample(jobs, min(given.sample, len(jobs)))]
        total, left = Campaign(Counter(), []), sum(map(len, groups))
        print(f"seed {given.seed}: {left:,} points", flush=True)
        for jobs in groups:
            campaign = run_jobs(jobs, checker)
            total.add(campaign)
            left -= len(jobs)
            print(_progress(jobs, campaign, left), *campaign.found(), sep="\n", flush=True)
    print(total)
    return int(bool(total.faults))


def _progress(jobs: Sequence[Job], campaign: Campaign, left: int) -> str:
    done = campaign.points.total()
    names = ", ".join(dict.fromkeys(job.case.name for job in jobs))
    each = 1000 * campaign.seconds / max(done, 1)
    return f"{names}: {done:,} points, {each:.0f} ms each, {len(campaign.faults)} faults; {left:,} are left"


if __name__ == "__main__":
    sys.exit(main())
