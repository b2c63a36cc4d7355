"""The kinds of input: how each is made, and which promises are checked with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import kdump
from kdump import explain
from kdump.cli import exit_status
from kdump.codes import Codes
from kdump.dump.text.options import DECODER_CLASSES
from kdump.explain import layout
from kdump.log.opening import open_source
from kdump.payloads import decode
from kdump.payloads.choice import DecoderChoice
from tests.fuzz import commands, readers
from tests.fuzz.case import Case, Fault
from tests.fuzz.corpus import INTERNAL_TOPICS, Corpus
from tests.fuzz.examining import Kind, examine, remove_outputs
from tests.fuzz.mutations import (
    damage_entry,
    damage_file,
    damage_index,
    damage_json,
    damage_log,
    json_bytes,
)
from tests.fuzz.running import Ran, bounded, contents_in, run_command
from tests.harness.dumpoptions import text_dump
from tests.harness.inprocess import BOTH_PATHS, run_in_process

NAME: Final = f"{0:020}"
_FOLLOW_SECONDS: Final = 0.5
"""How long ``--follow`` runs: longer than two of its waits."""
_FOLDERS: Final = ("orders-0", *(f"{topic}-0" for topic in INTERNAL_TOPICS), "x")
_INDEXES: Final = (".index", ".timeindex", ".txnindex", ".snapshot")
_TEXTS: Final = {
    "recovery-point-offset-checkpoint": b"0\n1\norders 0 5\n",
    "log-start-offset-checkpoint": b"0\n1\norders 0 0\n",
    "replication-offset-checkpoint": b"0\n1\norders 0 5\n",
    "cleaner-offset-checkpoint": b"0\n1\norders 0 3\n",
    "meta.properties": b"#\n#Fri Nov 20 2026\ncluster.id=abc\nversion=1\nnode.id=1\ndirectory.id=x\n",
    ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":-1}',
    "orders-0/leader-epoch-checkpoint": b"0\n2\n0 0\n3 5\n",
    "orders-0/partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
}
_OPTIONS: Final = (
    text_dump(print_data_log=True),
    text_dump(deep_iteration=True),
    text_dump(),
    text_dump(print_data_log=True, skip_record_metadata=True),
    text_dump(print_data_log=True, resync=True),
    text_dump(print_data_log=True, read_committed=True),
    text_dump(print_data_log=True, secret=b"k"),
    text_dump(print_data_log=True, max_decompressed_size=300),
    text_dump(print_data_log=True, decoding=DecoderChoice(by_topic=True)),
    *(text_dump(print_data_log=True, value_decoder=decoder) for decoder in DECODER_CLASSES.values()),
)


def check(case: Case, folder: Path) -> list[Fault]:
    """The promises that a case breaks; ``folder`` is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return KINDS[case.kind].check(case, folder)


# A small log, through both decoders.


def _make_entries(random: Random, corpus: Corpus) -> dict[str, bytes]:
    topic, entry = corpus.entry(random)
    entries = [entry, *(corpus.entry(random)[1] for _ in range(random.choice((0, 0, 1, 2))))]
    random.shuffle(entries)
    at = random.randrange(len(entries))
    entries[at] = damage_entry(entries[at], random)
    return {f"{topic or 'orders'}-0/{NAME}.log": b"".join(entries)}


def _check_entries(case: Case, folder: Path) -> list[Fault]:
    """Both decoders give the same, and nothing else in the library breaks on it."""
    case.write(folder)
    random = case.random
    (name,) = case.files
    path = str(folder / name)
    options = random.choice(_OPTIONS)
    faults: list[Fault] = []
    outcomes = []
    for way in BOTH_PATHS:
        outcome = bounded(f"dump {way} {options}", lambda way=way: run_in_process([path], options, way), faults)
        if outcome is not None and outcome.failure is not None:
            faults.append(Fault("exception", f"dump {way} {outcome.failure[:60]}", f"{options}\n{outcome.failure}"))
        outcomes.append(outcome)
    if outcomes[0] != outcomes[1] and not faults:
        faults.append(Fault("decoders", repr(options), f"{outcomes[0]!r}\n{outcomes[1]!r}"[:8000]))
    match random.randrange(4):
        case 0:
            bounded("verify", lambda: list(kdump.findings(path)), faults)
        case 1:
            _explain(path, random.random(), faults)
    return faults


def _explain(path: str, where: float, faults: list[Fault]) -> None:
    with open_source(path) as source:
        position = int(where * ((source.size or 0) + 20))
        bounded("explain", lambda: layout.report(explain.explain(source, position)), faults)


# Keys and values of internal topics.


