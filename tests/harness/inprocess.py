"""``kdump dump`` without a process: the tool called as the command line calls it, for thousands of runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from enum import Enum

from kdump.kafka.dumplog.options import DumpOptions
from kdump.kafka.dumplog.tool import DumpTool, Target, target_by_java_name, target_by_path
from tests.harness.outcome import Outcome

DAMAGED = 1
UNREADABLE = 3


class Door(Enum):
    """How a file is named to kdump: ``--files``, or as a PATH."""

    FILES = "files"
    PATH = "path"


_TARGET_OF: dict[Door, Callable[[str], Target | None]] = {
    Door.FILES: target_by_java_name,
    Door.PATH: target_by_path,
}


def run_in_process(files: Iterable[str], options: DumpOptions, door: Door = Door.FILES) -> Outcome:
    """Dump ``files`` and return what a process would have printed.

    An exception that kdump does not mean to raise is the outcome's ``failure``, never this function's.
    """
    out: list[bytes] = []
    errors: list[bytes] = []
    tool = DumpTool(options, out.append, lambda line: errors.append(os.fsencode(line) + b"\n"))
    failure = None
    try:
        for name in files:
            target = _TARGET_OF[door](name)
            if target is None:
                tool.ignore(name)
            else:
                tool.dump(target)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    errors.extend(map(os.fsencode, tool.finish()))
    status = UNREADABLE if tool.unreadable else DAMAGED if tool.damaged else 0
    return Outcome(b"".join(out), b"".join(errors), status, failure)
