"""The manifest that Aiven's plugin writes for each segment: where its chunks and indexes lie in the objects.

Source: docs/spec/tiered.md#2-manifests.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.wire import zstdframe

LARGEST_MANIFEST: Final = 4 << 20
LARGEST_CHUNK: Final = 256 << 20
"""Bytes of a chunk that is decoded; the plugin makes 4 MiB by default."""
SEALED: Final = 28
"""Bytes that encryption adds to a chunk or an index: the IV before it and the tag after it."""
INDEX_NAMES: Final = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")
"""The indexes of a segment, in the order in which they lie in the object."""


class Span(NamedTuple):
    """Bytes of an object."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The chunks of a log. Each holds ``original`` bytes of it, the last one what is left of ``size``.

    ``ends``: where each chunk ends in the object; None where all have ``stored`` bytes but the last.
    """

    original: int
    size: int
    stored: int
    last: int
    ends: Sequence[int] | None = None

    @property
    def count(self) -> int:
        """How many chunks there are."""
        return -(-self.size // self.original)

    @property
    def stored_size(self) -> int:
        """Bytes of the object."""
        return self.span(self.count - 1).position + self.span(self.count - 1).size if self.count else 0

    def length(self, number: int) -> int:
        """Bytes of the log that are in a chunk."""
        return min(self.original, self.size - number * self.original)

    def span(self, number: int) -> Span:
        """Where a chunk lies in the object."""
        if self.ends is None:
            return Span(number * self.stored, self.last if number + 1 == self.count else self.stored)
        start = self.ends[number - 1] if number else 0
        return Span(start, self.ends[number] - start)


@dataclass(frozen=True, slots=True)
class Sealing:
    """How a segment is encrypted: the id of the key pair, the AES key encrypted with it, and the additional data."""

    key_id: str
    data_key: bytes
    additional: bytes


@dataclass(frozen=True, slots=True)
class ObjectManifest:
    """One segment, as the plugin wrote it."""

    chunks: ChunkIndex
    indexes: Mapping[str, Span]
    is_compressed: bool
    sealing: Sealing | None
    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int
    max_timestamp: int
    leader_epochs: Mapping[int, int]
    copied_at: int | None
    """When the broker began to copy the segment, in ms since 1970; None: it is not said."""

    @property
    def indexes_size(self) -> int:
        """Bytes of the object with the indexes."""
        return max((span.position + span.size for span in self.indexes.values()), default=0)


def parse_manifest(data: bytes) -> ObjectManifest:
    """A manifest. Raises DamageError REMOTE_MANIFEST, with what is wrong; what it says of keys is not shown."""
    try:
        found = json.loads(data)
        if found["version"] != "1":
            raise _damage(f"has the version {str(found['version'])[:20]!r}, kdump reads version 1")
        return _manifest(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        what = f"has no field {error}" if isinstance(error, KeyError) else "is no JSON" if _is_text(error) else "is odd"
        raise _damage(what) from None


def _is_text(error: Exception) -> bool:
    return isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError)


def _manifest(found: Mapping[str, Any]) -> ObjectManifest:
    about = found["remoteLogSegmentMetadata"]
    segment = about["remoteLogSegmentId"]
    owner = segment["topicIdPartition"]
    encryption = found.get("encryption")
    spans = {name: found["segmentIndexes"].get(name) for name in INDEX_NAMES}
    return ObjectManifest(
        _chunk_index(found["chunkIndex"]),
        {name: Span(_size(span["position"]), _size(span["size"])) for name, span in spans.items() if span is not None},
        bool(found["compression"]),
        None if encryption is None else _sealing(encryption),
        str(owner["topicPartition"]["topic"]),
        str(owner["topicId"]),
        _size(owner["topicPartition"]["partition"]),
        str(segment["id"]),
        _size(about["startOffset"]),
        _size(about["endOffset"]),
        int(about["maxTimestampMs"]),
        {int(epoch): _size(offset) for epoch, offset in about["segmentLeaderEpochs"].items()},
        None if about.get("eventTimestampMs") is None else int(about["eventTimestampMs"]),
    )


def _chunk_index(found: Mapping[str, Any]) -> ChunkIndex:
    original, size = _size(found["originalChunkSize"], least=1), _size(found["originalFileSize"])
    if original > LARGEST_CHUNK:
        raise _damage(f"has chunks of {original:,} bytes, kdump reads {LARGEST_CHUNK:,} at most")
    if found["type"] == "fixed":
        stored, last = (_size(found[name], least=1) for name in ("transformedChunkSize", "finalTransformedChunkSize"))
        return ChunkIndex(original, size, stored, last)
    if found["type"] != "variable":
        raise _damage(f"has chunks of the kind {str(found['type'])[:20]!r}")
    sizes = _chunk_sizes(b64decode(found["transformedChunks"], validate=True))
    if len(sizes) != -(-size // original):
        raise _damage(f"has the sizes of {len(sizes):,} chunks, the log has {-(-size // original):,}")
    return ChunkIndex(original, size, 0, 0, list(accumulate(sizes)))


def _chunk_sizes(packed: bytes) -> list[int]:
    """The sizes of the stored chunks: the first one or a base, then how much more each has, then the last one."""
    data = bytes(zstdframe.decompress(memoryview(packed), limit=64 << 20))
    count, first = (int.from_bytes(data[at : at + 4], "big", signed=True) for at in (0, 4))
    if count == 1:
        return [_size(first)]
    width = data[8] if len(data) > 8 else 0
    end = 9 + (count - 1) * width
    if count < 1 or not 1 <= width <= 4 or len(data) != end + 4:
        raise ValueError
    sizes = [first + int.from_bytes(data[at : at + width], "big") for at in range(9, end, width)]
    return [_size(size) for size in (*sizes, int.from_bytes(data[end:], "big", signed=True))]


def _sealing(found: Mapping[str, Any]) -> Sealing:
    key_id, colon, key = found["dataKey"].partition(":")
    if not colon:
        raise ValueError
    return Sealing(key_id, b64decode(key, validate=True), b64decode(found["aad"], validate=True))


def _size(value: Any, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        raise ValueError
    return value


def _damage(message: str) -> DamageError:
    return DamageError(Codes.REMOTE_MANIFEST, message)
