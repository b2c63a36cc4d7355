"""Processes that are loaded once and forked: each checks some hundred cases, and its death costs nothing else."""

from __future__ import annotations

import gc
import json
import math
import os
import pickle
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.case import Case, Fault
from tests.fuzz.corpus import Corpus
from tests.fuzz.kinds import KINDS, check
from tests.fuzz.mutations import bomb
from tests.fuzz.running import MOST_SECONDS, allow_timers

_CASES_A_PROCESS: Final = 400
_MOST_MORE_MEMORY: Final = 600 << 10
"""KiB that a process may grow by (invariant 6 of the design: no input here is larger than some 100 KB)."""
_ADDRESS_SPACE: Final = 12 << 30
_PATIENCE: Final = 6 * MOST_SECONDS
"""Seconds without a sign of life after which a process counts as stuck."""
_PAUSE: Final = 0.02
_MOST_SHRINKING: Final = 60
"""Seconds."""


@dataclass(slots=True)
class Found:
    """A fault, the smallest case that shows it, and how many cases showed it."""

    fault: Fault
    case: Case
    count: int = 1


@dataclass(slots=True)
class Campaign:
    """What came of a run: cases by kind, and faults by their names."""

    cases: Counter[str] = field(default_factory=Counter)
    found: dict[str, Found] = field(default_factory=dict)
    seconds: float = 0.0

    def take(self, fault: Fault, case: Case) -> None:
        """One more fault."""
        known = self.found.get(fault.name)
        if known is None:
            self.found[fault.name] = Found(fault, case)
            return
        known.count += 1
        if case.size < known.case.size:
            known.case = case


def fuzz(
    corpus: Corpus,
    seed: int,
    *,
    jobs: int,
    seconds: float = math.inf,
    most: int | None = None,
    weights: Mapping[str, float] | None = None,
) -> Campaign:
    """Make and check cases until the time is up or there are enough, then shrink those that show faults.

    Args:
        corpus: what is damaged.
        seed: the same seed gives the same cases, however many are reached.
        jobs: processes at a time.
        seconds: how long, shrinking aside.
        most: cases; None: any number.
        weights: of the kinds; None: their own.
    """
    campaign = Campaign()
    weights = weights or {name: kind.weight for name, kind in KINDS.items()}
    # Not anew in each process.
    bomb()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_fast_directory()) as name:
        root = Path(name)
        workers: list[_Worker] = []
        for number, count in enumerate(_shares(most)):
            while len(workers) >= jobs:
                workers = [worker for worker in workers if not worker.is_over(campaign)]
                time.sleep(_PAUSE)
            if time.monotonic() - begun > seconds:
                break
            workers.append(
                _Worker(corpus, weights, (seed, number), root / str(number), until=begun + seconds, count=count)
            )
        while workers:
            workers = [worker for worker in workers if not worker.is_over(campaign)]
            time.sleep(_PAUSE)
        campaign.seconds = time.monotonic() - begun
        for found in campaign.found.values():
            found.case = shrunk(found, root / "shrinking")
    return campaign


def _shares(most: int | None) -> Iterator[int]:
    """How many cases each process makes."""
    if most is None:
        yield from repeat(_CASES_A_PROCESS)
    else:
        yield from (min(_CASES_A_PROCESS, most - begin) for begin in range(0, most, _CASES_A_PROCESS))


def faults_of(case: Case, root: Path) -> list[Fault]:
    """The faults of one case, found in a process of its own."""
    campaign = Campaign()
    worker = _Worker(None, {}, (), root, only=case)
    while not worker.is_over(campaign):
        time.sleep(_PAUSE / 4)
    return [found.fault for found in campaign.found.values()]


def shrunk(found: Found, root: Path) -> Case:
    """A smaller case with the same fault: without files, and without stretches of files, that it does not need."""
    best, until = found.case, time.monotonic() + _MOST_SHRINKING
    progress = True
    while progress and time.monotonic() < until:
        progress = False
        for smaller in _smaller(best):
            if time.monotonic() > until:
                break
            if any(fault.name == found.fault.name for fault in faults_of(smaller, root)):
                best, progress = smaller, True
                break
    return best


