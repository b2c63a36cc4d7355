"""A sample of the points where a disk fails, or a command is killed; ``python -m tests.fuzz.faults`` takes all."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kdump.repair.apply import undo
from kdump.repair.apply.preparation import Preparation
from kdump.system import files
from tests.fuzz.case import Fault
from tests.fuzz.faults import CASES, Case, Checker, Job, Way, all_jobs, load, run_jobs
from tests.fuzz.running import allow_timers, run_command
from tests.fuzz.trees import nodes_of
from tests.harness.examples import fuzz_seed
from tests.harness.killing import Point, Trouble, in_child, limit_files

pytestmark = pytest.mark.slow

_SAMPLE = 50
_NAMED = {case.name: case for case in CASES}


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    load()
    return Checker(tmp_path_factory.mktemp("faults"))


def test_a_sample_of_points(checker: Checker, capsys: pytest.CaptureFixture[str]) -> None:
    seed = fuzz_seed()
    random = Random(seed)
    cases = [random.choice([case for case in CASES if case.command == name]) for name in _commands() for _ in range(3)]
    jobs = [job for of_a_case in all_jobs(dict.fromkeys(cases), seed, checker) for job in of_a_case]
    campaign = run_jobs(random.sample(jobs, _SAMPLE), checker)
    with capsys.disabled():
        print(f"\nfaults: seed {seed}: {campaign}")
    assert not campaign.faults, "\n".join(f"{job}\n{fault.promise}: {fault.detail}" for job, fault in campaign.faults)


def _commands() -> list[str]:
    return list(dict.fromkeys(case.command for case in CASES))


def _point(case: str, call: str, number: int, trouble: Trouble, checker: Checker) -> Job:
    """At the so manieth call of a name, from 0 on."""
    calls = checker.known(_NAMED[case]).calls
    numbers = [at for at, name in enumerate(calls, 1) if name == call]
    return Job(_NAMED[case], (Point(numbers[number], trouble),), Way("undo" if _NAMED[case].is_in_place else "again"))


FOUND = [
    # What a preparation has made before an error, a directory or the whole of it, stayed.
    ("salvage", "mkdir", 2, Trouble.ERROR),
    ("salvage", "fchmod", 2, Trouble.ERROR),
    ("salvage-backup", "write", 1, Trouble.FULL),
    # The directory of the copies stayed.
    ("copy-cut", "mkdir", 2, Trouble.FULL),
    ("copy", "write", 3, Trouble.ERROR),
    # Of several directories the first stayed when the second could not be made.
    ("jsonl", "mkdir", 2, Trouble.ERROR),
    # On a full disk a link is not possible either: what was in the place had no name for a moment.
    ("gzip-over", "link", 1, Trouble.FULL),
    # Damage that was to be left out was named as the reason.
    ("csv", "fsync", 0, Trouble.ERROR),
    ("parquet", "write", -1, Trouble.FULL),
]


@pytest.mark.parametrize("found", FOUND, ids=lambda found: f"{found[0]}-{found[1]}-{found[2]}")
def test_found_before(found: tuple[str, str, int, Trouble], checker: Checker) -> None:
    campaign = run_jobs([_point(*found, checker)], checker)
    assert not campaign.faults, campaign.faults


@pytest.mark.parametrize("call", ["unlink", "fsync", "rmdir"])
def test_a_journal_that_could_not_be_removed_is_removed_by_finish(call: str, checker: Checker) -> None:
    """The last calls of a repair with another backup directory. An empty journal stayed."""
    job = _point("cut-backup", call, -1, Trouble.ERROR, checker)._replace(way=Way("finish"))
    assert not run_jobs([job], checker).faults


@pytest.mark.parametrize("name", ["csv-over", "gzip-over", "copy-over"])
def test_killed_while_it_is_taken_back(name: str, checker: Checker) -> None:
    """The last call fails when all is in place: what was there had no name for a moment while it came back."""
    job = _point(name, "fsync", -1, Trouble.ERROR, checker)
    jobs = [
        job._replace(points=(*job.points, Point(job.points[0].number + more, Trouble.KILL))) for more in (1, 2, 3, 4)
    ]
    campaign = run_jobs(jobs, checker)
    assert not campaign.faults, campaign.faults


@pytest.mark.parametrize(
    ("broken", "found", "promise"),
    [
        ((files, "discard"), ("gzip", "fsync", 0, Trouble.ERROR), "leftovers"),
        ((Preparation, "discard"), ("cut", "write", 0, Trouble.FULL), "leftovers"),
        ((files._Change, "take_back"), ("copy-over", "replace", 2, Trouble.ERROR), "all or nothing"),
        ((undo, "_restore_all"), ("cut", "rename", -2, Trouble.KILL), "undone"),
    ],
)
def test_broken_promises_are_seen(
    broken: tuple[object, str],
    found: tuple[str, str, int, Trouble],
    promise: str,
    checker: Checker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A harness that sees nothing finds nothing: promises are broken on purpose."""
    job = _point(*found, checker)
    monkeypatch.setattr(*broken, lambda *words: None)
    assert promise in {fault.promise for _, fault in run_jobs([job], checker).faults}


def test_every_call_is_met(checker: Checker) -> None:
    """Each kind of call that kdump makes is among the points."""
    calls = {
        call for name in ("salvage-backup", "copy-over", "gzip-over") for call in checker.known(_NAMED[name]).calls
    }
    assert calls >= {"open", "write", "fsync", "rename", "link", "unlink", "mkdir", "rmdir", "fchmod", "utime"}


@pytest.mark.parametrize("name", ["gzip", "jsonl", "csv", "parquet"])
def test_files_that_cannot_grow(name: str, tmp_path: Path) -> None:
    """The system itself refuses, also code that is not Python."""
    load()
    case: Case = _NAMED[name]
    case.build(tmp_path)
    before = nodes_of(tmp_path)

    def limited() -> None:
        limit_files(600)
        allow_timers()
        faults: list[Fault] = []
        ran = run_command(case.words, tmp_path, faults)
        assert not faults
        assert ran.status == 3
        assert b"File too large" in ran.errors

    assert in_child(limited) == 0
    assert nodes_of(tmp_path) == before
