"""The bytes of a log in chunks: only those that a range needs are read."""

from __future__ import annotations

import pytest

from kdump.codes import Codes, KdumpError
from kdump.log.source import MemorySource
from kdump.tiered.chunks import ChunkSource, Opening
from kdump.tiered.manifest import ChunkIndex
from kdump.wire import zstdframe

LOG = bytes(range(250))
PARTS = [zstdframe.compress(LOG[start : start + 100]) for start in (0, 100, 200)]
ENDS = [len(b"".join(PARTS[: number + 1])) for number in range(3)]
CHUNKS = ChunkIndex(100, len(LOG), 0, 0, ENDS)


class Counted(MemorySource):
    """Which positions were read."""

    def __init__(self, data: bytes) -> None:
        super().__init__("object", data)
        self.read_at: list[int] = []

    def read(self, position: int, size: int) -> bytes:
        self.read_at.append(position)
        return super().read(position, size)


def source(data: bytes) -> tuple[ChunkSource, Counted]:
    stored = Counted(data)
    return ChunkSource("log", stored, CHUNKS, Opening(is_compressed=True), len(LOG)), stored


def test_a_range_reads_its_chunks() -> None:
    log, stored = source(b"".join(PARTS))
    assert log.read(150, 20) == LOG[150:170]
    assert stored.read_at == [ENDS[0]]
    assert log.read(0, 1000) == LOG
    assert log.read(250, 10) == b""
    assert sorted(stored.read_at) == [0, ENDS[0], ENDS[1]]


def test_a_bad_chunk_is_a_bad_block() -> None:
    data = bytearray(b"".join(PARTS))
    data[ENDS[0]] ^= 1
    log, _ = source(bytes(data))
    assert log.read(0, 100) == LOG[:100]
    assert log.read(200, 50) == LOG[200:]
    with pytest.raises(KdumpError) as raised:
        log.read(50, 100)
    assert (raised.value.code, raised.value.position) == (Codes.REMOTE_OBJECT, 100)


@pytest.mark.parametrize("content", [LOG[:99], LOG[:101]])
def test_a_chunk_of_another_size(content: bytes) -> None:
    with pytest.raises(KdumpError, match=r"100 are due|limit|more"):
        Opening(is_compressed=True).decode(zstdframe.compress(content), 100)


def test_a_cut_object() -> None:
    log, _ = source(b"".join(PARTS)[:-3])
    with pytest.raises(KdumpError, match="chunk 2 at"):
        log.read(0, 250)
