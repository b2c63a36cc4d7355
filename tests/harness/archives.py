"""The archives of fixtures (``.tar.zst``), and the cases in them with the answers of real code."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

from tests.harness import ROOT

CASES = ROOT / "fixtures" / "cases"


def unpack_archive(archive: Path, target: Path, is_wanted: Callable[[str], bool] = lambda name: True) -> None:
    """What is wanted of it, by the names in it, into ``target``."""
    with _opened(archive) as tar:
        tar.extractall(target, (item for item in tar if is_wanted(item.name)), filter=_ours)


def archived_names(archive: Path) -> list[str]:
    """The names of all that is in it."""
    with _opened(archive) as tar:
        return [item.name for item in tar]


def unpack_cases(name: str, target: Path, is_wanted: Callable[[str], bool] = lambda name: True) -> Path:
    """The cases of ``fixtures/cases/NAME.tar.zst``, unpacked; where ``results.jsonl`` is."""
    unpack_archive(CASES / f"{name}.tar.zst", target, is_wanted)
    return target / name


@cache
def case_files(name: str) -> dict[str, bytes]:
    """The same in memory, by path."""
    with _opened(CASES / f"{name}.tar.zst") as tar:
        return {item.name: stream.read() for item in tar if (stream := tar.extractfile(item)) is not None}


def cases(root: Path) -> Iterator[dict[str, Any]]:
    """The lines of ``results.jsonl``."""
    for line in (root / "results.jsonl").read_text().splitlines():
        yield json.loads(line)


def repair_logs(folder: str) -> Iterator[tuple[str, str, bytes]]:
    """The logs of the repair cases: (id, file name without suffix, log) of ``base`` or ``mutants``."""
    for path, data in case_files("repair").items():
        if path.startswith(f"repair/{folder}/") and path.endswith(".log"):
            _, _, name, file = path.split("/")
            yield name, file.removesuffix(".log"), data


def _ours(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo:
    """Give a file to who unpacks it.

    Python's own filter asks of each of ten thousand files where its links lead; these archives are of this repository.
    """
    return member.replace(uid=None, gid=None, uname=None, gname=None, deep=False)


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    with archive.open("rb") as packed:
        plain = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed)
        with tarfile.open(fileobj=plain, mode="r|") as tar:
            yield tar
