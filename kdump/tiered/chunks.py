"""The bytes of a log whose object holds it in chunks, which are compressed, encrypted, both or neither.

Only the chunks that a range needs are read. A chunk that does not decode is like a block of a disk that cannot be read:
the chunks around it are.

Source: docs/spec/tiered.md#3-chunks.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from kdump.codes import Codes, DamageError, KdumpError
from kdump.log.source import Source
from kdump.tiered.keys import unseal
from kdump.tiered.manifest import ChunkIndex
from kdump.wire import zstdframe

_KEPT_BYTES: Final = 16 << 20
"""Bytes of decoded chunks that are kept, or one chunk."""


class Opening:
    """How the bytes of a segment are decoded. ``key``: of AES, None where nothing is encrypted."""

    def __init__(self, key: bytes | None = None, additional: bytes = b"", *, is_compressed: bool = False) -> None:
        self._key = key
        self._additional = additional
        self._is_compressed = is_compressed

    @property
    def is_plain(self) -> bool:
        """The object holds the very bytes."""
        return self._key is None and not self._is_compressed

    def decode(self, data: bytes, size: int, *, is_index: bool = False) -> bytes:
        """The ``size`` bytes of a chunk, or of an index, which is never compressed. DamageError where not."""
        if self._key is not None:
            opened = unseal(self._key, self._additional, data)
            if opened is None:
                raise DamageError(Codes.REMOTE_OBJECT, "the tag of the encryption does not fit")
            data = opened
        if self._is_compressed and not is_index:
            try:
                data = bytes(zstdframe.decompress(memoryview(data), limit=size + 1))
            except DamageError as error:
                raise DamageError(Codes.REMOTE_OBJECT, f"does not decompress: {error.message}") from None
        if len(data) != size:
            raise DamageError(Codes.REMOTE_OBJECT, f"has {len(data):,} bytes, {size:,} are due")
        return data


class ChunkSource(Source):
    """A log in an object.

    Args:
        path: what the log is called.
        stored: the object.
        chunks: where its chunks are.
        opening: how they are decoded.
        size: bytes of the log that count, from its start on.
    """

    def __init__(self, path: str, stored: Source, chunks: ChunkIndex, opening: Opening, size: int) -> None:
        super().__init__(path, size)
        self._stored = stored
        self._chunks = chunks
        self._opening = opening
        self._kept: OrderedDict[int, bytes | KdumpError] = OrderedDict()
        self._most_kept = max(1, _KEPT_BYTES // chunks.original)

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source."""
        filled = 0
        assert self.size is not None
        view = view[: max(0, self.size - position)]
        while filled < len(view):
            number, start = divmod(position + filled, self._chunks.original)
            part = self._chunk(number)[start : start + len(view) - filled]
            view[filled : filled + len(part)] = part
            filled += len(part)
        return filled

    def check(self) -> list[KdumpError]:
        """The errors of all chunks that do not decode."""
        errors = []
        for number in range(self._chunks.count):
            try:
                self._chunk(number)
            except KdumpError as error:
                errors.append(error)
        return errors

    def close(self) -> None:
        """See Source."""
        self._stored.close()

    def _chunk(self, number: int) -> bytes:
        found = self._kept.get(number)
        if found is None:
            try:
                found = self._decoded(number)
            except KdumpError as error:
                found = error
            self._kept[number] = found
            if len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
        if isinstance(found, KdumpError):
            raise found
        return found

    def _decoded(self, number: int) -> bytes:
        span = self._chunks.span(number)
        at = number * self._chunks.original
        data = self._stored.read(span.position, span.size)
        try:
            if len(data) < span.size:
                raise DamageError(Codes.REMOTE_OBJECT, f"has {len(data):,} of {span.size:,} bytes")
            return self._opening.decode(data, self._chunks.length(number))
        except DamageError as error:
            what = f"chunk {number} at {span.position:,} of {self._stored.path}: {error.message}"
            raise KdumpError(Codes.REMOTE_OBJECT, what, path=self.path, position=at) from None
