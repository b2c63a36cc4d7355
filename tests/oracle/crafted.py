"""Crafted segments: corners of the formats that random damage seldom hits, each with a name."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from tests.oracle.containers import CONTAINERS, GZIP, LZ4, SNAPPY, ZSTD
from tests.oracle.crafting import (
    LOG_OVERHEAD,
    Fields,
    Header,
    batch_of,
    control_batch,
    control_record,
    message,
    pack_batch,
    unsigned_varint,
    varint,
    with_length,
    with_right_crc,
    wrapper,
)

Case = tuple[str, bytes]

_GOOD = batch_of([Fields(0), Fields(1, key=None, value=b""), Fields(2, headers=((b"h", None),))])
_RECORDS = b"".join(Fields(index, key=b"k%d" % index, value=b"v" * index).pack() for index in range(40))
_INT32 = (-(2**31), -2, -1, 0, 1, 2**31 - 1)


def crafted_segments() -> Iterator[Case]:
    """All of them, in order."""
    return itertools.chain(
        _control_records(),
        _kraft_values(),
        _containers(),
        _short_batches(),
        _magics(),
        _records(),
        _batch_headers(),
        _legacy_messages(),
        _wrappers(),
        _malformed_utf8(),
        _tails(),
    )


def _control_records() -> Iterator[Case]:
    marker = struct.pack(">hi", 0, 9)
    for control_type in (-(2**15), -1, *range(9), 32767):
        for name, value in (("marker", marker), ("null", None), ("empty", b""), ("long", marker + b"tail")):
            yield f"control-{control_type}-{name}", control_batch(control_record(control_type, value))
    for version in (-1, 1, 32767):
        yield f"control-key-version-{version}", control_batch(control_record(0, marker, key_version=version))
        yield f"marker-version-{version}", control_batch(control_record(1, struct.pack(">hi", version, 3)))
    for size in range(6):
        yield f"marker-{size}-bytes", control_batch(control_record(1, marker[:size]))
    for size in range(4):
        yield f"control-key-{size}-bytes", control_batch(Fields(key=bytes(size), value=marker))
    yield "control-key-null", control_batch(Fields(key=None, value=marker))
    yield "control-key-long", control_batch(control_record(1, marker, key_tail=b"tail"))
    yield "control-two-markers", control_batch(control_record(1, marker), Fields(1, key=None, value=b"x"))
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        records = [control_record(1, marker), Fields(1, key=b"\0", value=b"x")]
        yield f"control-codec-{codec}", batch_of(records, Header(attributes=0x20), codec)


def _kraft_values() -> Iterator[Case]:
    tags = unsigned_varint(0)
    voter = struct.pack(">i", 1) + tags
    good = {
        2: struct.pack(">i", 3) + unsigned_varint(2) + voter + unsigned_varint(2) + voter + tags,
        3: struct.pack(">q", 1_700_000_000_000) + tags,
        4: tags,
        5: struct.pack(">h", 1) + tags,
        6: unsigned_varint(1) + tags,
    }
    endpoint = b"\x02C" + b"\x05h\xed\xa0\x80" + struct.pack(">H", 65535) + tags
    full_voter = struct.pack(">i", 7) + bytes(range(16)) + unsigned_varint(2) + endpoint
    full_voter += struct.pack(">hh", 0, 1) + tags + tags
    for control_type, rest in good.items():
        for version in (*range(-3, 4), 100, -(2**15), 2**15 - 1):
            value = struct.pack(">h", version) + rest
            yield f"kraft-{control_type}-version-{version}", control_batch(control_record(control_type, value))
        value = b"\0\0" + rest
        for size in range(len(value)):
            yield f"kraft-{control_type}-cut-{size}", control_batch(control_record(control_type, value[:size]))
        yield f"kraft-{control_type}-long", control_batch(control_record(control_type, value + b"\xff\xff"))
        for name, tagged in (
            ("unknown-tag", b"\x01\x63\x02ab"),
            ("tag-cut", b"\x01\x63\x09ab"),
            ("tags-unordered", b"\x02\x63\x01a\x62\x01b"),
            ("tags-twice", b"\x02\x63\x01a\x63\x01b"),
            ("tag-count-huge", b"\xff\xff\xff\xff\x0f"),
            ("tag-count-endless", b"\xff\xff\xff\xff\xff\xff"),
            ("tag-size-huge", b"\x01\x63\xff\xff\xff\xff\x0f"),
        ):
            for version in (0, 1):
                value = struct.pack(">h", version) + rest[:-1] + tagged
                yield f"kraft-{control_type}-{version}-{name}", control_batch(control_record(control_type, value))
    for number, voters in enumerate(
        (b"\x00", b"\x02" + full_voter, b"\x03" + full_voter * 2, b"\x7f" + full_voter, b"\xff\xff\xff\xff\x0f")
    ):
        for version in (0, 1, -1):
            value = struct.pack(">h", version) + voters + tags
            yield f"kraft-voters-{number}-{version}", control_batch(control_record(6, value))
    for position in range(len(full_voter)):
        for byte in (0x00, 0x01, 0x7F, 0xFF):
            changed = full_voter[:position] + bytes([byte]) + full_voter[position + 1 :]
            value = b"\0\0\x02" + changed + tags
            yield f"kraft-voter-{position}-{byte}", control_batch(control_record(6, value))
    leader = b"\0\0" + good[2]
    for position in range(len(leader)):
        for byte in (0x00, 0x01, 0x7F, 0xFF):
            value = leader[:position] + bytes([byte]) + leader[position + 1 :]
            yield f"kraft-leader-{position}-{byte}", control_batch(control_record(2, value))


def _containers() -> Iterator[Case]:
    inner = b"".join(message(index, 1, b"k", b"v" * 40) for index in range(4))
    inner_v0 = b"".join(message(index, 0, b"k", b"v" * 40) for index in range(4))
    for codec, variants in CONTAINERS.items():
        for number, pack in enumerate(variants):
            header = Header(attributes=codec, record_count=40, last_offset_delta=39)
            yield f"container-{codec}-{number}-v2", _GOOD + pack_batch(header, pack(_RECORDS)) + _GOOD
            for count in (0, 39, 41, -1):
                other = pack_batch(replace(header, record_count=count), pack(_RECORDS))
                yield f"container-{codec}-{number}-count-{count}", other
            if codec:
                yield f"container-{codec}-{number}-v0", message(3, 0, None, pack(inner_v0), attributes=codec)
                yield f"container-{codec}-{number}-v1", message(3, 1, None, pack(inner), attributes=codec)
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        for name, body in (("empty", b""), ("zeros", bytes(30)), ("ones", b"\xff" * 30)):
            yield f"container-{codec}-{name}", pack_batch(Header(attributes=codec), body)
            yield f"container-{codec}-{name}-no-records", pack_batch(Header(attributes=codec, record_count=0), body)
            yield f"container-{codec}-{name}-v1", message(0, 1, None, body, attributes=codec)
        big = b"".join(Fields(index, value=bytes([index % 7]) * 3000).pack() for index in range(60))
        header = Header(attributes=codec, record_count=60, last_offset_delta=59)
        payload = CONTAINERS[codec][0](big)
        yield f"container-{codec}-big", pack_batch(header, payload)
        for cut in (1, 100, len(payload) // 2):
            yield f"container-{codec}-big-cut-{cut}", pack_batch(header, payload[:-cut])
    yield from _input_buffers()


def _input_buffers() -> Iterator[Case]:
    """Two members or frames whose border lies around the end of what the Java streams read at a time."""
    noise = Random(1)
    for codec, buffer_size in ((GZIP, 8192), (ZSTD, 131_075)):
        pack = CONTAINERS[codec][0]
        second = Fields(1, value=b"second" * 9).pack()
        for difference in (-40, *range(-28, 13), 40):
            first = Fields(0, value=noise.randbytes(buffer_size - 200)).pack()
            overhead = len(pack(first)) - len(first)
            first = Fields(0, value=noise.randbytes(buffer_size + difference - overhead - 13)).pack()
            border = len(pack(first)) - buffer_size
            header = Header(attributes=codec, record_count=2, last_offset_delta=1)
            both = pack(first) + pack(second)
            yield f"buffer-{codec}-{difference}-border-{border}", pack_batch(header, both)
            one = replace(header, record_count=1)
            yield f"buffer-{codec}-{difference}-tail", pack_batch(one, pack(first) + b"tail" * 8)
            for cut in (1, 20, 40):
                yield f"buffer-{codec}-{difference}-cut-{cut}", pack_batch(one, both[:-cut])


def _short_batches() -> Iterator[Case]:
    whole = pack_batch(Header(record_count=0), b"")
    for magic in (0, 1, 2, 3, -1, 127):
        for size in range(12, 64):
            entry = with_length((whole + bytes(8))[:size]) if size > LOG_OVERHEAD else whole[:size]
            if size > 16:
                entry = entry[:16] + struct.pack(">b", magic) + entry[17:]
            yield f"short-{magic}-{size}-middle", _GOOD + with_right_crc(entry) + _GOOD
            yield f"short-{magic}-{size}-end", _GOOD + with_right_crc(entry)


def _magics() -> Iterator[Case]:
    for magic in (-128, -1, 3, 4, 127):
        entry = pack_batch(replace(Header(), magic=magic, record_count=3), _GOOD[61:]) if magic > 0 else _GOOD
        entry = with_right_crc(entry[:16] + struct.pack(">b", magic) + entry[17:])
        yield f"magic-{magic}", _GOOD + entry + _GOOD
        old = message(5, 1, b"k", b"v" * 60)
        yield f"magic-{magic}-legacy", with_right_crc(old[:16] + struct.pack(">b", magic) + old[17:])
        for codec in (GZIP, SNAPPY, LZ4, ZSTD):
            if magic > 0:
                header = Header(magic=magic, attributes=codec, record_count=40)
                yield f"magic-{magic}-codec-{codec}", pack_batch(header, CONTAINERS[codec][0](_RECORDS))


def _records() -> Iterator[Case]:
    one = Fields()
    shapes = {
        "size-short": replace(one, size=5),
        "size-long": replace(one, size=300),
        "size-zero": replace(one, size=0),
        "size-negative": replace(one, size=-1),
        "size-most-negative": replace(one, size=-(2**31)),
        "size-largest": replace(one, size=2**31 - 1),
        "size-minus-one": replace(one, size=len(one.pack()) - 2),
        "size-plus-one": replace(one, size=len(one.pack())),
        "tail": replace(one, tail=b"x"),
        "headers-negative": replace(one, header_count=-1),
        "headers-many": replace(one, header_count=3),
        "headers-fit": replace(one, header_count=2, tail=bytes(4)),
        "headers-largest": replace(one, header_count=2**31 - 1),
        "header-null-key": replace(one, headers=((None, b"v"),)),
        "header-empty": replace(one, headers=((b"", b""), (b",", b","), (b"\xff\xed\xa0\x80", None))),
        "attributes": replace(one, attributes=255),
        "deltas-low": replace(one, timestamp_delta=-(2**63), offset_delta=-(2**31)),
        "deltas-high": replace(one, timestamp_delta=2**63 - 1, offset_delta=2**31 - 1),
    }
    for name, fields in shapes.items():
        for codec in (0, GZIP, SNAPPY, LZ4, ZSTD):
            records = [one, fields, replace(one, offset_delta=2)]
            yield f"record-{name}-{codec}", batch_of(records, codec=codec)
            yield f"record-{name}-{codec}-last", batch_of([one, fields], Header(base_sequence=2**31 - 2), codec)
    body = b"\0" + varint(0) + varint(0)
    for name, data in {
        "varint-long": b"\xff" * 11,
        "varint-5-bytes": b"\xfe\xff\xff\xff\x7f",
        "varint-padded": b"\x8c\x80\x80\x80\x00" + body + b"\1\1\0",
        "key-beyond": varint(20) + body + varint(100) + b"x" * 15,
        "key-most-negative": varint(3 + 5 + 2) + body + varint(-(2**31)) + varint(-1) + varint(0),
        "value-beyond": varint(20) + body + varint(1) + b"k" + varint(13) + b"x" * 12,
        "varlong-10-bytes": varint(15) + b"\0" + b"\xff" * 9 + b"\x7f" + varint(0) + b"\1\1\0",
        "varlong-11-bytes": varint(16) + b"\0" + b"\xff" * 10 + b"\x01" + varint(0) + b"\1\1\0",
        "key-size-cut": varint(3) + body,
        "nothing": b"",
    }.items():
        for codec in (0, GZIP, ZSTD):
            yield f"raw-{name}-{codec}", pack_batch(Header(attributes=codec), CONTAINERS[codec][0](data))


def _batch_headers() -> Iterator[Case]:
    records = _GOOD[61:]
    plain = Header(record_count=3, last_offset_delta=2)
    for sequence, delta in itertools.product((-1, -2, -(2**31), 0, 5, 2**31 - 1, 2**31 - 2), (*_INT32, 2, 100)):
        header = replace(plain, base_sequence=sequence, last_offset_delta=delta, producer_id=7, producer_epoch=0)
        yield f"sequence-{sequence}-{delta}", pack_batch(header, records)
    for attributes in (*range(0x80, 0x100, 3), 0x0100, 0x7F00, -1, -(2**15), *range(0, 0x80, 5)):
        yield f"attributes-{attributes}", pack_batch(replace(plain, attributes=attributes), records)
    for offset in (-(2**63), -2, -1, 2**63 - 1, 2**63 - 2, 2**31, 2**40):
        yield f"base-offset-{offset}", pack_batch(replace(plain, base_offset=offset), records) + _GOOD
    for timestamp in (-(2**63), -1, 0, 2**63 - 1):
        for flags in (0, 0x08, 0x40, 0x48):
            header = replace(plain, attributes=flags, base_timestamp=timestamp, max_timestamp=-timestamp - 1)
            yield f"timestamp-{timestamp}-{flags}", pack_batch(header, records)
    for count in (*_INT32, 2, 4):
        yield f"count-{count}", pack_batch(replace(plain, record_count=count), records)
    header = replace(plain, producer_id=-(2**63), producer_epoch=-(2**15), partition_leader_epoch=-(2**31))
    yield "lowest-fields", pack_batch(header, records)


def _legacy_messages() -> Iterator[Case]:
    sizes = (-(2**31), -2, -1, 0, 1, 3, 5, 6, 10, 2**31 - 1)
    for magic in (0, 1):
        for size in sizes:
            yield f"legacy-{magic}-key-{size}", message(0, magic, b"key", b"value", key_size=size)
            yield f"legacy-{magic}-value-{size}", message(0, magic, b"key", b"value", value_size=size)
            yield f"legacy-{magic}-value-{size}-null-key", message(0, magic, None, b"value", value_size=size)
            lying = message(0, magic, b"key", b"value", key_size=size)
            good = message(1, magic, b"key", b"value")
            yield f"legacy-{magic}-inner-key-{size}", wrapper(1, magic, GZIP, lying + good)
            lying = message(1, magic, b"key", b"value", value_size=size)
            yield f"legacy-{magic}-inner-value-{size}", wrapper(1, magic, GZIP, good + lying)
            yield f"legacy-{magic}-wrapper-value-{size}", message(0, magic, None, b"x", attributes=1, value_size=size)
        for attributes in range(0, 256, 3):
            yield f"legacy-{magic}-attributes-{attributes}", message(3, magic, b"k", b"v", attributes=attributes)
        for size in range(26, 40):
            entry = with_right_crc(with_length(message(3, magic, b"key", b"value" * 4)[:size]))
            yield f"legacy-{magic}-size-{size}", entry + message(4, magic, b"k", b"v")
            yield f"legacy-{magic}-size-{size}-end", entry
        for offset in (-(2**63), -1, 2**63 - 1):
            yield f"legacy-{magic}-offset-{offset}", message(offset, magic, b"k", b"v", timestamp=offset)
        wrong = message(0, magic, b"k", b"v")
        yield f"legacy-{magic}-wrong-crc", wrong[:12] + bytes(4) + wrong[16:] + wrong


def _wrappers() -> Iterator[Case]:
    for magic, inner_magic, codec in itertools.product((0, 1), (0, 1), (GZIP, SNAPPY, LZ4, ZSTD)):
        inner = [message(index, inner_magic, b"k", b"v%d" % index, timestamp=100 + index) for index in range(5)]
        whole = b"".join(inner)
        name = f"wrapper-{magic}-{inner_magic}-{codec}"
        for offset in (-1, 0, 3, 4, 5, 100, 2**63 - 1):
            yield f"{name}-offset-{offset}", wrapper(offset, magic, codec, whole)
        yield f"{name}-append-time", wrapper(9, magic, codec, whole, attributes=8)
        yield f"{name}-empty", wrapper(9, magic, codec, b"")
        for cut in (1, 10, 20, len(inner[-1]), len(inner[-1]) + 3):
            yield f"{name}-cut-{cut}", wrapper(9, magic, codec, whole[:-cut])
        for tail in (b"\0", bytes(11), bytes(12), bytes(17), bytes(40), b"\xff" * 40):
            yield f"{name}-tail-{len(tail)}-{tail[0]}", wrapper(9, magic, codec, whole + tail)
        for size in (14, 15, 18, 21, 22, 26):
            short = with_right_crc(with_length((inner[0] + bytes(20))[: LOG_OVERHEAD + size]))
            yield f"{name}-short-{size}", wrapper(9, magic, codec, inner[0] + short)
            yield f"{name}-short-{size}-only", wrapper(9, magic, codec, short)
        for other in (2, 3, 5, -1):
            odd = with_right_crc(inner[1][:16] + struct.pack(">b", other) + inner[1][17:])
            yield f"{name}-inner-magic-{other}", wrapper(9, magic, codec, inner[0] + odd + inner[2])
            yield f"{name}-inner-magic-{other}-first", wrapper(9, magic, codec, odd + inner[2])
        for inner_attributes in (1, 3, 4, 5, 7, 8, 0xF8):
            odd = message(1, inner_magic, b"k", b"v", attributes=inner_attributes)
            yield f"{name}-inner-attributes-{inner_attributes}", wrapper(9, magic, codec, inner[0] + odd + inner[2])
        yield f"{name}-unordered", wrapper(9, magic, codec, inner[3] + inner[1] + inner[2])
        yield f"{name}-negative", wrapper(9, magic, codec, message(-5, inner_magic, b"k", b"v") + inner[1])
        yield f"{name}-nested", wrapper(9, magic, codec, wrapper(4, inner_magic, GZIP, whole))
        batch = pack_batch(Header(), Fields().pack())
        yield f"{name}-batch-inside", wrapper(9, magic, codec, inner[0] + batch)
        yield f"{name}-key", message(9, magic, b"key", CONTAINERS[codec][0](whole), attributes=codec)


def _malformed_utf8() -> Iterator[Case]:
    lead = (0x00, 0x41, 0x7F, 0x80, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF)
    follow = (0x41, 0x80, 0x8F, 0x9F, 0xA0, 0xBF, 0xED)
    values = [bytes(item) for length in (1, 2, 3) for item in itertools.product(lead, *[follow] * (length - 1))]
    values += [bytes((first, *rest)) for first in (0xF0, 0xF4) for rest in itertools.product(follow, repeat=3)]
    values += [bytes((0xED, *rest)) for rest in itertools.product(follow, repeat=3)]
    for start in range(0, len(values), 200):
        chosen = values[start : start + 200]
        records = [Fields(index, key=data, value=data + b"/" + data) for index, data in enumerate(chosen)]
        yield f"utf8-{start}", batch_of(records)
        yield f"utf8-{start}-headers", batch_of([replace(item, headers=((item.key, None),)) for item in records])
        yield f"utf8-{start}-legacy", b"".join(message(0, 1, data, data + b"x" + data) for data in chosen)


def _tails() -> Iterator[Case]:
    for size in (1, 11, 12, 13, 16, 17, 18, 19, 61, 100):
        for byte in (0, 1, 0xFF):
            yield f"tail-{byte}-{size}", _GOOD + bytes([byte]) * size
        yield f"tail-cut-{size}", _GOOD + _GOOD[:-size]
        yield f"only-{size}", _GOOD[:size]
    yield "nothing", b""
    for length in (-(2**31), -1, 0, 13, 14, 2**31 - 1, 2**31 - 12, 2**31 - 13):
        yield f"length-{length}", _GOOD + _GOOD[:8] + struct.pack(">i", length) + _GOOD[12:]
