"""Which PATHs are buckets of remote storage (KIP-405), and what a run was told of them: --tier and --key-ring.

Everything else about buckets is in the package ``tiered``, which is imported where one is met.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from kdump.codes import KdumpError
from kdump.log import files
from kdump.log.names import LOG_DIRECTORY_MARKERS, is_uri, parse_file_name, parse_partition_directory

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


def named(path: str) -> str:
    """The name that kdump uses for a PATH, without credentials: that in a store of partitions, where it is in one."""
    from kdump.log.named import STDIN
    from kdump.log.stores import TIER

    if path == STDIN or path.startswith(f"{TIER}:") or path.startswith(f"{TIER}+"):
        return path
    tier = given()
    if tier.bucket is None and not _may_be_a_bucket(path):
        return path
    found: str = importlib.import_module("kdump.tiered.mount").named(path, tier)
    return found


def _may_be_a_bucket(path: str) -> bool:
    """It is an object of one by its name, or a directory that is neither a log directory nor a partition."""
    if path.endswith((".rsm-manifest", ".indexes")):
        return True
    name = parse_file_name(path)
    if name is not None:
        return name.is_remote and not name.state
    try:
        if not (is_uri(path) or os.path.isdir(path)) or not files.is_directory(path):
            return False
        entries = files.listing(path)
    except KdumpError:
        return False
    for entry in entries:
        parsed = parse_file_name(entry.name)
        if entry.name in LOG_DIRECTORY_MARKERS or (
            parsed is not None and not entry.is_directory and not parsed.is_remote
        ):
            return False
        if entry.is_directory and parse_partition_directory(entry.name) and not _LOCAL_FOLDER.fullmatch(entry.name):
            return False
    return bool(entries)
