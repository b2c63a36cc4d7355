"""Files and directories that become much, and are no log of one entry.

``python -m tests.bench.hostilefiles NAME BYTES FOLDER`` makes one, in a process of its own, as ``hostile`` says.
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.bench import metadatafiles
from tests.bench.hostile import ZSTD, batch, compressed, message, record

LOG: Final = f"{0:020d}.log"
_ID: Final = "A" * 22


def _pack_all(layout: str, rows: Iterator[tuple[int, ...]]) -> bytes:
    pack = struct.Struct(layout).pack
    return b"".join(pack(*row) for row in rows)


def _one(offset: int, **fields: int) -> bytes:
    """A batch of one small record."""
    from tests.oracle.crafting import Fields, Header, batch_of

    return batch_of([Fields(key=b"k", value=b"v")], Header(offset, **fields))


def _wrong_crc(offset: int) -> bytes:
    """A batch of which one flipped bit explains the wrong CRC."""
    entry = bytearray(_one(offset))
    entry[17] ^= 1
    return bytes(entry)


def _in_disorder(number: int) -> bytes:
    """A batch at a place where no other batch continues it."""
    return struct.pack(">q", number * 7919 % 1_000_003) + _one(0)[8:]


def _sibling(name: str, content: Callable[[int], bytes]) -> Callable[[Path, int], None]:
    """A partition of one batch with a huge file beside it."""

    def write(folder: Path, size: int) -> None:
        partition = folder / "orders-0"
        partition.mkdir()
        (partition / LOG).write_bytes(_one(0))
        (partition / name).write_bytes(content(size))

    return write


def _in_log_directory(name: str, content: Callable[[int], bytes]) -> Callable[[Path, int], None]:
    def write(folder: Path, size: int) -> None:
        _sibling("partition.metadata", lambda _: f"version: 0\ntopic_id: {_ID}".encode())(folder, size)
        (folder / name).write_bytes(content(size))

    return write


def _snapshot(size: int) -> bytes:
    from kdump.format.snapshot import ProducerEntry, write_snapshot

    return write_snapshot([ProducerEntry(number, 0, 0, 0, 0, 0, -1, -1) for number in range(size // 42)])


def _checkpoint(line: Callable[[int], str]) -> Callable[[int], bytes]:
    def content(size: int) -> bytes:
        # Text files have 16 MiB at most.
        count = min(size, 15 << 20) // (len(line(10**6)) + 1)
        return "".join(("0\n", f"{count}\n", *(f"{line(number)}\n" for number in range(count)))).encode()

    return content


def _batches(of: Callable[[int], bytes]) -> Callable[[Path, int], None]:
    """A log of small batches."""

    def write(folder: Path, size: int) -> None:
        partition = folder / "orders-0"
        partition.mkdir()
        with (partition / LOG).open("wb") as log:
            number = 0
            while log.tell() < size:
                log.write(of(number))
                number += 1

    return write


def _schema(name: str) -> Any:
    from kdump.format.message import schemas

    return schemas()[name]


def _message(name: str, version: int, values: dict[str, Any]) -> bytes:
    from random import Random

    from tests.harness.messages import random_values, write_message

    schema = _schema(name)
    return write_message(schema, version, random_values(schema.fields, version, Random(1)) | values)


def _topic(topic: str, records: Callable[[int], Iterator[tuple[bytes | None, bytes | None]]]) -> Callable[..., None]:
    """The partition 0 of an internal topic with one compressed batch."""

    def write(folder: Path, size: int) -> None:
        body = bytearray()
        count = 0
        for key, value in records(size):
            body += record(count, key, value)
            count += 1
            if len(body) >= size:
                break
        partition = folder / f"{topic}-0"
        partition.mkdir()
        (partition / LOG).write_bytes(batch(compressed("zstd", bytes(body)), count, ZSTD))

    return write


def _forever() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def _commits(_: int) -> Iterator[tuple[bytes, bytes]]:
    value = struct.pack(">h", 3) + _message("OffsetCommitValue", 3, {"metadata": ""})
    for number in _forever():
        group = f"group-{number}".encode()
        yield struct.pack(">hh", 1, len(group)) + group + struct.pack(">hs", 1, b"t") + bytes(4), value


def _group(size: int) -> Iterator[tuple[bytes, bytes]]:
    """One group with as many members as fit."""
    member = {"memberId": "m", "groupInstanceId": None, "clientId": "", "clientHost": "", "subscription": b"",
              "assignment": b"", "rebalanceTimeout": 1, "sessionTimeout": 1}  # fmt: skip
    head = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m", "currentStateTimestamp": 1}
    one, two = (_message("GroupMetadataValue", 3, {**head, "members": [member] * count}) for count in (1, 2))
    each = two[len(one) - len(two) :]
    count = size // len(each)
    none = _message("GroupMetadataValue", 3, {**head, "members": []})
    value = struct.pack(">h", 3) + none[:-4] + struct.pack(">i", count) + each * count
    yield struct.pack(">hhs", 2, 1, b"g"), value


def _transactional_ids(_: int) -> Iterator[tuple[bytes, bytes]]:
    value = struct.pack(">h", 0) + _message("TransactionLogValue", 0, {"transactionPartitions": []})
    for number in _forever():
        name = f"id-{number}".encode()
        yield struct.pack(">hh", 0, len(name)) + name, value


def _transaction_partitions(size: int) -> Iterator[tuple[bytes, bytes]]:
    none = _message("TransactionLogValue", 0, {"transactionPartitions": []})
    one = _message("TransactionLogValue", 0, {"transactionPartitions": [{"topic": "t", "partitionIds": []}]})
    length = next(at for at in range(len(none)) if none[at] != one[at]) - 3
    each = one[length + 4 : length + 4 + len(one) - len(none)]
    count = size // len(each)
    value = none[:length] + struct.pack(">i", count) + each * count + none[length + 4 :]
    yield struct.pack(">hhs", 0, 1, b"x"), struct.pack(">h", 0) + value


def _metadata(name: str, api: int, version: int, values: Callable[[int], dict[str, Any]]) -> Any:
    def records(_: int) -> Iterator[tuple[None, bytes]]:
        for number in _forever():
            yield None, bytes((1, api, version)) + _message(name, version, values(number))

    return records


def _uuid(number: int) -> str:
    import base64

    return base64.urlsafe_b64encode(struct.pack(">qq", 1, number + 1)).decode().rstrip("=")


def _replicas(size: int) -> Iterator[tuple[None, bytes]]:
    """A partition with as many replicas as fit."""
    count = size // 8
    one = _message("PartitionRecord", 0, {"replicas": [7] * 3, "isr": [7] * 3, "topicId": _ID, "removingReplicas": [],
                                          "addingReplicas": []})  # fmt: skip
    few = b"\4" + struct.pack(">iii", 7, 7, 7)
    many = bytearray()
    left = count + 1
    while left >= 0x80:
        many.append(left & 0x7F | 0x80)
        left >>= 7
    many.append(left)
    yield None, b"\1\3\0" + one.replace(few, bytes(many) + struct.pack(">i", 7) * count)


def _kraft_snapshot(folder: Path, size: int) -> None:
    """A snapshot of the metadata log: its header, and one batch of topics, of which a controller would write many."""
    from tests.oracle.crafting import Fields, Header, batch_of

    _topic("__cluster_metadata", _metadata("TopicRecord", 2, 0, lambda n: {"name": f"t{n}", "topicId": _uuid(n)}))(
        folder, size
    )
    partition = folder / "__cluster_metadata-0"
    head = Fields(key=struct.pack(">hh", 0, 3), value=struct.pack(">hq", 0, 1) + b"\0")
    topics = (partition / LOG).read_bytes()
    (partition / LOG).unlink()
    (partition / f"{9:020d}-{1:010d}.checkpoint").write_bytes(batch_of([head], Header(0, attributes=0x20)) + topics)


def _log07(of: Callable[[int], bytes]) -> Callable[[Path, int], None]:
    def write(folder: Path, size: int) -> None:
        partition = folder / "orders-0"
        partition.mkdir()
        (partition / f"{0:020d}.kafka").write_bytes(of(size))

    return write


def _message07(value: bytes, codec: int = 0) -> bytes:
    return struct.pack(">ibbI", 6 + len(value), 1, codec, zlib.crc32(value)) + value


def _fetch07(size: int) -> bytes:
    data = _message07(b"") * (size // 10)
    return struct.pack(">ih", 2 + len(data), 0) + data


def _requests07(size: int) -> bytes:
    body = struct.pack(">hh1siqi", 1, 1, b"t", 0, 0, 1)
    return (struct.pack(">i", len(body)) + body) * (size // (4 + len(body)))


def _znode(path: bytes, data: bytes = b"", acl: int = -1, owner: int = 0) -> bytes:
    stat = bytes(44) + struct.pack(">qq", owner, 0)
    return b"".join(
        (struct.pack(">i", len(path)), path, struct.pack(">i", len(data)), data, struct.pack(">q", acl), stat)
    )


def _rules(count: int) -> bytes:
    return struct.pack(">i", count) + _pack_all(">iii", ((number, 0, 0) for number in range(count)))


def _zk_snapshot(
    nodes: Callable[[int], Iterator[bytes]], acls: Callable[[int], list[bytes]] = lambda size: []
) -> Callable[[Path, int], None]:
    """``acls``: the vectors of the ACLs, which get the numbers 1, 2, ...."""

    def write(folder: Path, size: int) -> None:
        (folder / "version-2").mkdir()
        vectors = acls(size)
        parts = [struct.pack(">iiqii", 0x5A4B534E, 2, -1, 0, len(vectors))]
        parts += (struct.pack(">q", number) + vector for number, vector in enumerate(vectors, 1))
        parts.append(_znode(b""))
        parts += nodes(size)
        parts.append(struct.pack(">i1s", 1, b"/"))
        data = b"".join(parts)
        seal = struct.pack(">q", zlib.adler32(data)) + struct.pack(">i1s", 1, b"/")
        (folder / "version-2" / "snapshot.0").write_bytes(data + seal)

    return write


def _flat(size: int) -> Iterator[bytes]:
    return (_znode(b"/n%07d" % number) for number in range(size // 85))


def _deep(size: int) -> Iterator[bytes]:
    path = b""
    total = 0
    while total < size:
        path += b"/n"
        total += len(path) + 76
        yield _znode(path)


def _zk_log(content: Callable[[int], Iterator[bytes]]) -> Callable[[Path, int], None]:
    def write(folder: Path, size: int) -> None:
        (folder / "version-2").mkdir()
        with (folder / "version-2" / "log.1").open("wb") as log:
            log.write(struct.pack(">iiq", 0x5A4B4C47, 2, 0))
            for part in content(size):
                log.write(struct.pack(">qi", zlib.adler32(part), len(part)) + part + b"B")

    return write


def _create(number: int, path: bytes, *, acl: bytes = bytes(4), owner: int = 0) -> bytes:
    """``owner``: the session that owns the node; 0: none does."""
    body = struct.pack(">i", len(path)) + path + bytes(4) + acl + struct.pack(">?i", owner > 0, number)
    return struct.pack(">qiqqi", owner or 1, 0, number, 0, 1) + body


def _multi(size: int) -> Iterator[bytes]:
    part = struct.pack(">i1sii", 1, b"/", 0, 0)
    each = struct.pack(">ii", 5, len(part)) + part
    count = 0xF0000 // len(each)
    for number in range(size // 0xF0000):
        yield struct.pack(">qiqqi", 1, 0, number + 1, 0, 14) + struct.pack(">i", count) + each * count


def _copies_manifest(lines: Callable[[int], Iterator[dict[str, Any]]]) -> Callable[[Path, int], None]:
    def write(folder: Path, size: int) -> None:
        partition = folder / "orders-0"
        partition.mkdir()
        (partition / LOG).write_bytes(_one(0))
        with (folder / "MANIFEST").open("w") as file:
            head = {"type": "manifest", "version": 1, "kdump": "1", "paths": [str(partition)]}
            for told in (head, *lines(size)):
                file.write(f"# {json.dumps(told, separators=(',', ':'))}\n")
                if told["type"] == "file":
                    file.write(f"{'0' * 64}  {told['path']}\n")

    return write


def _ranges(size: int) -> Iterator[dict[str, Any]]:
    yield {
        "type": "partition", "path": "/orders-0", "topic": "orders", "partition": 0, "topicId": None, "clusterId": None,
        "nodeId": None, "logStart": 0, "logEnd": 1, "highWatermark": 0, "epochs": [],
        "ranges": [[number * 4096, number * 4096, 1, 1, "0" * 64] for number in range(size // 90)],
    }  # fmt: skip


def _epoch_pairs(size: int) -> Iterator[dict[str, Any]]:
    yield next(_ranges(90)) | {"epochs": [[0, 0]] * (size // 6)}


def _listed(size: int) -> Iterator[dict[str, Any]]:
    return ({"type": "file", "path": f"/f{number}", "size": 1} for number in range(size // 120))


def _json_depth(size: int) -> Iterator[dict[str, Any]]:
    yield {"type": "none", "path": [[]] * (size // 3)}


def _journal(files: Callable[[int], Any]) -> Callable[[Path, int], None]:
    def write(folder: Path, size: int) -> None:
        partition = folder / "orders-0"
        journal = partition / ".kdump" / "20240101T000000"
        journal.mkdir(parents=True)
        (partition / LOG).write_bytes(_one(0))
        told = {"format": 1, "state": "begun", "files": files(size), "steps": []}
        (journal / "manifest.json").write_text(json.dumps(told, separators=(",", ":")))

    return write


def _rows(of: Callable[[int], Iterator[str]]) -> Callable[[Path, int], None]:
    def write(folder: Path, size: int) -> None:
        with (folder / "rows.jsonl").open("w") as file:
            total = 0
            for line in of(size):
                total += file.write(line + "\n")
                if total >= size:
                    break

    return write


def _row(**members: Any) -> str:
    told = {"offset": 0, "timestamp": 1, "timestampType": "CreateTime", "key": None, "value": None, "headers": []}
    return json.dumps({"type": "record", **told, **members}, separators=(",", ":"), ensure_ascii=False)


def _segments(folder: Path, size: int) -> None:
    partition = folder / "orders-0"
    partition.mkdir()
    for number in range(size >> 12):
        (partition / f"{number:020d}.log").write_bytes(_one(number))


def _partitions(folder: Path, size: int) -> None:
    for number in range(size >> 12):
        partition = folder / f"orders-{number}"
        partition.mkdir()
        (partition / LOG).write_bytes(_one(0))


def _wrapper07(size: int) -> bytes:
    return _message07(gzip.compress(_message07(b"") * (size // 10)), 1)


FILES: Final[dict[str, tuple[Callable[[Path, int], None], str, str]]] = {
    "offset-index": (
        _sibling("0" * 20 + ".index", lambda s: _pack_all(">ii", ((n, n) for n in range(1, s // 8)))),
        "siblings",
        "orders-0",
    ),
    "time-index": (
        _sibling("0" * 20 + ".timeindex", lambda s: _pack_all(">qi", ((n, n) for n in range(1, s // 12)))),
        "siblings",
        "orders-0",
    ),
    "txn-index": (
        _sibling("0" * 20 + ".txnindex", lambda s: _pack_all(">hqqqq", ((0, n, n, n, n) for n in range(s // 34)))),
        "siblings",
        "orders-0",
    ),
    "snapshot": (_sibling(f"{1:020d}.snapshot", _snapshot), "siblings", "orders-0"),
    "epochs": (_sibling("leader-epoch-checkpoint", _checkpoint(lambda n: f"{n} {n}")), "siblings", "orders-0"),
    "one-line": (
        _sibling("leader-epoch-checkpoint", lambda s: b"0\n1\n" + b"7" * min(s, 15 << 20)),
        "siblings",
        "orders-0",
    ),
    "offsets": (
        _in_log_directory("replication-offset-checkpoint", _checkpoint(lambda n: f"t {n} {n}")),
        "directory",
        ".",
    ),
    "recovery": (
        _in_log_directory("recovery-point-offset-checkpoint", _checkpoint(lambda n: f"t {n} {n}")),
        "directory",
        ".",
    ),
    "properties": (
        _in_log_directory("meta.properties", lambda s: b"".join(b"k%d=v\n" % n for n in range(1_500_000))),
        "directory",
        ".",
    ),
    "small-batches": (_batches(_one), "log", f"orders-0/{LOG}"),
    "producers": (
        _batches(lambda n: _one(n, producer_id=n, producer_epoch=0, base_sequence=0)),
        "log",
        f"orders-0/{LOG}",
    ),
    "open-transactions": (
        _batches(lambda n: _one(n, producer_id=n, producer_epoch=0, base_sequence=0, attributes=16)),
        "log",
        f"orders-0/{LOG}",
    ),
    "leader-epochs": (_batches(lambda n: _one(n, partition_leader_epoch=n)), "log", f"orders-0/{LOG}"),
    "damage": (_batches(lambda n: _one(n) + b"\0" * 5), "log", f"orders-0/{LOG}"),
    "wrong-crcs": (_batches(_wrong_crc), "log", f"orders-0/{LOG}"),
    "disorder": (_batches(_in_disorder), "log", f"orders-0/{LOG}"),
    "messages": (_batches(lambda n: message(n, b"v")), "log", f"orders-0/{LOG}"),
    "commits": (_topic("__consumer_offsets", _commits), "topic", "__consumer_offsets-0"),
    "group": (_topic("__consumer_offsets", _group), "topic", "__consumer_offsets-0"),
    "transactional-ids": (_topic("__transaction_state", _transactional_ids), "topic", "__transaction_state-0"),
    "transaction-partitions": (
        _topic("__transaction_state", _transaction_partitions),
        "topic",
        "__transaction_state-0",
    ),
    "topics": (
        _topic("__cluster_metadata", _metadata("TopicRecord", 2, 0, lambda n: {"name": f"t{n}", "topicId": _uuid(n)})),
        "topic",
        "__cluster_metadata-0",
    ),
    "configs": (
        _topic(
            "__cluster_metadata",
            _metadata(
                "ConfigRecord", 4, 0, lambda n: {"resourceType": 2, "resourceName": f"t{n}", "name": "n", "value": "v"}
            ),
        ),
        "topic",
        "__cluster_metadata-0",
    ),
    "replicas": (_topic("__cluster_metadata", _replicas), "topic", "__cluster_metadata-0"),
    "kraft-snapshot": (_kraft_snapshot, "topic", "__cluster_metadata-0"),
    "log07": (_log07(lambda s: _message07(b"") * (s // 10)), "log07", f"orders-0/{0:020d}.kafka"),
    "wrapper07": (_log07(_wrapper07), "log07", f"orders-0/{0:020d}.kafka"),
    "zk-nodes": (_zk_snapshot(_flat), "zookeeper", "."),
    "zk-deep": (_zk_snapshot(_deep), "zookeeper", "."),
    "zk-creates": (_zk_log(lambda s: (_create(n + 1, b"/n%07d" % n) for n in range(s // 74))), "zookeeper", "."),
    "zk-multi": (_zk_log(_multi), "zookeeper", "."),
    "zk-rules": (_zk_snapshot(lambda s: iter([_znode(b"/a", acl=1)]), lambda s: [_rules(s // 12)]), "zookeeper", "."),
    "zk-shared-rules": (
        _zk_snapshot(
            lambda s: (_znode(b"/n%07d" % number, acl=1) for number in range(s // 170)), lambda s: [_rules(100)]
        ),
        "zookeeper",
        ".",
    ),
    "zk-acls": (
        _zk_snapshot(lambda s: iter([_znode(b"/a", acl=1)]), lambda s: [bytes(4)] * (s // 12)),
        "zookeeper",
        ".",
    ),
    "zk-owners": (
        _zk_snapshot(lambda s: (_znode(b"/n%07d" % number, owner=number + 1) for number in range(s // 85))),
        "zookeeper",
        ".",
    ),
    "zk-created-rules": (
        _zk_log(lambda s: (_create(n + 1, b"/n%07d" % n, acl=_rules(100)) for n in range(s // 1274))),
        "zookeeper",
        ".",
    ),
    "zk-created-owners": (
        _zk_log(lambda s: (_create(n + 1, b"/n%07d" % n, owner=n + 1) for n in range(s // 74))),
        "zookeeper",
        ".",
    ),
    "manifest-ranges": (_copies_manifest(_ranges), "manifest", "orders-0"),
    "manifest-epochs": (_copies_manifest(_epoch_pairs), "manifest", "orders-0"),
    "manifest-files": (_copies_manifest(_listed), "manifest", "orders-0"),
    "manifest-lists": (_copies_manifest(_json_depth), "manifest", "orders-0"),
    "journal-lists": (_journal(lambda s: [[]] * (s // 3)), "journal", "orders-0"),
    "journal-names": (_journal(lambda s: [{"n": n} for n in range(s // 14)]), "journal", "orders-0"),
    "rows": (_rows(lambda s: (_row(offset=n) for n in _forever())), "jsonl", "rows.jsonl"),
    "long-row": (_rows(lambda s: iter([_row(value="v" * s)])), "jsonl", "rows.jsonl"),
    "emoji-row": (_rows(lambda s: iter([_row(value="\U0001f600" + "v" * s)])), "jsonl", "rows.jsonl"),
    "pairs-row": (
        _rows(lambda s: iter([_row(headers=[[f"{n:018}", ""] for n in range(min(s // 26, 2_098_152))])])),
        "jsonl",
        "rows.jsonl",
    ),
    "members-row": (_rows(lambda s: iter([_row(**{f"m{n:07}": 0 for n in range(s // 14)})])), "jsonl", "rows.jsonl"),
    "rows-of-a-batch": (_rows(lambda s: (_row(offset=n, position=0) for n in _forever())), "jsonl", "rows.jsonl"),
    "headers-of-a-batch": (
        _rows(lambda s: (_row(offset=n, position=0, headers=[["", None]] * 900) for n in _forever())),
        "jsonl",
        "rows.jsonl",
    ),
    "headers-row": (
        _rows(lambda s: iter([_row(headers=[{"key": "", "value": None}] * (s // 25))])),
        "jsonl",
        "rows.jsonl",
    ),
    "lists-row": (_rows(lambda s: iter([_row(headers=[[]] * (s // 3))])), "jsonl", "rows.jsonl"),
    "segments": (_segments, "directory", "."),
    "partitions": (_partitions, "directory", "."),
    **{
        f"{kind}-{form}": (partial(metadatafiles.write, values, form), "metadata", "__cluster_metadata-0")
        for kind, values in metadatafiles.KINDS.items()
        for form in metadatafiles.FORMS
    },
}
"""By name: what writes it, the group of commands that read it, and the PATH in its folder."""


def make(name: str, size: int, folder: Path) -> None:
    """Write one of FILES."""
    folder.mkdir(parents=True)
    FILES[name][0](folder, size)


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
