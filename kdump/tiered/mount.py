"""The stores of partitions of this process: which bucket and which log directory each is made of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, quote

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import META_PROPERTIES
from kdump.log import files, tiers
from kdump.log.names import is_uri, parse_file_name, parse_partition_directory
from kdump.log.tiers import Tier
from kdump.log.uris import parse_uri
from kdump.tiered.bucket import Bucket
from kdump.tiered.keys import KeyRing
from kdump.tiered.objects import LOG, MANIFEST, BucketLayout, parse_object
from kdump.tiered.store import TierStore
from kdump.worlds import REMOTE_STORAGE

_MOST_LISTINGS: Final = 200
"""Directories that are looked into until an object of a plugin is found."""
_stores: Final[dict[str, TierStore]] = {}
"""By their roots, for as long as the process lives."""


def named(path: str, tier: Tier) -> str:
    """See ``tiers.named``. Raises KdumpError where a bucket that was named is none."""
    own = tiers.Tier(None, tier.keys)
    if (name := _object_file(path)) is not None:
        return _mount(os.path.dirname(path), own).root + name
    if files.is_directory(path) and (tier.bucket is None or not _is_local(path)) and _finds_objects(path):
        return _mount(path, own).root
    if tier.bucket is None:
        return path
    return _beside(path, tier)


def store_of(path: str) -> TierStore:
    """The store that a path with the scheme of a tier lies in.

    Raises:
        KdumpError: MISSING, there is none.
    """
    uri = parse_uri(path)
    if uri.query:
        given = parse_qsl(uri.query, keep_blank_values=True)
        keys = dict(value.split("=", 1) for name, value in given if name == "key")
        found = dict(given)
        joined = found.get("logs")
        return _mount(found["bucket"], Tier(None, keys), joined or found.get("metadata"), joins=joined is not None)
    clean = uri.clean
    for root in sorted(_stores, key=len, reverse=True):
        if clean == root or clean.startswith(f"{root}/"):
            return _stores[root]
    real = _real(clean)
    while real.strip("/") and not real.endswith(":/"):
        if files.is_directory(real) and _finds_objects(real):
            return _mount(real, tiers.given())
        real = os.path.dirname(real)
    raise KdumpError(Codes.MISSING, "no bucket of remote storage", path=clean)


def apart(path: str) -> Iterator[str]:
    """What a path of a store is in the log directory that it joins, and in the bucket alone; one of them may lack it.

    The metadata in the log directory still says what the objects are. A path of a store that joins none is one part.

    Raises:
        KdumpError: the bucket cannot be listed; what the log directory has comes before.
    """
    store = store_of(path)
    local = store.local_path(path)
    if local is None:
        yield path
        return
    is_local = files.exists(local)
    if is_local:
        yield local
    keys = Tier(None, store.bucket.ring.files)
    bucket = _mount(store.bucket.root, keys, store.metadata, joins=False)
    remote = path.replace(store.root, bucket.root, 1)
    if bucket.has(remote) or not is_local:
        yield remote


def _beside(path: str, tier: Tier) -> str:
    """The name of what lies in a log directory, in the store that joins it and the bucket."""
    whole = files.absolute(path).rstrip("/")
    above, rest = whole, ""
    while not _is_log_directory(above):
        above, _, name = above.rpartition("/")
        rest = f"/{name}{rest}"
        if rest.count("/") > 2 or not above:
            # It is no part of a log directory.
            return path
    assert tier.bucket is not None
    return _mount(_plain(tier.bucket), tier, above, joins=True).root + rest


def _is_log_directory(path: str) -> bool:
    if parse_file_name(path) is not None or parse_partition_directory(os.path.basename(path)) is not None:
        return False
    if files.exists(os.path.join(path, META_PROPERTIES)):
        return True
    try:
        return any(parse_partition_directory(entry.name) is not None for entry in files.listing(path))
    except KdumpError:
        return False


def _is_local(path: str) -> bool:
    name = os.path.basename(files.absolute(path).rstrip("/"))
    return parse_partition_directory(name) is not None or _is_log_directory(path)


def _mount(bucket: str, tier: Tier, metadata: str | None = None, *, joins: bool = False) -> TierStore:
    """A store, see ``TierStore``. One with the same root takes its place: the bucket may have changed."""
    bucket = files.absolute(_plain(bucket)).rstrip("/")
    if metadata is not None:
        metadata = files.absolute(_plain(metadata)).rstrip("/")
    real = metadata if joins and metadata is not None else bucket
    root = f"{REMOTE_STORAGE.scheme}+{real}" if is_uri(real) else f"{REMOTE_STORAGE.scheme}://{quote(real)}"
    _stores[root] = TierStore(root, Bucket(bucket, KeyRing(tier.keys)), metadata, joins=joins)
    return _stores[root]


def _plain(path: str) -> str:
    """A path of a bucket or of a log directory without credentials, which are remembered."""
    if not is_uri(path):
        return path
    from kdump.log import stores

    return stores.strip_credentials(path)


def _real(path: str) -> str:
    return (
        path.removeprefix(f"{REMOTE_STORAGE.scheme}+")
        if path.startswith(f"{REMOTE_STORAGE.scheme}+")
        else path.removeprefix(f"{REMOTE_STORAGE.scheme}://")
    )


def _object_file(path: str) -> str | None:
    """Where an object lies below the root of a store of its directory; None: it is no object that is read so."""
    found = parse_object(files.absolute(path))
    if found is None or found.layout is not BucketLayout.AIVEN:
        return None
    manifest = f"{path.rpartition('.')[0]}.{MANIFEST}"
    if found.kind not in (LOG, MANIFEST) or not files.exists(manifest):
        return None
    bucket = Bucket(os.path.dirname(path), KeyRing({}))
    topic = bucket.topic([one for segments in bucket.segments.values() for one in segments])
    return f"/{topic}-{found.partition}/{found.base_offset:020d}.log"


def _finds_objects(path: str) -> bool:
    return any(parse_object(one) is not None for one in _some_files(path))


def _some_files(path: str) -> Iterator[str]:
    """Files under a directory: of each directory those that come first."""
    waiting = [files.absolute(path)]
    for _ in range(_MOST_LISTINGS):
        if not waiting:
            return
        try:
            entries = files.listing(waiting.pop())
        except KdumpError:
            continue
        yield from (entry.path for entry in entries if not entry.is_directory)
        waiting += sorted((entry.path for entry in entries if entry.is_directory), reverse=True)
