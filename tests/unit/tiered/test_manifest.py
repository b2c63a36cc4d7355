"""Manifests and chunk indexes."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import pytest

from kdump.codes import Codes, DamageError
from kdump.tiered.manifest import Span, parse_manifest
from kdump.wire import zstdframe
from tests.harness.tiers import AES, ZSTD

MANIFEST: dict[str, Any] = json.loads(next(ZSTD.glob("env1-txn-*/0/*.rsm-manifest")).read_bytes())


def packed(*parts: bytes) -> str:
    return b64encode(zstdframe.compress(b"".join(parts))).decode()


def with_chunks(**index: Any) -> bytes:
    return json.dumps(MANIFEST | {"chunkIndex": index}).encode()


def test_fixed_chunks() -> None:
    found = parse_manifest(
        with_chunks(
            type="fixed",
            originalChunkSize=10,
            originalFileSize=25,
            transformedChunkSize=38,
            finalTransformedChunkSize=33,
        )
    ).chunks
    assert [found.span(number) for number in range(found.count)] == [Span(0, 38), Span(38, 38), Span(76, 33)]
    assert [found.length(number) for number in range(3)] == [10, 10, 5]
    assert found.stored_size == 109


@pytest.mark.parametrize("width", [1, 2, 4])
def test_variable_chunks(width: int) -> None:
    more = b"".join(number.to_bytes(width, "big") for number in (5, 0))
    chunks = packed(struct.pack(">iib", 3, 100, width), more, struct.pack(">i", 7))
    found = parse_manifest(
        with_chunks(type="variable", originalChunkSize=10, originalFileSize=30, transformedChunks=chunks)
    ).chunks
    assert [found.span(number) for number in range(3)] == [Span(0, 105), Span(105, 100), Span(205, 7)]
    assert found.stored_size == 212


def test_one_variable_chunk() -> None:
    index = {"type": "variable", "originalChunkSize": 10, "originalFileSize": 9}
    found = parse_manifest(with_chunks(**index, transformedChunks=packed(struct.pack(">ii", 1, 17)))).chunks
    assert found.span(0) == Span(0, 17)


def test_what_the_manifest_says() -> None:
    found = parse_manifest(next(AES.rglob("*.rsm-manifest")).read_bytes())
    assert (found.topic, found.start_offset, found.end_offset, found.is_compressed) == ("txn", 0, 59, True)
    assert found.sealing is not None
    assert found.sealing.key_id == "key-1"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 10_000,
        json.dumps(MANIFEST | {"version": "2"}).encode(),
        json.dumps({name: value for name, value in MANIFEST.items() if name != "segmentIndexes"}).encode(),
        with_chunks(type="other", originalChunkSize=1, originalFileSize=1),
        with_chunks(type="fixed", originalChunkSize=0, originalFileSize=1),
        with_chunks(type="fixed", originalChunkSize=1 << 40, originalFileSize=1),
        with_chunks(type="variable", originalChunkSize=10, originalFileSize=30, transformedChunks="!"),
        with_chunks(type="variable", originalChunkSize=10, originalFileSize=99, transformedChunks=packed(b"\0" * 8)),
    ],
)
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(DamageError) as raised:
        parse_manifest(data)
    assert raised.value.code is Codes.REMOTE_MANIFEST
