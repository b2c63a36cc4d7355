"""The index files beside a log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from kdump.codes import KdumpError
from kdump.log.names import INDEX_KINDS, Kind, parse_file_name, sibling
from kdump.log.opening import open_source

_BLOCK: Final = 1 << 20


def has_indexes(path: str) -> bool:
    """A log of this name has index files; a KRaft checkpoint has none."""
    name = parse_file_name(path)
    return name is not None and name.kind is Kind.LOG


def has_txn_index(path: str) -> bool:
    """There is a .txnindex beside the log ``path``."""
    return os.path.lexists(sibling(path, Kind.TXN_INDEX))


def differing(path: str, contents: Mapping[Kind, bytes], kinds: Iterable[Kind] = INDEX_KINDS) -> dict[Kind, bytes]:
    """Those of ``contents`` (the index files of the log ``path`` as they should be) that the files do not hold.

    Zeros behind the entries, as the files of a running or killed broker have them, make no difference.
    """
    return {kind: contents[kind] for kind in kinds if kind in contents and not _holds(path, kind, contents[kind])}


def _holds(path: str, kind: Kind, content: bytes) -> bool:
    name = sibling(path, kind)
    if not os.path.lexists(name):
        return False
    try:
        with open_source(name) as source:
            if source.read(0, len(content)) != content:
                return False
            position = len(content)
            while found := source.read(position, _BLOCK):
                if found.count(0) < len(found):
                    return False
                position += len(found)
    except KdumpError:
        return False
    return True
