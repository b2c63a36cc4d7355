"""What a kind of input is, and how commands are run over evidence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.fuzz import commands
from tests.fuzz.case import Case, Fault
from tests.fuzz.corpus import Corpus
from tests.fuzz.running import Ran, files_in, run_command


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of input.

    Attributes:
        weight: how often it is made, relative to the others; cheap ones come more often.
        make: the files of a new case.
        check: writes the files of a case into an empty folder and returns the promises that it breaks.
    """

    weight: float
    make: Callable[[Random, Corpus], dict[str, bytes]]
    check: Callable[[Case, Path], list[Fault]]


def examine(words: Sequence[str], folder: Path, evidence: Path, faults: list[Fault]) -> Ran:
    """A command that leaves the evidence as it was."""
    before = files_in(evidence)
    ran = run_command(words, folder, faults)
    if files_in(evidence) != before:
        faults.append(Fault("evidence", " ".join(word for word in words if word[:1] == "-"), " ".join(words)))
    for left in commands.OUTPUTS:
        path = folder / left
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return ran


def examined(case: Case, folder: Path, choose: Callable[[Random], Iterable[Sequence[str]]]) -> list[Fault]:
    """What the chosen commands break over the files of a case, which lie in ``evidence``."""
    evidence, faults = folder / "evidence", list[Fault]()
    case.write(evidence)
    for words in choose(case.random):
        examine(words, folder, evidence, faults)
    return faults
