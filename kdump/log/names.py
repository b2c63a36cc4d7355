"""What a file name says: which kind of file, which base offset, which partition.

Source: docs/spec/formats.md#5-directories-and-names (KIP-405 for names in remote storage).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from kdump.system.paths import absolute_path
from kdump.worlds import World, world_of_log


class Kind(Enum):
    """File kinds by their suffix."""

    LOG = ".log"
    CHECKPOINT = ".checkpoint"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"
    WORLD_LOG = "a log of another world"
    """It has no sibling files, and a suffix of its own; see ``kdump.worlds``."""


INDEX_KINDS: Final = (Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)
"""Files that Kafka derives from a .log and keeps beside it."""
SWAP_STATE: Final = ".swap"
CLEANER_STATES: Final = (".cleaned", SWAP_STATE)
STATE_SUFFIXES: Final = (".deleted", *CLEANER_STATES, ".part")
"""Suffixes of a whole file name while a broker adds or removes the file."""

MAX_OFFSET: Final = 2**63 - 1
"""The largest offset: Java's largest long."""

META_PROPERTIES: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
OFFSET_CHECKPOINTS: Final = frozenset(
    {
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    }
)
"""Files of a log directory with an offset for each partition."""
SIBLING_TEXT_FILES: Final = frozenset({"leader-epoch-checkpoint", "partition.metadata", "quorum-state"})
"""Text files that belong in a partition directory."""
LOG_DIRECTORY_TEXT_FILES: Final = OFFSET_CHECKPOINTS | {META_PROPERTIES, ".kafka_cleanshutdown"}
"""Text files that belong in a log directory."""
PROPERTY_FILES: Final = frozenset({"partition.metadata", "quorum-state", META_PROPERTIES, ".kafka_cleanshutdown"})
"""Text files with a few properties, of some hundred bytes."""
TEXT_FILES: Final = SIBLING_TEXT_FILES | LOG_DIRECTORY_TEXT_FILES
"""All of them, as ``format.checkpoint`` reads them."""

SNAPSHOT_NAME: Final = "<20-digit end offset>-<10-digit epoch>.checkpoint"
"""What the name of a snapshot of the metadata log looks like, for messages."""
BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
LOG_DIRECTORY_MARKERS: Final = frozenset({META_PROPERTIES, ".kafka_cleanshutdown", BOOTSTRAP_CHECKPOINT})
"""Files that only a log directory holds; each proves one. The last one is written up to Kafka 4.3."""

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
CLUSTER_METADATA: Final = "__cluster_metadata"
"""The topic of KRaft's log and of its snapshots."""
METADATA_DIRECTORY: Final = f"{CLUSTER_METADATA}-0"
"""Its only partition."""

_REMOTE: Final = re.compile(r"(\d{20})-[0-9A-Za-z_-]{22}")
# File names have 255 characters at most; Python reads numbers of up to 4,300 digits.
_LEADING_OFFSET: Final = re.compile(r"[+-]?\d{1,1024}")
_PARTITION: Final = re.compile(
    r"(?P<topic>.+)-(?P<partition>\d{1,1024})(?:\.[0-9A-Za-z_-]+-(?:delete|future|stray))?", re.DOTALL
)
"""Also a topic with a line feed, which a broker takes as one."""
NO_PARTITIONS: Final = frozenset({"remote-log-index-cache"})
"""Directories of the broker among the partitions."""
WITHOUT_LINES: Final = ("-delete", "-stray")
"""Ends of the names of partition directories of which a broker writes no lines into checkpoints."""

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class FileName(NamedTuple):
    """A file's name, taken apart.

    ``stem``, the text before the first dot, is what siblings share. ``state`` is a suffix of STATE_SUFFIXES, or ''.
    ``base_offset`` is None where the stem is no number. ``world``: whose log it is; None: a file of today.
    """

    kind: Kind
    stem: str
    state: str
    base_offset: int | None
    world: World | None = None

    @property
    def is_remote(self) -> bool:
        """The name is that of a file in remote storage (``<offset>-<uuid>.log``)."""
        return _REMOTE.fullmatch(self.stem) is not None


