"""One input of the fuzzer: the files, and the seed that decides what is done with them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Self


@dataclass(frozen=True, slots=True)
class Case:
    """Files to be written into an empty folder, and what is done with them.

    ``kind`` names one of ``kinds.KINDS``. ``seed`` decides the commands and options, whatever is in the files, so that
    a smaller file still meets the same command. ``files``: content by path, relative to the folder.
    """

    kind: str
    seed: int
    files: Mapping[str, bytes]

    @property
    def random(self) -> Random:
        """The source of all choices of this case, from its start on."""
        return Random(self.seed)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.files.values()))

    def with_files(self, files: Mapping[str, bytes]) -> Self:
        """The same choices for other files."""
        return replace(self, files=files)

    def write(self, folder: Path) -> None:
        """Make the files."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def to_json(self) -> str:
        """The case as text; the same case gives the same text."""
        files = {name: base64.b85encode(data).decode() for name, data in sorted(self.files.items())}
        return json.dumps({"kind": self.kind, "seed": self.seed, "files": files}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What ``to_json`` gave."""
        members = json.loads(text)
        files = {name: base64.b85decode(data) for name, data in members["files"].items()}
        return cls(members["kind"], members["seed"], files)


@dataclass(frozen=True, slots=True)
class Fault:
    """A promise that a case broke.

    ``promise`` is one of a few words (``exception``, ``status``, ``evidence``, ...); ``where`` tells one fault from
    another with the same promise; ``detail`` is for people.
    """

    promise: str
    where: str
    detail: str

    @property
    def name(self) -> str:
        """Short, and the same for each case that shows the fault."""
        return f"{self.promise}-{hashlib.sha256(self.where.encode('utf-8', 'replace')).hexdigest()[:10]}"