def _make_payload(random: Random, corpus: Corpus) -> dict[str, bytes]:
    _, entry = corpus.entry(random)
    start = random.randrange(60, 90)
    key, value = (damage_index(entry[start : start + random.randrange(200)], random) for _ in range(2))
    if random.random() < 0.7:
        key = random.choice((0, 1, 2, 3, 5, 6, 10, 11, 13, 15, 20)).to_bytes(2, "big") + key[2:]
        value = random.randrange(6).to_bytes(2, "big") + value[2:]
    return {"key": key, "value": value}


def _check_payload(case: Case, folder: Path) -> list[Fault]:
    random = case.random
    topic = random.choice(INTERNAL_TOPICS)
    key = None if random.random() < 0.1 else case.files["key"]
    value = None if random.random() < 0.2 else case.files["value"]
    faults: list[Fault] = []
    bounded(f"decode {topic}", lambda: decode(topic, key, value), faults)
    return faults


# A file beside a log.


def _make_sibling(random: Random, corpus: Corpus) -> dict[str, bytes]:
    suffix = random.choice(_INDEXES)
    _, data = corpus.file(suffix, random)
    return {f"orders-0/{NAME}{suffix}": damage_file(suffix, data, random)}


def _check_sibling(case: Case, folder: Path) -> list[Fault]:
    case.write(folder)
    (name,) = case.files
    path = str(folder / name)
    faults: list[Fault] = []
    outcome = bounded("dump", lambda: run_in_process([path], text_dump()), faults)
    if outcome is not None and outcome.failure is not None:
        faults.append(Fault("exception", f"dump {outcome.failure[:60]}", outcome.failure))
    bounded("verify", lambda: list(kdump.findings(path)), faults)
    _explain(path, case.random.random(), faults)
    return faults


# A segment with its siblings, through the commands.


def _make_segment(random: Random, corpus: Corpus) -> dict[str, bytes]:
    folder, files = corpus.partition(random)
    log = random.choice([name for name in files if ".log" in name])
    stem = log.partition(".")[0]
    folder = random.choice((folder, random.choice(_FOLDERS)))
    made = {log: damage_log(files[log], random)}
    for name, data in files.items():
        if name.startswith(stem) and name != log and random.random() < 0.6:
            made[name] = damage_file(name, data, random) if random.random() < 0.3 else data
    return {f"{folder}/{name}": data for name, data in made.items()}


def _check_segment(case: Case, folder: Path) -> list[Fault]:
    evidence, faults = folder / "evidence", list[Fault]()
    case.write(evidence)
    random = case.random
    names = sorted(case.files)
    log = next((name for name in names if ".log" in name), names[0])
    for words in commands.for_file(random, f"evidence/{log}"):
        examine(words, folder, evidence, faults)
    if random.random() < 0.3:
        _cut_equals_prediction(f"evidence/{log}", folder, faults)
    return faults


def _cut_equals_prediction(log: str, folder: Path, faults: list[Fault]) -> None:
    """What ``verify`` says that recovery would cut is what ``repair --like-broker`` cuts."""
    ran = run_command(["verify", "--output", "jsonl", log], folder, faults)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    said = next((row["recovery"] for row in rows if row["type"] == "segment" and row.get("recovery")), None)
    if said is None or said.get("outcome") != "truncated":
        return
    run_command(["repair", "--like-broker", "-o", "out", log], folder, faults)
    copies = list((folder / "out").rglob("*.log"))
    if copies and copies[0].stat().st_size != said["size"]:
        detail = f"{log}: {said}, but the copy has {copies[0].stat().st_size} bytes"
        faults.append(Fault("prediction", "if recovered", detail))
    shutil.rmtree(folder / "out", ignore_errors=True)


# Partition and log directories.


def _make_directory(random: Random, corpus: Corpus) -> dict[str, bytes]:
    made: dict[str, bytes] = {}
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        folder, files = corpus.partition(random)
        made |= {f"{folder}/{name}": data for name, data in files.items()}
    made |= {name: data for name, data in _TEXTS.items() if random.random() < 0.3}
    for name in random.sample(sorted(made), min(len(made), random.choice((1, 1, 2, 3, 5)))):
        match random.randrange(12):
            case 0:
                del made[name]
            case 1:
                made[name] = b""
            case 2:
                stem = random.choice((NAME, f"{5:020}", "9" * 20, "-0000000000000000001", "0", "x"))
                suffix = random.choice((".log", ".log.swap", ".log.cleaned", ".log.deleted", ".index", ".snapshot"))
                made[f"{os.path.dirname(name)}/{stem}{suffix}".lstrip("/")] = made.pop(name)
            case _:
                made[name] = damage_file(os.path.basename(name), made[name], random)
    return made or {"orders-0/x": b""}