def _smaller(case: Case) -> Iterator[Case]:
    for name in case.files:
        if len(case.files) > 1:
            yield case.with_files({other: data for other, data in case.files.items() if other != name})
    for name, data in case.files.items():
        size = len(data)
        step = size
        while step:
            step //= 2
            if step < size // 64:
                break
            for start in range(0, size, step or 1):
                yield case.with_files({**case.files, name: data[:start] + data[start + max(step, 1) :]})


class _Worker:
    """A forked process that writes its cases and faults to files in ``folder``."""

    def __init__(
        self,
        corpus: Corpus | None,
        weights: Mapping[str, float],
        seed: tuple[int, ...],
        folder: Path,
        *,
        until: float = math.inf,
        count: int = 1,
        only: Case | None = None,
    ) -> None:
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._seen = time.monotonic(), -1
        self._process = os.fork()
        if self._process == 0:
            status = 1
            try:
                _work(corpus, weights, seed, folder, until=until, count=count, only=only)
                status = 0
            except BaseException:
                (folder / "broken").write_text(traceback.format_exc(), encoding="utf-8", errors="replace")
            finally:
                os._exit(status)

    def is_over(self, campaign: Campaign) -> bool:
        """The process has ended, and what it found is in ``campaign``."""
        process, status = os.waitpid(self._process, os.WNOHANG)
        if not process:
            if not self._is_stuck():
                return False
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self._blame(campaign, Fault("stuck", self._case().kind, f"no end within {_PATIENCE} seconds"))
        elif os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            self._blame(campaign, Fault("crash", f"{self._case().kind} {name}", f"the process was ended by {name}"))
        elif (self._folder / "broken").exists():
            raise RuntimeError((self._folder / "broken").read_text(encoding="utf-8"))
        for line in self._lines("faults"):
            promise, where, detail, text = json.loads(line)
            campaign.take(Fault(promise, where, detail), Case.from_json(text))
        campaign.cases.update(line.strip() for line in self._lines("cases"))
        shutil.rmtree(self._folder, ignore_errors=True)
        return True

    def _is_stuck(self) -> bool:
        size = -1
        with suppress(OSError):
            size = (self._folder / "cases").stat().st_size
        if size != self._seen[1]:
            self._seen = time.monotonic(), size
        return time.monotonic() - self._seen[0] > _PATIENCE

    def _case(self) -> Case:
        """The case that it is at."""
        case: Case = pickle.loads((self._folder / "case").read_bytes())
        return case

    def _blame(self, campaign: Campaign, fault: Fault) -> None:
        campaign.take(fault, self._case())

    def _lines(self, name: str) -> list[str]:
        path = self._folder / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _work(
    corpus: Corpus | None,
    weights: Mapping[str, float],
    seed: tuple[int, ...],
    folder: Path,
    *,
    until: float,
    count: int,
    only: Case | None,
) -> None:
    allow_timers()
    # The garbage is collected after each command: what was loaded before is left alone, which is most of the time.
    gc.freeze()
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    before = _peak_memory()
    random = Random(repr(seed))
    kinds, shares = list(weights), list(weights.values())
    with (
        (folder / "cases").open("w", buffering=1, encoding="utf-8") as cases,
        (folder / "faults").open("w", buffering=1, encoding="utf-8") as faults,
    ):
        for _ in range(count):
            case = only
            if case is None:
                if time.monotonic() > until:
                    break
                assert corpus is not None
                (kind,) = random.choices(kinds, shares)
                files = KINDS[kind].make(random, corpus)
                case = Case(kind, random.getrandbits(32), files)
            (folder / "case").write_bytes(pickle.dumps(case))
            broken = check(case, folder / "work")
            grown = _peak_memory() - before
            if grown > _MOST_MORE_MEMORY:
                broken.append(Fault("memory", case.kind, f"{grown >> 10} MiB more than before"))
            for fault in broken:
                faults.write(json.dumps([fault.promise, fault.where, fault.detail, case.to_json()]) + "\n")
            cases.write(case.kind + "\n")
            if grown > _MOST_MORE_MEMORY:
                break


def _peak_memory() -> int:
    """The largest resident set of this process, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _fast_directory() -> str | None:
    """Memory, where there is a file system in memory: the cases are many and small."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