def is_uri(path: str) -> bool:
    """``path`` has a scheme (``s3://...``): it is no path of this machine's file system."""
    return "://" in path and _URI.match(path) is not None


def last_name(path: str) -> str:
    """The last name in a path, also of one that ends with a slash."""
    return path.rstrip("/").rpartition("/")[2] if "/" in path else path


def parse_file_name(path: str) -> FileName | None:
    """The parts of a segment file's name; None for any other file.

    An inner suffix counts (``.log.deleted``), and so does a name in remote storage (``<offset>-<uuid>.log``).
    """
    return _parsed(last_name(path))


@lru_cache(maxsize=1 << 12)
def _parsed(name: str) -> FileName | None:
    state = next((suffix for suffix in STATE_SUFFIXES if name.endswith(suffix)), "")
    name = name.removesuffix(state)
    dot = name.rfind(".")
    stem = name.partition(".")[0]
    try:
        kind = Kind(name[dot:] if dot >= 0 else "")
    except ValueError:
        world = world_of_log(name)
        return None if world is None else FileName(Kind.WORLD_LOG, stem, state, parse_offset(stem), world)
    remote = _REMOTE.fullmatch(stem)
    return FileName(kind, stem, state, parse_offset(remote.group(1) if remote else stem))


def parse_offset(text: str) -> int | None:
    """A number as Java's long; None where it is none."""
    offset = int(text) if _LEADING_OFFSET.fullmatch(text) else None
    return offset if offset is not None and -(2**63) <= offset < 2**63 else None


def sibling(path: str, kind: Kind) -> str:
    """The path of ``path``'s sibling of another kind, with the same state suffix."""
    directory, slash, name = path.rpartition("/")
    parsed = _parsed(name)
    if parsed is None:
        raise ValueError(f"{path} is no segment file")
    return f"{directory}{slash}{parsed.stem}{kind.value}{parsed.state}"


@lru_cache(maxsize=1 << 10)
def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a ``<topic>-<n>`` directory name, its -delete, -future and -stray forms included."""
    match = _PARTITION.fullmatch(name)
    return (match["topic"], int(match["partition"])) if match else None


def no_partition_name(name: str) -> str:
    """Why the name of a directory is no ``<topic>-<n>``."""
    what = "the name is not <topic>-<number>"
    topic, mark, number = name.rpartition("_")
    if topic and mark and number.isascii() and number.isdecimal():
        what += f": a hyphen stands before the number, as in {topic}-{number}, and not an underscore"
    return what


def owner_of_lines(name: str, is_there: Callable[[str], bool]) -> tuple[str, int] | None:
    """The partition whose lines in the checkpoints of the log directory are those of a partition directory.

    Source: docs/spec/formats.md#5-directories-and-names.

    Args:
        name: of the directory.
        is_there: whether the log directory has an entry of a name.

    Returns:
        (topic, partition); None: the directory has no lines, or they are those of another one beside it.
    """
    if name.endswith(WITHOUT_LINES) or is_beside_owner(name, is_there):
        return None
    return parse_partition_directory(name)


def is_beside_owner(name: str, is_there: Callable[[str], bool]) -> bool:
    """Whether a partition directory with another name than ``TOPIC-N`` lies beside that one, which owns the lines."""
    partition = parse_partition_directory(name)
    if partition is None:
        return False
    owner = f"{partition[0]}-{partition[1]}"
    return name != owner and is_there(owner)


def is_topic_name(name: str) -> bool:
    """A broker makes topics of this name."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def partition_of_file(path: str) -> tuple[str, int] | None:
    """(topic, partition) of the directory that a file lies in; None when that is no ``<topic>-<n>``."""
    whole = path if is_uri(path) else absolute_path(path)
    return parse_partition_directory(os.path.basename(os.path.dirname(whole)))


def base_of(path: str) -> int:
    """The base offset in a file name, 0 without one."""
    name = parse_file_name(path)
    return 0 if name is None or name.base_offset is None else name.base_offset
