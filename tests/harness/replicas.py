"""Copies of partitions: those of fixtures/cases/replicas.tar.zst with what real Kafka does of them, and made ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kdump.codes import KdumpError
from kdump.diff.comparison import Comparison, CopyDifference
from kdump.diff.contents import DiffOptions
from kdump.diff.copies import LoadedCopy, load
from kdump.diff.places import copies_of
from kdump.inputs import resolve
from tests.harness.archives import cases, unpack_cases
from tests.harness.batches import plain_rows, v2_batch


def fail(error: KdumpError) -> None:
    """What takes errors where there must be none."""
    raise error


def loaded(path: Path | str) -> LoadedCopy:
    """The copy in a partition directory, or the segment."""
    (place,) = copies_of(resolve(str(path)), fail).copies
    return load(place)


def compared(*paths: Path | str, only_content: bool = False) -> list[CopyDifference]:
    """The differences of copies."""
    return Comparison([loaded(path) for path in paths], DiffOptions(only_content=only_content)).differences()


def told(differences: Iterable[CopyDifference]) -> list[tuple[str, int | None, int | None, tuple[int, ...]]]:
    """Kind, range and copies of each, without the words."""
    return [(one.kind.word, one.first_offset, one.last_offset, one.copies) for one in differences]


@dataclass
class Truth:
    """The unpacked cases; a copy is loaded once."""

    root: Path
    lines: list[dict[str, Any]]
    _copies: dict[str, LoadedCopy] = field(default_factory=dict)

    @classmethod
    def unpacked(cls, folder: Path) -> Truth:
        """Of the archive, in ``folder``."""
        root = unpack_cases("replicas", folder)
        return cls(root, list(cases(root)))

    def copy(self, directory: str) -> LoadedCopy:
        """The copy of a line, as ``leader`` or ``follower`` names it."""
        if directory not in self._copies:
            self._copies[directory] = loaded(self.root / directory)
        return self._copies[directory]

    def pair(self, line: dict[str, Any]) -> tuple[LoadedCopy, LoadedCopy]:
        """The leader and the follower of a line."""
        return self.copy(line["leader"]), self.copy(line["follower"])

    def comparison(self, line: dict[str, Any]) -> Comparison:
        """Of the two copies of a line."""
        return Comparison(self.pair(line), DiffOptions())


@dataclass
class MadeBatch:
    """A batch of a made copy: its first offset, how many records, under which leader epoch, with what in it."""

    base: int
    count: int = 5
    epoch: int = 0
    header: dict[str, int] = field(default_factory=dict)
    key: bytes | None = None
    value: bytes | None = b"value"

    def data(self) -> bytes:
        """Its bytes."""
        rows = [
            replace(row, key=row.key if self.key is None else self.key, value=self.value)
            for row in plain_rows(self.count)
        ]
        return v2_batch(rows, base_offset=self.base, partition_leader_epoch=self.epoch, **self.header)


def make_copy(
    folder: Path,
    segments: Sequence[Sequence[MadeBatch]],
    *,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    bases: Sequence[int] | None = None,
    topic_id: str = "A5THfWO6RnCFvJyvQ0gEvg",
) -> Path:
    """A partition directory; ``bases``: base offsets of segments that begin before their first batch."""
    folder.mkdir(parents=True)
    for number, batches in enumerate(segments):
        base = batches[0].base if bases is None else bases[number]
        (folder / f"{base:020}.log").write_bytes(b"".join(batch.data() for batch in batches))
    lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return folder


def make_log_directory(
    folder: Path,
    *,
    node: int,
    offsets: dict[str, dict[tuple[str, int], int]] | None = None,
    is_clean: bool = True,
    cluster: str = "abcdefghijklmnopqrstuv",
) -> Path:
    """The files of a log directory; ``offsets``: by the name of the checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id={cluster}\n")
    for name, entries in (offsets or {}).items():
        lines = "".join(f"{topic} {partition} {offset}\n" for (topic, partition), offset in entries.items())
        (folder / name).write_text(f"0\n{len(entries)}\n{lines}")
    if is_clean:
        (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return folder
