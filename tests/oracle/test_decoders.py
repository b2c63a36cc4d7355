"""The decoders of internal topics against the real ones: every schema and version, and damage of each message."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from random import Random

import pytest

from kdump.format.message import Schema, record_schemas, schemas
from tests.harness.flags import FlagSet, topic_decoder_flags
from tests.harness.messages import random_values, unsigned_varint, write_message
from tests.oracle.containers import GZIP
from tests.oracle.crafting import Fields, batch_of, message, with_length, with_right_crc, wrapper
from tests.oracle.sandbox import Run, Sandbox

pytestmark = pytest.mark.oracle

COORDINATORS = {
    "offsets": "group-coordinator",
    "transaction-log": "transaction-coordinator",
    "share-group-state": "share-coordinator",
}
METADATA = ("cluster-metadata", "remote-log-metadata")
DECODERS = (*COORDINATORS, *METADATA)
MESSAGES_OF_EACH = 12
"""Of each schema and version."""
RECORDS_OF_A_BATCH = 50

KeyValue = tuple[bytes | None, bytes | None]


def messages(decoder: str, random: Random) -> Iterator[KeyValue]:
    """Random records of every type and version of a topic."""
    if decoder in COORDINATORS:
        keys = record_schemas(COORDINATORS[decoder], "coordinator-key")
        for number, schema in record_schemas(COORDINATORS[decoder], "coordinator-value").items():
            for version in range(schema.versions.low, schema.versions.high + 1):
                for _ in range(MESSAGES_OF_EACH):
                    key = struct.pack(">h", number) + written(keys[number], 0, random)
                    value = struct.pack(">h", version) + written(schema, version, random)
                    yield key, None if random.random() < 0.1 else value
        return
    for number, schema in record_schemas(decoder, "metadata").items():
        for version in range(schema.versions.low, schema.versions.high + 1):
            for _ in range(MESSAGES_OF_EACH):
                frame = unsigned_varint(1) + unsigned_varint(number) + unsigned_varint(version)
                yield random.choice((None, b"k")), frame + written(schema, version, random)


def written(schema: Schema, version: int, random: Random) -> bytes:
    values = random_values(schema.fields, version, random)
    if schema.name == "GroupMetadataValue" and random.random() < 0.8:
        values["protocolType"] = "consumer"
        for member in values["members"]:
            for name, inner in (("subscription", "Subscription"), ("assignment", "Assignment")):
                member[name] = member_bytes(schemas()[f"ConsumerProtocol{inner}"], random)
    if schema.name.startswith("Remote") and random.random() < 0.9:
        likely(values, random)
    return write_message(schema, version, values, random)


def member_bytes(schema: Schema, random: Random) -> bytes:
    """A message of the consumer protocol, at times of a version that does not exist, or cut."""
    version = random.randrange(schema.versions.high + 1)
    data = write_message(schema, version, random_values(schema.fields, version, random))
    stored = struct.pack(">h", random.choice((version, version, version, -1, 4, 77))) + data
    return random.choice((stored, stored, stored + b"tail", stored[: random.randrange(len(stored) + 1)]))


def likely(values: dict[str, object], random: Random) -> None:
    """Remote log metadata that Kafka's classes take."""
    values["remoteLogSegmentState"] = random.randrange(4)
    values["remotePartitionDeleteState"] = random.randrange(3)
    values["startOffset"] = random.choice((0, 10, 2**40))
    values["endOffset"] = random.choice((10, 2**40, 2**63 - 1))


def damaged(data: bytes | None, random: Random) -> bytes | None:
    """Cut, longer, or with a byte changed to one that lengths and markers take notice of."""
    if not data:
        return random.choice((None, b"", b"\0"))
    match random.randrange(6):
        case 0:
            return data[: random.randrange(len(data))]
        case 1:
            return data + random.randbytes(random.randint(1, 4))
        case 2:
            start = random.randrange(len(data))
            return data[:start] + b"\xff\xff\xff\xff" + data[start + random.randrange(5) :]
    at = random.randrange(len(data))
    if random.random() < 0.4:
        at = min(at, random.randrange(4))
    byte = random.choice((0, 1, 2, 9, 0x7F, 0x80, 0xFE, 0xFF, random.randrange(256)))
    return data[:at] + bytes([byte]) + data[at + 1 :]


