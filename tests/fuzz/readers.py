"""Kinds of input beside logs of today: Kafka 0.7, frames, ZooKeeper, metadata logs, copies, manifests, the library."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import kdump
from kdump.cli import engine
from kdump.verify import judging
from kdump.wire.compression import compress
from kdump.worlds import world_of_path
from tests.fuzz.case import Case, Fault
from tests.fuzz.corpus import KINDS_07, Corpus
from tests.fuzz.examining import Kind, examine, examined
from tests.fuzz.mutations import (
    NUMBERS,
    damage_entry,
    damage_file,
    damage_index,
    damage_json,
    damage_json_text,
    damage_text,
    json_bytes,
)
from tests.fuzz.running import Ran, bounded, run_command
from tests.oracle.crafting import entries

_TIMES: Final = ("now", "-1h", "2026-11-20", "1970-01-01", "9999-12-31T23:59:59", "0", "1700000000000")
_OUTPUTS: Final = ("jsonl", "csv", "table", "kafka")

# Logs of Kafka 0.7.


def _message_07(payload: bytes, codec: int, random: Random) -> bytes:
    """A message; codec 3 is unknown."""
    head = bytes((1, codec)) if codec or random.random() < 0.5 else b"\0"
    body = head + zlib.crc32(payload).to_bytes(4, "big") + payload
    return len(body).to_bytes(4, "big") + body


def _wrapped_07(data: bytes, random: Random) -> bytes:
    """Messages in wrappers, some in one another."""
    for _ in range(random.choice((1, 1, 2, 3, 20))):
        codec = random.choice((1, 1, 2))
        data = _message_07(compress(codec, data, magic=1), codec if random.random() < 0.95 else 3, random)
        if random.random() < 0.3:
            data += _message_07(random.randbytes(random.randrange(20)), 0, random)
    return data


def _damage_07(data: bytes, random: Random) -> bytes:
    """A log that is wrong in one place or two."""
    for _ in range(random.choice((1, 1, 2))):
        match random.randrange(4):
            case 0:
                data = damage_index(data, random)
            case 1:
                data += _wrapped_07(damage_index(data, random)[:3000], random)
            case 2:
                data += _message_07(random.randbytes(random.choice((0, 1, 100))), random.randrange(4), random)
            case _:
                at = random.randrange(len(data) + 1)
                data = data[:at] + (random.choice(NUMBERS) & 0xFFFF_FFFF).to_bytes(4, "big") + data[at + 4 :]
    return data


def _make_log_07(random: Random, corpus: Corpus) -> dict[str, bytes]:
    data = random.choice(corpus.logs_07)
    made = {f"orders-0/{0:020}.kafka": _damage_07(data, random)}
    if random.random() < 0.3:
        made[f"orders-0/{random.choice((len(data), 5, 2**63 - 1, 2**63)):020}.kafka"] = random.choice(corpus.logs_07)
    return made


def _commands_07(random: Random) -> list[list[str]]:
    log, folder = f"evidence/orders-0/{0:020}.kafka", "evidence/orders-0"
    path = random.choice((log, log, folder, "evidence"))
    number = str(random.randrange(2000))
    return random.sample(
        [
            ["dump", path],
            ["dump", "--print-data-log", path],
            ["dump", "--print-data-log", "--resync", path],
            ["dump", "--output", random.choice(_OUTPUTS), "--records", "--resync", path],
            ["dump", "--output", "jsonl", "--batches", f"--offset={number}:", path],
            ["dump", "--output", "arrow", "--records", path],
            ["dump", "--output", "jsonl", "--records", "--max-decompressed-size", number.lstrip("0") or "1", path],
            ["dump", "--output", "jsonl", "--records", "--tail", "3", path],
            ["explain", log, number],
            ["verify", path],
            ["verify", "--output", "jsonl", path],
            ["verify", "--quick", "--manifest", "out", path],
            ["verify", "--startup", random.choice(("--clean", "--unclean")), path],
            ["stats", "--output", "jsonl", path],
            ["stats", "--by", random.choice(("topic", "codec", "hour")), path],
            ["stats", "--what-if", random.choice(("codec", "retention=1d,1MB")), path],
            ["repair", path],
            ["repair", "--like-broker", "-o", "out", path],
            ["repair", "--salvage", path],
            ["convert", path, "-o", "out", "--skip-damaged", "--to-magic", random.choice("012")],
            ["convert", path, "-o", "out", "--skip-damaged", "--codec", "zstd", "--offset-map", "--to-magic", "2"],
            ["convert", path, "-o", "out.jsonl", "--to", "jsonl", "--skip-damaged"],
            ["diff", path, path],
        ],
        3,
    )


# Saved requests and responses.


def _make_frame(random: Random, corpus: Corpus) -> dict[str, bytes]:
    kind = random.choice(list(corpus.frames))
    data = random.choice(corpus.frames[kind])
    for _ in range(random.choice((1, 1, 2))):
        data = damage_index(data, random)
        if random.random() < 0.4:
            at, size = random.randrange(len(data) + 1), random.choice((1, 2, 4, 5))
            number = random.choice(NUMBERS) & (1 << 8 * size) - 1
            data = data[:at] + number.to_bytes(size, "big") + data[at + size :]
    return {f"{kind.replace(':', '@')}.bin": data}


def _check_frame(case: Case, folder: Path) -> list[Fault]:
    (name,) = case.files
    own = name.removesuffix(".bin").replace("@", ":")

    def choose(random: Random) -> Iterable[list[str]]:
        # Without a version several may fit: then they are listed, with status 2.
        kind = random.choice((own, own, random.choice(KINDS_07)))
        path = f"evidence/{name}"
        yield ["dump", "--frame", kind, "--output", random.choice(_OUTPUTS[:3]), "--records", path]
        yield ["dump", "--frame", kind, *random.choice(([], ["--resync"], ["--print-data-log"])), path]
        yield ["dump", "--frame", kind, "--output", "jsonl", random.choice(("--batches", "--records")), path]

    return examined(case, folder, choose)


# Files of ZooKeeper.

_NODE_JSON: Final = re.compile(rb'\{"[^\0-\x1f\x7f-\xff]*\}')


def _damage_zookeeper(name: str, data: bytes, random: Random) -> bytes:
    """Most have a right checksum, so that what is wrong gets past it."""
    if random.random() < 0.3:
        changed = bytearray(_damage_node(name, data, random))
    else:
        changed = bytearray(damage_index(data, random))
        if len(changed) > 60 and random.random() < 0.6:
            at, size = random.randrange(16, len(changed) - 20), random.choice((4, 4, 8))
            changed[at : at + size] = (random.choice(NUMBERS) & (1 << 8 * size) - 1).to_bytes(size, "big")
    if random.random() < 0.7:
        if name.startswith("snapshot") and len(changed) > 13:
            changed[-13:-5] = zlib.adler32(bytes(changed[:-13])).to_bytes(8, "big")
        elif name.startswith("log"):
            _right_transactions(changed)
    return bytes(changed)


def _damage_node(name: str, data: bytes, random: Random) -> bytes:
    """Other JSON in one node, with the right lengths."""
    nodes = [
        (match.start(), match.end())
        for match in _NODE_JSON.finditer(data)
        if int.from_bytes(data[match.start() - 4 : match.start()], "big") == len(match[0])
    ]
    if not nodes:
        return data
    start, end = random.choice(nodes)
    text = damage_json_text(data[start:end], random)
    changed = bytearray(data[: start - 4] + len(text).to_bytes(4, "big") + text + data[end:])
    position = 16
    while name.startswith("log") and position + 12 <= start:
        size = int.from_bytes(data[position + 8 : position + 12], "big")
        if position < start < position + 12 + size:
            changed[position + 8 : position + 12] = (size + len(text) - (end - start)).to_bytes(4, "big")
        position += 13 + size
    return bytes(changed)


def _right_transactions(data: bytearray) -> None:
    position = 16
    while position + 12 <= len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big")
        if not 0 < size <= len(data) - position - 12:
            return
        checksum = zlib.adler32(bytes(data[position + 12 : position + 12 + size]))
        data[position : position + 8] = checksum.to_bytes(8, "big")
        position += 13 + size


def _make_zookeeper(random: Random, corpus: Corpus) -> dict[str, bytes]:
    made = dict(random.choice(corpus.zookeeper))
    for path in random.sample(sorted(made), min(len(made), random.choice((1, 1, 2, 4)))):
        name = os.path.basename(path)
        match random.randrange(12):
            case 0:
                del made[path]
            case 1:
                made[
                    f"version-2/{random.choice(('log', 'snapshot'))}.{random.choice(('0', 'zz', 'f' * 16, '1' * 17))}"
                ] = made.pop(path)
            case 2 if name.startswith("snapshot") and not path.endswith((".gz", ".snappy")):
                packed = gzip.compress(made.pop(path)) if random.random() < 0.5 else compress(2, made[path], magic=1)
                made[f"{path}.{random.choice(('gz', 'snappy'))}"] = packed
            case _:
                made[path] = _damage_zookeeper(name, made[path], random)
    return made or {"version-2/log.1": b""}


def _check_zookeeper(case: Case, folder: Path) -> list[Fault]:
    def choose(random: Random) -> Iterable[list[str]]:
        file = f"evidence/{random.choice(sorted(case.files))}"
        path = random.choice(("evidence", "evidence", "evidence/version-2", file))
        history = random.choice(("topic=orders", "partition=orders-0", "broker=1", "group=g1"))
        zxid = random.choice(("0", "1", "0x1f", "0xb00000003", "9223372036854775807", "0x7fffffffffffffff"))
        # A renamed file is none of ZooKeeper's: of others these are usage errors.
        questions = [
            ["state", "--at-zxid", zxid, "--output", "jsonl", path],
            ["state", "--history", history, path],
            ["dump", "--output", "jsonl", "--show-secrets", path],
        ]
        return random.sample(
            [
                *(questions if world_of_path(str(folder / path)) is not None else ()),
                ["dump", path],
                ["dump", "--output", random.choice(_OUTPUTS[:3]), path],
                ["verify", path],
                ["verify", "--output", "jsonl", path],
                ["verify", "--quick", "--manifest", "out", path],
                ["state", "--at", random.choice(_TIMES), "--output", random.choice(("table", "jsonl")), path],
                ["state", "--between", f"{random.choice(_TIMES)}..{random.choice(_TIMES)}", path],
                ["explain", file, str(random.randrange(3000))],
                ["repair", path],
                ["diff", path, path],
            ],
            3,
        )

    return examined(case, folder, choose)


# Metadata logs.


def _make_metadata(random: Random, corpus: Corpus) -> dict[str, bytes]:
    made = corpus.metadata_directory(random)
    for path in random.sample(sorted(made), min(len(made), random.choice((1, 1, 2)))):
        if not path.endswith((".log", ".checkpoint")) or random.random() < 0.4:
            made[path] = damage_file(os.path.basename(path), made[path], random)
            continue
        data = made[path]
        places = list(entries(data))
        if places:
            start, end = random.choice(places)
            made[path] = data[:start] + damage_entry(data[start:end], random) + data[end:]
    return made


def _check_metadata(case: Case, folder: Path) -> list[Fault]:
    def choose(random: Random) -> Iterable[list[str]]:
        file = f"evidence/{random.choice(sorted(case.files))}"
        path = random.choice(("evidence", "evidence/__cluster_metadata-0", file))
        output = random.choice(("table", "jsonl", "records", "commands"))
        first, last = (random.choice(("", "0", "5", "100", "9223372036854775807")) for _ in range(2))
        history = random.choice(("topic=foo", "topic=orders", "partition=foo-0", "broker=1", "broker=2147483647"))
        return random.sample(
            [
                ["state", "--at", random.choice(_TIMES), "--output", output, path],
                ["state", "--at", "now", "--output", "jsonl", "--show-secrets", path],
                ["state", "--at", "now", "--topic", "foo", "--broker", "1", path],
                ["state", "--at-offset", first or "7", "--output", output, path],
                ["state", "--between-offsets", f"{first}:{last}", "--output", random.choice(("table", "jsonl")), path],
                ["state", "--between", f"{random.choice(_TIMES)}..{random.choice(_TIMES)}", path],
                ["state", "--history", history, "--output", random.choice(("table", "jsonl")), path],
                ["stats", "--offsets-for", random.choice(_TIMES), path],
                ["dump", "--cluster-metadata-decoder", "evidence/__cluster_metadata-0"],
                ["dump", "--output", "jsonl", "--decode", "auto", "evidence/__cluster_metadata-0"],
                ["verify", path],
                ["verify", "--startup", path],
                ["explain", file, str(random.randrange(3000))],
                ["diff", path, path],
                ["repair", path],
                ["repair", "--like-broker", "-o", "out", path],
            ],
            3,
        )

    return examined(case, folder, choose)


# Copies of a partition, and manifests of one.


def _make_copies(random: Random, corpus: Corpus) -> dict[str, bytes]:
    name, files = corpus.partition(random)
    made = {
        f"{copy}/{name}/{file}": data for copy in random.choice(("ab", "ab", "abc")) for file, data in files.items()
    }
    for path in random.sample(sorted(made), min(len(made), random.choice((1, 2, 4)))):
        if random.random() < 0.15 and len(made) > 1:
            del made[path]
        else:
            made[path] = damage_file(os.path.basename(path), made[path], random)
    return made


def _copies(case: Case, random: Random) -> list[str]:
    """At least two; one that is not there is no fault."""
    wholes = sorted({path.partition("/")[0] for path in case.files} | {"a", "b"})
    name = min(case.files).split("/")[1]
    return [f"evidence/{copy}{random.choice(('', '', f'/{name}'))}" for copy in wholes]


def _check_copies(case: Case, folder: Path) -> list[Fault]:
    def choose(random: Random) -> Iterable[list[str]]:
        paths = _copies(case, random)
        options = random.sample(["--content", "--strict"], random.randrange(3))
        outputs = random.choice((["--output", "table"], ["--output", "jsonl", "--records"], ["--output", "junit"]))
        yield ["diff", *paths]
        yield ["diff", *options, *outputs, *paths]
        yield ["verify", *paths]

    return examined(case, folder, choose)


def _make_listing(random: Random, corpus: Corpus) -> dict[str, bytes]:
    name, files = corpus.partition(random)
    return {f"{name}/{file}": data for file, data in files.items()}


def _damage_listing(data: bytes, random: Random) -> bytes:
    """A line is wrong, most often in its JSON."""
    lines = data.split(b"\n")
    at = random.choice([number for number, line in enumerate(lines) if line.startswith(b"# ")])
    if random.random() < 0.3:
        return damage_text(data, random)
    lines[at] = b"# " + json_bytes(damage_json(json.loads(lines[at][2:]), random), random)
    return b"\n".join(lines)


def _check_listing(case: Case, folder: Path) -> list[Fault]:
    """A manifest of a partition agrees with it; damaged, it is refused or differs."""
    evidence, faults, random = folder / "evidence", list[Fault](), case.random
    case.write(evidence)
    name = sorted(case.files)[0].partition("/")[0]
    run_command(["verify", "--quick", "--manifest", "listing", f"evidence/{name}"], folder, faults)
    listing = folder / "listing"
    if not listing.exists():
        return faults
    ran = run_command(["diff", "listing", f"evidence/{name}"], folder, faults)
    if ran.status not in (0, 1):
        faults.append(Fault("listing", f"status {ran.status}", f"{ran.errors[-500:]!r}"))
    data = listing.read_bytes()
    for _ in range(3):
        listing.write_bytes(_damage_listing(data, random))
        words = ["diff", *random.choice(([], ["--records"], ["--output", "jsonl"])), "listing", f"evidence/{name}"]
        examine(words, folder, evidence, faults)
    return faults


# The library.


def _make_scanned(random: Random, corpus: Corpus) -> dict[str, bytes]:
    if random.random() < 0.15:
        return _make_log_07(random, corpus)
    topic, entry = corpus.entry(random)
    found = [entry, *(corpus.entry(random)[1] for _ in range(random.choice((0, 1, 2))))]
    at = random.randrange(len(found))
    found[at] = damage_entry(found[at], random)
    return {f"{topic or 'orders'}-0/{0:020}.log": b"".join(found)}


def _check_scanned(case: Case, folder: Path) -> list[Fault]:
    """Objects and Arrow hold the same records, whatever is done with damage."""
    case.write(folder)
    random, faults = case.random, list[Fault]()
    path = str(folder / random.choice(sorted(case.files)))
    on_damage: Any = random.choice(("raise", "skip", "mark"))
    limit = random.choice((1, 300, 128 << 20, 128 << 20))
    decode: Any = random.choice((None, None, "auto"))

    def scan() -> kdump.Scan:
        return kdump.scan(path, on_damage=on_damage, max_decompressed_size=limit, decode=decode)

    what = f"scan {on_damage}"
    objects = bounded(what, lambda: [(one.offset, one.key, one.value, one.crc) for one in scan()], faults)
    rows = bounded(f"{what} as Arrow", lambda: list(_arrow_rows(scan())), faults)
    if objects is not None and rows is not None and objects != rows:
        faults.append(Fault("scan", f"objects and Arrow, {on_damage}", f"{objects}\n{rows}"[:8000]))
    bounded(f"{what}: batches", lambda: list(scan().batches()), faults)
    bounded("kdump.verify", lambda: list(kdump.findings(path)), faults)
    return faults


def _arrow_rows(scan: kdump.Scan) -> Iterator[tuple[Any, ...]]:
    table = scan.to_arrow()
    yield from zip(*(table.column(name).to_pylist() for name in ("offset", "key", "value", "crc")), strict=True)


# In several processes.


def _check_jobs(case: Case, folder: Path) -> list[Fault]:
    """Two processes print what one prints."""
    case.write(folder / "evidence")
    random, faults = case.random, list[Fault]()
    words = random.choice(
        (
            ["verify", "--output", "jsonl"],
            ["stats", "--output", "jsonl"],
            ["diff"],
        )
    )
    paths = _copies(case, random)
    before = engine.LEAST_FOR_POOL, judging.SMALL_LOG
    engine.LEAST_FOR_POOL, judging.SMALL_LOG = 0, random.choice((-1, before[1]))
    try:
        one, two = (run_command([*words, "-j", jobs, *paths], folder, faults) for jobs in ("1", "2"))
    finally:
        engine.LEAST_FOR_POOL, judging.SMALL_LOG = before

    # Where the lines of standard error stand among those of other processes nobody promises.
    def shown(ran: Ran) -> tuple[int, bytes, list[bytes]]:
        return ran.status, ran.out, sorted(ran.errors.split(b"\n"))

    if shown(one) != shown(two):
        faults.append(Fault("jobs", " ".join(words), f"{one}\n{two}"[:8000]))
    return faults


KINDS: Final = {
    "log07": Kind(2, _make_log_07, lambda case, folder: examined(case, folder, _commands_07)),
    "frame": Kind(2, _make_frame, _check_frame),
    "zookeeper": Kind(1.5, _make_zookeeper, _check_zookeeper),
    "metadata": Kind(1.5, _make_metadata, _check_metadata),
    "copies": Kind(1, _make_copies, _check_copies),
    "listing": Kind(0.5, _make_listing, _check_listing),
    "scanned": Kind(10, _make_scanned, _check_scanned),
    "jobs": Kind(0.3, _make_copies, _check_jobs),
}
