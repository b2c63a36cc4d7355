"""Which PATHs are buckets of remote storage (KIP-405), and what a run was told of them: --tier and --key-ring.

Everything else about buckets is in the package ``tiered``, which is imported where one is met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from kdump.log.named import STDIN, ListingEntry
from kdump.log.names import LOG_DIRECTORY_MARKERS, parse_file_name, parse_partition_directory
from kdump.worlds import REMOTE_STORAGE, world_of_store

_LOCAL_FOLDER: Final = re.compile(r".+-\d+-[0-9A-Za-z_-]{22}", re.DOTALL)
"""The name of a directory of LocalTieredStorage, which may look like that of a partition."""


class Tier(NamedTuple):
    """What a run was told: the bucket beside the log directories, and the files with keys by their ids."""

    bucket: str | None = None
    keys: Mapping[str, str] = {}


_given: ContextVar[Tier] = ContextVar("_given", default=Tier())  # noqa: B039


def given() -> Tier:
    """What this run was told."""
    return _given.get()


def tell(tier: Tier) -> None:
    """From now on this is what the run was told."""
    _given.set(tier)


@contextmanager
def told(tier: Tier) -> Iterator[None]:
    """What a run was told, while it runs."""
    token = _given.set(tier)
    try:
        yield
    finally:
        _given.reset(token)


def named(path: str, listing: Callable[[str], Sequence[ListingEntry]]) -> str:
    """The name that kdump uses for a PATH, without credentials: that in a store of partitions, where it is in one.

    ``listing``: of a directory; nothing of anything else.
    """
    if path == STDIN or world_of_store(path) is not None:
        return path
    tier = given()
    if tier.bucket is None and not _may_be_a_bucket(path, listing):
        return path
    found: str = REMOTE_STORAGE.answer("mount").named(path, tier)
    return found


def apart(path: str) -> Iterable[str]:
    """What --tier joins in a PATH: what a broker has, and what the bucket has; any other PATH is one part.

    Raises:
        KdumpError: the bucket cannot be listed; what the broker has comes before.
    """
    world = world_of_store(path)
    parts: Iterable[str] = (path,) if world is None else world.answer("mount").apart(path)
    return parts


def _may_be_a_bucket(path: str, listing: Callable[[str], Sequence[ListingEntry]]) -> bool:
    """It is an object of one by its name, or a directory that is neither a log directory nor a partition."""
    if path.endswith((".rsm-manifest", ".indexes")):
        return True
    name = parse_file_name(path)
    if name is not None:
        return name.is_remote and not name.state
    folder = path.rstrip("/").rpartition("/")[2]
    if parse_partition_directory(folder) is not None and not _LOCAL_FOLDER.fullmatch(folder):
        return False
    entries = listing(path)
    return bool(entries) and not any(map(_is_of_a_broker, entries))


def _is_of_a_broker(entry: ListingEntry) -> bool:
    """The entry is one of a log directory or of a partition."""
    if entry.is_directory:
        return parse_partition_directory(entry.name) is not None and not _LOCAL_FOLDER.fullmatch(entry.name)
    name = parse_file_name(entry.name)
    return entry.name in LOG_DIRECTORY_MARKERS or (
        name is not None and not name.is_remote and name.base_offset is not None
    )