def _check_directory(case: Case, folder: Path) -> list[Fault]:
    evidence, faults = folder / "evidence", list[Fault]()
    case.write(evidence)
    random = case.random
    folders = sorted(path.name for path in evidence.iterdir() if path.is_dir())
    target = f"evidence/{random.choice(folders)}" if folders and random.random() < 0.7 else "evidence"
    for words in commands.for_directory(random, target):
        examine(words, folder, evidence, faults)
    if random.random() < 0.4:
        _repair_and_undo(random, target, folder, faults)
    return faults


def _repair_and_undo(random: Random, target: str, folder: Path, faults: list[Fault]) -> None:
    """``--undo`` brings every file back."""
    before = contents_in(folder)
    words = ["repair", "--in-place", "--force", *random.choice(commands.REPAIRS), target]
    run_command(words, folder, faults)
    manifests = sorted(str(path.relative_to(folder)) for path in folder.rglob(".kdump/*/manifest.json"))
    if not manifests:
        if contents_in(folder) != before:
            faults.append(Fault("undo", "changed without a manifest", " ".join(words)))
        return
    for manifest in manifests:
        ran = run_command(["repair", "--undo", manifest], folder, faults)
        if ran.status:
            detail = f"{words}\n{ran.errors.decode('utf-8', 'replace')}"
            faults.append(Fault("undo", f"status {ran.status}", detail))
            return
    after = contents_in(folder)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        faults.append(Fault("undo", "not as it was", f"{words}\n{changed}"))


# JSON lines that become a log.

_CONTROL_CODES: Final = frozenset({Codes.CONTROL_TYPE.value.code, Codes.CONTROL_RECORD.value.code})


def _make_json_lines(random: Random, corpus: Corpus) -> dict[str, bytes]:
    lines = random.sample(corpus.rows, random.choice((1, 1, 3, 10)))
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(lines))
        lines[at] = damage_json(lines[at], random)
    return {"rows.jsonl": b"\n".join(json_bytes(line, random) for line in lines) + random.choice((b"\n", b"", b"\n\n"))}


def _check_json_lines(case: Case, folder: Path) -> list[Fault]:
    """Where a log is made of them, it is undamaged.

    Only a control record that Kafka does not know or cannot read comes out as it went in: the lines of a log that has
    one give that log.
    """
    case.write(folder)
    faults: list[Fault] = []
    words = ["convert", "rows.jsonl", "-o", "out/", "--from", "jsonl", *case.random.choice(commands.FROM_JSON)]
    ran = run_command(words, folder, faults)
    if ran.status == 0 and (folder / "out").is_dir():
        verified = run_command(["verify", "--output", "jsonl", "out"], folder, faults)
        found = [json.loads(line) for line in verified.out.splitlines()]
        faults += (
            Fault("made", f"{row['code']} {row['name']}", f"{words}\n{row}")
            for row in found
            if row["severity"] == "error" and row["code"] not in _CONTROL_CODES
        )
        if verified.status and not found:
            faults.append(Fault("made", f"status {verified.status}", f"{words}\n{verified.errors!r}"))
    return faults


# Manifests of repairs.


def _make_manifest(random: Random, corpus: Corpus) -> dict[str, bytes]:
    _, files = corpus.partition(random)
    made = {f"log/orders-0/{name}": data for name, data in files.items()}
    made["victim/file"] = made["victim/old/file"] = b"precious"
    made["log/orders-0/.kdump/1/new/evil"] = b"evil"
    made["log/orders-0/.kdump/1/old/saved"] = b"saved"
    target = random.choice(("../../victim/file", "/victim", "..", ".", "", "a/b", *files))
    state = {"size": 8, "sha256": "0" * 64, "mode": 420, "uid": 0, "gid": 0, "modified": 0}
    manifest = {
        "format": 1,
        "directory": random.choice(("orders-0", "../victim", "/")),
        "backup": random.choice(("../../../../victim", "victim", ".kdump/1")),
        "created": "2026-01-01T00:00:00Z",
        "version": "0.1.0",
        "way": "salvage",
        "state": random.choice(("begun", "done", "undoing", "undone")),
        "files": [{"name": target, "before": state, "after": None, "saved": "../saved", "kept": 0}],
        "steps": [
            {"action": "remove", "target": target},
            {"action": "cut", "target": target, "position": 0, "modified": 0},
            {"action": "place", "source": ".kdump/1/new/evil", "target": target},
            {"action": "sync", "target": ".."},
        ],
        "logs": [],
    }
    if random.random() < 0.3:
        # One that is valid, so that only its directories can be false.
        manifest.update(files=[], steps=[])
    elif random.random() < 0.8:
        manifest = damage_json(manifest, random)
    made["log/orders-0/.kdump/1/manifest.json"] = json_bytes(manifest, random)
    return made


