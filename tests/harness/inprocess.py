"""``kdump dump`` without a process: the tool called as the command line calls it, for thousands of runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from kdump.codes import KdumpError
from kdump.dump.output import DumpOptions
from kdump.dump.run import DumpRun
from kdump.dump.targets import Target, target_by_java_name
from kdump.reading.reporter import Reporter
from kdump.reading.view import DecodePath
from kdump.wire.checksum import Buffer
from tests.harness.dumpoptions import by_path
from tests.harness.outcome import Outcome
from tests.harness.targets import target_by_path

DAMAGED = 1
UNREADABLE = 3


class Door(Enum):
    """How a file is named to kdump: ``--files``, or as a PATH."""

    FILES = "files"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class Way:
    """One of the ways through kdump that must all print the same."""

    door: Door = Door.FILES
    path: DecodePath = DecodePath.AUTO

    def __str__(self) -> str:
        return f"{self.door.value}-{self.path.name.lower()}"


DEFAULT_WAY = Way()
BOTH_PATHS = (Way(path=DecodePath.SCALAR), Way(path=DecodePath.COLUMNAR))
ALL_WAYS = (*BOTH_PATHS, Way(Door.PATH))

_TARGET_OF: dict[Door, Callable[[str], Target | None]] = {
    Door.FILES: target_by_java_name,
    Door.PATH: target_by_path,
}


def can_name(way: Way, name: str) -> bool:
    """Whether kdump takes ``name`` for a segment file at this door: a PATH knows kdump's own file names only."""
    return _TARGET_OF[way.door](name) is not None


def run_in_process(files: Iterable[str], options: DumpOptions, way: Way = DEFAULT_WAY) -> Outcome:
    """Dump ``files`` and return what a process would have printed.

    An exception that kdump does not mean to raise is the outcome's ``failure``, never this function's.
    """
    out: list[bytes] = []
    errors: list[bytes] = []

    def complain(line: str) -> None:
        errors.append(os.fsencode(line) + b"\n")

    def show_error(error: KdumpError) -> None:
        complain(f"kdump: {error}")

    def emit(text: Buffer) -> None:
        out.append(bytes(text))

    tool = DumpRun(by_path(options, way.path), emit, Reporter(show_error, complain))
    failure = None
    try:
        for name in files:
            target = _TARGET_OF[way.door](name)
            if target is None:
                tool.ignore(name)
            else:
                tool.dump(target)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    errors.extend(map(os.fsencode, tool.finish()))
    status = UNREADABLE if tool.unreadable else DAMAGED if tool.damaged else 0
    return Outcome(b"".join(out), b"".join(errors), status, failure)
