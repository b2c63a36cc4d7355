"""The runs of older versions of DumpLogSegments that kdump is compared with, and their goldens.

``fixtures/dialects.tar.zst`` holds ``<dialect>/<partition>/<run>.out``, ``.err`` and ``.rc``;
``python -m tests.oracle.make_dialects`` makes it. A run is named ``<file>.<flags>``, or ``ALL.<flags>``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.harness.archives import unpack_archive
from tests.harness.captures import FIXTURES, Captures
from tests.harness.flags import FlagSet, by_dialect, topic_decoder
from tests.harness.outcome import Outcome

ARCHIVE = FIXTURES / "dialects.tar.zst"
GROUPS = {
    "0.8.2": ("0.8.2.2",),
    "0.10.2": ("0.8.2.2", "0.10.2.2"),
    "1.0": ("0.8.2.2", "0.10.2.2", "1.1.1"),
    "1.1": ("0.8.2.2", "0.10.2.2", "1.1.1"),
    "2.8": ("0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2"),
    "3.9": ("0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2", "3.9.1"),
    "4.1": ("0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2", "3.9.1"),
}
"""The captures that a version can read: those of brokers that are not newer, or wrote the same format."""
_LARGEST = 64 << 10
"""Bytes of the files of a partition that has goldens."""
_LOG_FLAGS = ("default", "deep", "print", "deepprint", "skipmeta", "maxbytes1000")
_INDEX_FLAGS = ("default", "verify", "sanity")
_CAPTURED_AT = b"/captures/"
_DAMAGED = "damaged/"
_LATER = ("dec-", "ckpt-", "log-magic-3")
"""Damage of files that the older versions did not know, or of what they decode in another way."""


def partitions(captures: Captures, dialect: str, *, largest: int = _LARGEST) -> list[str]:
    """The partitions that a version can read: of its own brokers, of older ones, and all that are damaged."""
    return [
        name
        for name in captures.partitions()
        if name.partition("/")[0] in (*GROUPS[dialect], "damaged")
        and not name.removeprefix(_DAMAGED).startswith(_LATER)
        and captures.size(name) <= largest
    ]


def with_goldens(captures: Captures, dialect: str) -> list[str]:
    """Those that have goldens: of the newest of these brokers and of two older ones, and every fifth damaged one."""
    found = partitions(captures, dialect)
    damaged = [name for name in found if name.startswith(_DAMAGED)]
    own = [name for name in found if name.startswith(GROUPS[dialect][-1])]
    older = [name for name in found if name.endswith(("/v0-gzip-0", "/v1-lat-0")) and name not in own]
    return [*own, *older, *damaged[::5]]


def runs(captures: Captures, dialect: str, partition: str) -> Iterator[tuple[str, list[str], FlagSet]]:
    """(name, files, flags) of all runs over a partition."""
    sets = by_dialect(dialect)
    names = [path.name for path in captures.segment_files(partition)]
    decoder = topic_decoder(partition)
    for name in names:
        flags = _INDEX_FLAGS if name.endswith("index") else ("default",)
        if name.endswith((".log", ".checkpoint")):
            flags = _LOG_FLAGS if decoder is None else (*_LOG_FLAGS, decoder, f"{decoder}-skipmeta")
        for flag in flags:
            if flag in sets:
                yield f"{name}.{flag}", [name], sets[flag]
    if len(names) > 1:
        yield "ALL.deepprint", names, sets["deepprint"]


def as_captured(data: bytes, directory: Path) -> bytes:
    """What a golden holds: without the directory in which it was made."""
    return data.replace(f"{directory}/".encode(), _CAPTURED_AT)


def unpacked(target: Path) -> Path:
    """The goldens, unpacked into ``target``."""
    unpack_archive(ARCHIVE, target)
    return target


def golden(root: Path, dialect: str, partition: str, run: str, directory: Path) -> Outcome:
    """A golden, as if the tool had run over the files of ``directory``."""
    base = root / dialect / partition / run
    texts = [
        base.with_name(f"{base.name}.{part}").read_bytes().replace(_CAPTURED_AT, f"{directory}/".encode())
        for part in ("out", "err")
    ]
    return Outcome(*texts, int(base.with_name(f"{base.name}.rc").read_text()))