def _check_manifest(case: Case, folder: Path) -> list[Fault]:
    """Whatever stands in a manifest, nothing outside of the partition changes."""
    case.write(folder)
    random, faults = case.random, list[Fault]()
    before = contents_in(folder / "victim")
    runs = [
        ["repair", "log/orders-0"],
        ["repair", "--in-place", "--force", *random.choice(commands.REPAIRS), "log/orders-0"],
        ["repair", "--undo", "log/orders-0/.kdump/1/manifest.json"],
        ["repair", "--undo", "log/orders-0/.kdump/1/manifest.json", "--backup-dir", ".", "--replace-changed"],
        ["repair", "--finish", "log"],
        ["repair", "--finish", "--backup-dir", ".", "log"],
        ["verify", "log/orders-0"],
    ]
    for words in random.sample(runs, 2):
        run_command(words, folder, faults)
    if contents_in(folder / "victim") != before:
        faults.append(Fault("outside", "a manifest", "a file outside of the partition changed"))
    return faults


# Files that change while they are read.


def _make_changing(random: Random, corpus: Corpus) -> dict[str, bytes]:
    folder, files = corpus.partition(random)
    return {f"{folder}/{name}": data for name, data in files.items()}


def _check_changing(case: Case, folder: Path) -> list[Fault]:
    evidence, faults = folder / "evidence", list[Fault]()
    case.write(evidence)
    random = case.random
    is_over = threading.Event()
    changer = threading.Thread(target=_keep_changing, args=(evidence, Random(case.seed), is_over))
    changer.start()
    try:
        name = next(path.name for path in evidence.iterdir())
        for words in commands.for_directory(random, f"evidence/{name}"):
            run_command(words, folder, faults)
            remove_outputs(folder)
    finally:
        is_over.set()
        changer.join()
    return faults


def _keep_changing(evidence: Path, random: Random, is_over: threading.Event) -> None:
    """Files grow, shrink, go and come back, until it is over."""
    paths = sorted(path for path in evidence.rglob("*") if path.is_file())
    contents = {path: path.read_bytes() for path in paths}
    while not is_over.is_set():
        path = random.choice(paths)
        data = contents[path]
        match random.randrange(4):
            case 0:
                path.write_bytes(data[: random.randrange(len(data) + 1)])
            case 1:
                path.unlink(missing_ok=True)
            case 2:
                path.write_bytes(data)
            case _:
                with path.open("ab") as file:
                    file.write(data[:100])
        time.sleep(0.0005)


# A partition that is followed while it grows.


def _make_followed(random: Random, corpus: Corpus) -> dict[str, bytes]:
    name, data = corpus.file(".log", random)
    return {f"orders-0/{name}": damage_log(data, random) if random.random() < 0.5 else data}


def _check_followed(case: Case, folder: Path) -> list[Fault]:
    evidence, faults = folder / "evidence", list[Fault]()
    case.write(evidence)
    (log,) = evidence.rglob("*.log")
    data, random = log.read_bytes(), Random(case.seed)
    words = ["dump", "--print-data-log", str(log.parent.relative_to(folder))]
    log.write_bytes(data[: random.randrange(len(data) + 1)])
    grower = threading.Thread(target=_grow, args=(log, data, random))
    grower.start()
    try:
        followed = _interrupted(lambda: run_command([*words, "--follow"], folder, faults))
    finally:
        grower.join()
    plain = run_command(words, folder, faults)
    if followed is not None and plain.status == exit_status.CLEAN and not plain.out.startswith(followed.out):
        faults.append(Fault("follow", "other lines than of the whole log", f"{case.files.keys()}"))
    return faults


def _grow(log: Path, data: bytes, random: Random) -> None:
    """The log becomes whole, piece by piece, and another segment is rolled after it."""
    with log.open("ab", buffering=0) as file:
        while (size := file.tell()) < len(data):
            file.write(data[size : size + random.randrange(1, 2 + len(data) // 4)])
            time.sleep(0.002)
    if random.random() < 0.5 and log.stem.isdecimal():
        log.with_stem(f"{int(log.stem) + 10**9:020}").touch()


def _interrupted(call: Callable[[], Ran]) -> Ran | None:
    """What an endless command came to when Ctrl-C is pressed; None: it had just ended."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, _FOLLOW_SECONDS)
    try:
        return call()
    except KeyboardInterrupt:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


KINDS: Final[dict[str, Kind]] = {
    "entries": Kind(60, _make_entries, _check_entries),
    "payload": Kind(30, _make_payload, _check_payload),
    "sibling": Kind(25, _make_sibling, _check_sibling),
    "segment": Kind(1, _make_segment, _check_segment),
    "directory": Kind(0.5, _make_directory, _check_directory),
    "json": Kind(1, _make_json_lines, _check_json_lines),
    "manifest": Kind(0.3, _make_manifest, _check_manifest),
    "changing": Kind(0.1, _make_changing, _check_changing),
    "followed": Kind(0.1, _make_followed, _check_followed),
    **readers.KINDS,
}
