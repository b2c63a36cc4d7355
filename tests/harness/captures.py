"""The captured partitions of fixtures/captures, unpacked, and their goldens (see fixtures/README.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kdump.releases import KAFKA_4_3, NEWEST
from tests.harness import ROOT
from tests.harness.archives import unpack_archive
from tests.harness.flags import FlagSet, flags_of_golden
from tests.harness.outcome import Outcome

FIXTURES = ROOT / "fixtures"
CAPTURES = FIXTURES / "captures"
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
CLI = "cli"
LARGE = ("3.9.1/v2-big-0", "0.8.2.2/v0-large-0")
"""Partitions of more than a megabyte; all others together have three."""

_ALL = "ALL"
_ALL_SUFFIXES = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != ".checkpoint")
_NEWEST = f".{NEWEST.version}."
_BEFORE = f".{KAFKA_4_3.version}."
"""What the names of goldens say of the tool that printed them."""
_CAPTURED_AT = b"/captures/"


@dataclass(frozen=True, slots=True)
class Golden:
    """One run of the real tool: in which directory, over which files (relative names), with which flags."""

    directory: Path
    files: tuple[str, ...]
    flags: FlagSet
    base: str

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"{self.base.removesuffix('.')}"

    def outcome(self) -> Outcome:
        """What the real tool printed, as if it had run in ``directory``."""
        return read_outcome(self.directory, self.base)


def read_outcome(directory: Path, base: str) -> Outcome:
    """The golden whose files are ``golden/<base>out``, ``err`` and ``rc``; its paths are those of ``directory``."""
    golden = directory / "golden"
    captured = _CAPTURED_AT + directory.name.encode() + b"/"
    error = (golden / f"{base}err").read_bytes().replace(captured, f"{directory}/".encode())
    return Outcome((golden / f"{base}out").read_bytes(), error, int((golden / f"{base}rc").read_text()))


class Captures:
    """An unpacked tree of captures: ``<group>/<partition>/`` with the files and ``golden/``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def partitions(self) -> list[str]:
        """Names of all partitions that have goldens, the command line calls aside."""
        return partition_names()

    def segment_files(self, partition: str) -> list[Path]:
        """The files of a partition that the tool can dump, in the order of their names."""
        return sorted(path for path in (self.root / partition).iterdir() if path.name.endswith(SEGMENT_SUFFIXES))

    def size(self, partition: str) -> int:
        """Bytes of a partition's segment files."""
        return sum(path.stat().st_size for path in self.segment_files(partition))

    def files(self, suffix: str, limit: int) -> list[Path]:
        """All sound files with this suffix and at most ``limit`` bytes."""
        found = (
            path for name in self.partitions() if not name.startswith("damaged/") for path in self.segment_files(name)
        )
        return [path for path in found if path.name.endswith(suffix) and path.stat().st_size <= limit]

    def goldens(self, partition: str) -> list[Golden]:
        """The runs of the real tools over a partition, in the order of their names.

        A run of the newest tool has a golden of its own where it prints something else than the one before.
        """
        directory = self.root / partition
        found = []
        for path in sorted((directory / "golden").glob("*.rc")):
            is_newest = _NEWEST in path.name
            if not is_newest and _BEFORE not in path.name:
                continue
            file_name, _, flags = path.name.removesuffix(".rc").rpartition(_NEWEST if is_newest else _BEFORE)
            names = self._all_files(directory) if file_name == _ALL else (file_name,)
            is_same = not is_newest and not path.with_name(path.name.replace(_BEFORE, _NEWEST)).exists()
            dialects = [None] if is_newest or is_same else []
            if not is_newest and (not is_same or "decoder" in flags or any(map(_is_txn_index, names))):
                dialects.append(KAFKA_4_3.name)
            base = path.name.removesuffix("rc")
            found += [Golden(directory, names, flags_of_golden(flags, partition, each), base) for each in dialects]
        return found

    @staticmethod
    def _all_files(directory: Path) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in directory.iterdir() if path.name.endswith(_ALL_SUFFIXES)))


def _is_txn_index(name: str) -> bool:
    return name.endswith(".txnindex")


def partition_names() -> list[str]:
    """As ``Captures.partitions``, without unpacking anything: for parametrized tests."""
    names = (CAPTURES / "partitions.txt").read_text(encoding="utf-8").split()
    return [name for name in names if name != CLI]


_WITHOUT_LOG = re.compile(r".*/_bootstrap|damaged/(?:empty-others|idx-no-log|(?:snap|txn)-.*)")
"""Captures of other files, without a log."""


def names_with_logs() -> list[str]:
    """The partitions that hold a log."""
    return [name for name in partition_names() if not _WITHOUT_LOG.fullmatch(name)]


def partition_cases(names: Iterable[str] | None = None, *, fast: int = 1) -> list[Any]:
    """Names of partitions, all or some, as parameters of a test.

    The two large ones are slow. Where each takes its time, only every ``fast``-th of the others is in the fast set.
    """
    chosen = list(names or partition_names())
    is_slow = [name in LARGE or number % fast != 0 for number, name in enumerate(chosen)]
    marks = [[pytest.mark.slow] if slow else [] for slow in is_slow]
    return [pytest.param(name, marks=mark, id=name) for name, mark in zip(chosen, marks, strict=True)]


def unpack(target: Path) -> Captures:
    """Unpack all captures into ``target``."""
    for archive in sorted(CAPTURES.glob("*.tar.zst")):
        unpack_archive(archive, target)
    return Captures(target)
