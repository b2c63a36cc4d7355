"""The two checksums of the log formats.

Source: docs/spec/formats.md#2-messages-v0-and-v1, docs/spec/formats.md#3-record-batches-v2.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Protocol, TypeAlias, cast

Buffer: TypeAlias = bytes | bytearray | memoryview


class Checksum(Protocol):
    """A CRC of a buffer. Given the CRC of the bytes before it, the result is that of both together."""

    def __call__(self, data: Buffer, crc: int = 0, /) -> int:
        """The CRC, 0 to 2^32 - 1."""


def _load_crc32c() -> Checksum:
    """The C function of the ``crc32c`` package without the package's ``__init__``.

    That ``__init__`` looks its own version up through importlib.metadata, which costs 20-50 ms: a third of the
    dump of a small segment. The plain import is the fallback.
    """
    package = find_spec("crc32c")
    spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if not spec or not spec.loader:
        from crc32c import crc32c

        return cast(Checksum, crc32c)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Checksum = module.crc32c
    return function


def _load_crc32() -> Checksum:
    """The CRC-32 of Intel's ISA-L, else zlib's.

    ISA-L takes half the time for messages of 200 bytes, and less for larger ones. It has wheels for x86 and ARM; it
    need not be installed.
    """
    try:
        from isal.isal_zlib import crc32
    except ImportError:
        from zlib import crc32
    return crc32


crc32c = _load_crc32c()
"""CRC-32C (Castagnoli): v2 batches from the attributes on, producer snapshots from the count on."""


crc32 = _load_crc32()
"""CRC-32 (IEEE 802.3): messages of magic 0 and 1, from the magic byte on."""