def compare(sandbox: Sandbox, name: str, decoder: str, records: list[KeyValue], flags: tuple[FlagSet, ...]) -> None:
    file_name = f"{0:020d}.log"
    for first in range(0, len(records), RECORDS_OF_A_BATCH):
        fields = [Fields(n, key=key, value=value) for n, (key, value) in enumerate(records[first : first + 50])]
        sandbox.compare(f"{name}-{first}", {file_name: batch_of(fields)}, [([file_name], flag) for flag in flags])


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_schema(sandbox: Sandbox, seed: int, decoder: str) -> None:
    records = list(messages(decoder, Random(seed)))
    print(f"{len(records)} messages")
    compare(sandbox, f"decoder-{decoder}-{seed}", decoder, records, topic_decoder_flags(decoder))
    sandbox.tally.check()


@pytest.mark.parametrize("decoder", DECODERS)
def test_damaged_messages(sandbox: Sandbox, seed: int, mutants: int, decoder: str) -> None:
    random = Random(seed)
    good = list(messages(decoder, random))
    records: list[KeyValue] = []
    while len(records) < mutants * 5:
        key, value = random.choice(good)
        if random.random() < 0.3:
            key = damaged(key, random) or b""
        else:
            value = damaged(value, random)
        records.append((key, value))
    compare(sandbox, f"damaged-{decoder}-{seed}", decoder, records, topic_decoder_flags(decoder)[:1])
    sandbox.tally.check()


def test_doubles(sandbox: Sandbox, seed: int, mutants: int) -> None:
    """``Double.toString``: the value of a client quota is the only one there is."""
    random = Random(seed)
    schema = schemas()["ClientQuotaRecord"]
    records: list[KeyValue] = []
    for number in range(mutants * 5):
        value = random.choice((
            struct.unpack(">d", random.randbytes(8))[0],
            random.randrange(10**6) / 100,
            random.random() * 10.0 ** random.randrange(-8, 16),
            random.randrange(10**6) * 10.0 ** random.randrange(-30, 30),
            2.0 ** random.randrange(-1074, 1024),
            float(random.randrange(2**64)),
        ))  # fmt: skip
        values = {"entity": [], "key": str(number), "value": value, "remove": False}
        records.append((None, b"\1\x0e\0" + write_message(schema, 0, values)))
    compare(sandbox, f"doubles-{seed}", "cluster-metadata", records, topic_decoder_flags("cluster-metadata")[:1])
    sandbox.tally.check()


@pytest.mark.parametrize("decoder", DECODERS)
def test_records_without_key(sandbox: Sandbox, seed: int, decoder: str) -> None:
    records = list(messages(decoder, Random(seed)))[:5]
    records[3] = (None, records[3][1])
    compare(sandbox, f"no-key-{decoder}", decoder, records, topic_decoder_flags(decoder))
    sandbox.tally.check()


@pytest.mark.parametrize("decoder", DECODERS)
def test_sizes_that_lie(sandbox: Sandbox, decoder: str) -> None:
    """Messages of magic 0 and 1 whose key or value does not fit them, alone and in a wrapper."""
    name = f"{0:020d}.log"
    good = message(1, 1, b"\0\0", b"\0\0")
    for magic, size in itertools.product((0, 1), (-(2**31), -1, 0, 1, 5, 6, 13, 14, 100, 2**31 - 1)):
        for key in (b"\0\0key", None):
            lies = {
                "value": message(0, magic, key, b"value", value_size=size),
                "key": message(0, magic, key, b"value", key_size=size),
                "end": with_right_crc(with_length(message(0, magic, key, b"value")[: 26 + max(0, min(size, 20))])),
            }
            for what, lying in lies.items():
                runs: list[Run] = [([name], flags) for flags in topic_decoder_flags(decoder)]
                case = f"lies-{decoder}-{magic}-{what}-{size}-{'null' if key is None else 'key'}"
                sandbox.compare(case, {name: lying + good}, runs)
                sandbox.compare(f"{case}-wrapped", {name: wrapper(1, magic, GZIP, lying + good)}, runs)
    sandbox.tally.check()
