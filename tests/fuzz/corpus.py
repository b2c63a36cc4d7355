"""What the fuzzer damages: the captured partitions of ``fixtures/``, whole and taken apart."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutations import move_far
from tests.harness.archives import case_files
from tests.harness.captures import FIXTURES, Captures
from tests.oracle.crafting import entries

KINDS_07 = ("fetch", "multifetch", "produce", "multiproduce", "offsets")
INTERNAL_TOPICS = (
    "__consumer_offsets",
    "__transaction_state",
    "__cluster_metadata",
    "__remote_log_metadata",
    "__share_group_state",
)
_MOST_BYTES = 120_000
"""Of a file: larger ones cost time and have nothing that smaller ones lack."""
_MOST_OF_AN_ENTRY = 1500
_MOST_ENTRIES = 1500
_LOGS_OF_ROWS = 20
_ROWS_OF_A_LOG = 20
_FAR = 0.05
"""How many of the inputs lie near the largest offset."""


@dataclass(slots=True)
class Corpus:
    """Undamaged and damaged inputs.

    Attributes:
        entries: small entries of logs, by (internal topic or '', magic).
        files: contents by the suffix of the file's name.
        partitions: name of the directory and contents by file name.
        rows: records as ``dump --output jsonl`` shows them.
        logs_07: logs of Kafka 0.7.
        frames: saved requests and responses, by the names of ``dump --frame``.
        zookeeper: data directories of ZooKeeper, contents by path.
        metadata: log directories with a metadata log, contents by path.
    """

    entries: dict[tuple[str, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    files: dict[str, list[tuple[str, bytes]]] = field(default_factory=lambda: defaultdict(list))
    partitions: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    logs_07: list[bytes] = field(default_factory=list)
    frames: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    zookeeper: list[dict[str, bytes]] = field(default_factory=list)
    metadata: list[dict[str, bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, captures: Captures) -> Corpus:
        """Everything that was captured and is small enough."""
        corpus = cls()
        folders = [captures.root / name for name in captures.partitions()]
        folders += sorted(path for path in (FIXTURES / "segments").iterdir() if path.is_dir())
        for folder in folders:
            corpus._take(folder)
        logs = [str(path) for folder in folders for path in sorted(folder.glob("*.log")) if _is_small_file(path)]
        corpus._take_rows(logs[:: max(1, len(logs) // _LOGS_OF_ROWS)])
        corpus._take_kafka07()
        corpus.metadata = _directories("metadata", "__cluster_metadata-0")
        corpus.zookeeper = _directories("zookeeper", "version-2")
        return corpus

    def entry(self, random: Random) -> tuple[str, bytes]:
        """An entry of a log, and its internal topic or ''; batches of magic 2 come most often."""
        keys = list(self.entries)
        weights = [8 if key == ("", 2) else 3 for key in keys]
        (key,) = random.choices(keys, weights)
        (entry,) = _placed({".log": random.choice(self.entries[key])}, random).values()
        return key[0], entry

    def file(self, suffix: str, random: Random) -> tuple[str, bytes]:
        """Name and content of a file whose name ends so."""
        name, data = random.choice(self.files[suffix])
        ((name, data),) = _placed({name: data}, random).items()
        return name, data

    def partition(self, random: Random) -> tuple[str, dict[str, bytes]]:
        """A partition directory: its name, and contents by file name."""
        name, files = random.choice(self.partitions)
        return name, _placed(files, random)

    def metadata_directory(self, random: Random) -> dict[str, bytes]:
        """A log directory with a metadata log, contents by path."""
        return _placed(random.choice(self.metadata), random)

    def _take_kafka07(self) -> None:
        files = {path: data for path, data in case_files("kafka07").items() if 0 < len(data) <= _MOST_BYTES}
        self.logs_07 = [data for path, data in files.items() if path.endswith(".kafka")]
        for path, data in files.items():
            folder, name = Path(path).parent.name, Path(path).name
            if folder == "wire" and name.endswith((".request.bin", ".response.bin")):
                told = json.loads(case_files("kafka07")[f"{path.rpartition('.re')[0]}.json"])
                if (kind := told["request"]["name"]) in KINDS_07:
                    self.frames[kind].append(data)

    def _take(self, folder: Path) -> None:
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if _is_small_file(path)}
        topic = folder.name.rpartition("-")[0]
        topic = topic if topic in INTERNAL_TOPICS else ""
        for name, data in files.items():
            suffix = Path(name.removesuffix(".deleted").removesuffix(".swap")).suffix or name
            self.files[suffix].append((name, data))
            if suffix in (".log", ".checkpoint"):
                self._take_entries(topic, data)
        if any(name.endswith(".log") for name in files):
            self.partitions.append((folder.name, files))

    def _take_rows(self, logs: list[str]) -> None:
        words = ["dump", "--output", "jsonl", "--records", *logs]
        ran = subprocess.run([sys.executable, "-m", "kdump", *words], capture_output=True, check=False)
        rows = map(json.loads, ran.stdout.splitlines())
        for _, of_a_log in groupby(rows, key=itemgetter("file")):
            self.rows += islice(of_a_log, _ROWS_OF_A_LOG)

    def _take_entries(self, topic: str, data: bytes) -> None:
        for start, end in entries(data):
            if end - start <= _MOST_OF_AN_ENTRY:
                own = self.entries[topic, data[start + 16]]
                if len(own) < _MOST_ENTRIES:
                    own.append(data[start:end])


def _directories(archive: str, name: str) -> list[dict[str, bytes]]:
    """The directories of an archive that hold a directory of this name, without large files."""
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    for path, data in case_files(archive).items():
        above, _, file = path.rpartition(f"/{name}/")
        if above and "/" not in file and len(data) <= _MOST_BYTES:
            found[above][f"{name}/{file}"] = data
    return list(found.values())


def _placed(files: dict[str, bytes], random: Random) -> dict[str, bytes]:
    return move_far(files, random) if random.random() < _FAR else dict(files)


def _is_small_file(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _MOST_BYTES
