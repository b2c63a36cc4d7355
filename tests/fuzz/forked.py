"""Commands in forked processes, on disks with trouble."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.case import Fault
from tests.fuzz.running import Ran, allow_timers, run_command
from tests.harness.killing import FaultyDisk, Point, in_child


class Done(NamedTuple):
    """What came of a command: ``ran`` is None where it was killed."""

    ran: Ran | None
    faults: list[Fault]
    calls: list[str]


def run(words: Sequence[str], root: Path, points: Sequence[Point] = ()) -> Done:
    """``kdump WORDS`` in ``root``, in a child, with trouble."""
    with tempfile.TemporaryFile() as told:
        if in_child(partial(_work, words, root, FaultyDisk(points), told.fileno())) is None:
            return Done(None, [], [])
        told.seek(0)
        (status, out, errors), broken, calls = json.loads(told.read())
    return Done(Ran(status, out.encode("latin-1"), errors.encode("latin-1")), [Fault(*one) for one in broken], calls)


def _work(words: Sequence[str], root: Path, disk: FaultyDisk, told: int) -> None:
    allow_timers()
    faults: list[Fault] = []
    disk.install()
    ran = run_command(words, root, faults)
    said = [ran.status, ran.out.decode("latin-1"), ran.errors.decode("latin-1")]
    broken = [[fault.promise, fault.where, fault.detail] for fault in faults]
    # Not ``os.write``, which counts here.
    with open(told, "wb", closefd=False) as file:
        file.write(json.dumps([said, broken, disk.calls]).encode())
