"""The model of a follower against the real leader and fetcher: the copies of the fixtures, varied anew each day.

Checkpoints lose or change entries, logs are cut and damaged, and the parameters of the load vary.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kdump.diff.comparison import Comparison
from kdump.diff.contents import DiffOptions
from kdump.diff.copies import LoadedCopy, load
from kdump.diff.losses import truncations
from kdump.diff.places import copies_of
from kdump.format.batch import HEADER_SIZE
from kdump.format.checkpoint import CLEAN_SHUTDOWN
from kdump.inputs import resolve
from kdump.kafka.startup.directory import LoadSettings
from kdump.log.walk import Walk
from tests.harness.checked import MemorySource
from tests.harness.replicas import Truth, fail
from tests.oracle.toolchain import DUMP_RELEASE, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

PAIRS = 300
INDEX_BYTES = 8192
"""segment.index.bytes of the real load."""


@pytest.fixture
def command() -> list[str]:
    try:
        return java_command(DUMP_RELEASE, "kafka.server.ReplicaPair", options=("-Xmx1g",))
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def test_followers(command: list[str], seed: int, replicas: Truth, tmp_path: Path) -> None:
    random = Random(seed)
    wanted = []
    for number in range(PAIRS):
        line = random.choice(replicas.lines)
        case: dict[str, Any] = {"id": str(number)}
        for role in ("leader", "follower"):
            source = replicas.root / line[role]
            directory = tmp_path / str(number) / role / source.name.partition(".")[0]
            shutil.copytree(source, directory)
            state = line[f"{role}State"]
            # A marker beside the preallocated indexes of a killed broker would be a thing that no broker leaves.
            is_clean = (source.parent / CLEAN_SHUTDOWN).exists() and random.random() < 0.7
            given = {
                "clean": is_clean,
                "recovery_point": random.choice((0, state[1])),
                "log_start_offset": state[0],
                "high_watermark": random.choice((state[2], random.randint(state[0], state[1]))),
            }
            note = vary(directory, random, is_clean=is_clean)
            case[role] = {"dir": str(directory.relative_to(tmp_path)), **given}
            case[f"{role}Note"] = note
        wanted.append(case)
    cases = tmp_path / "cases.jsonl"
    cases.write_text("".join(f"{json.dumps(case)}\n" for case in wanted))
    run = subprocess.run([*command, str(tmp_path / "work"), str(cases)], capture_output=True, check=True)
    answers = [json.loads(answer) for answer in run.stdout.splitlines()]
    assert len(answers) == PAIRS
    compared, wrong = 0, []
    for case, answer in zip(wanted, answers, strict=True):
        if "steps" not in answer or "exception" in answer:
            continue
        compared += 1
        told, real = predicted(tmp_path, case), outcome(answer)
        if told != real:
            wrong.append((case, told, real))
    assert not wrong, f"{len(wrong)} of {compared}: {wrong[0]}"
    assert compared > PAIRS / 2


def vary(directory: Path, random: Random, *, is_clean: bool) -> str:
    """Change a copy in one way, or in none. After a clean stop no tail is torn."""
    epochs = directory / "leader-epoch-checkpoint"
    logs = [path for path in sorted(directory.glob("*.log")) if path.stat().st_size]
    what = random.choice(("nothing", "epoch lost", "epoch moved", "epochs emptied", "tail cut", "crc", "segment lost"))
    if what.startswith("epoch") and epochs.exists():
        entries = [line.split() for line in epochs.read_text().splitlines()[2:]]
        if what == "epochs emptied":
            entries = []
        elif entries and what == "epoch lost":
            del entries[random.randrange(len(entries))]
        elif entries:
            entry = random.choice(entries)
            entry[1] = str(max(0, int(entry[1]) + random.randint(-3, 3)))
        entries.sort(key=lambda entry: int(entry[0]))
        epochs.write_text(f"0\n{len(entries)}\n{''.join(f'{epoch} {start}' + chr(10) for epoch, start in entries)}")
    elif logs and what == "tail cut" and not is_clean:
        data = logs[-1].read_bytes()
        logs[-1].write_bytes(data[: random.randrange(len(data))])
    elif logs and what == "crc":
        path = random.choice(logs)
        data = bytearray(path.read_bytes())
        batches = [span for chunk in Walk(MemorySource(bytes(data))).chunks() for span in chunk.entries()]
        start, end = random.choice(batches)
        # The last byte of the header or one of the records: the offsets stay.
        data[random.randrange(start + HEADER_SIZE - 1, end)] ^= 1
        path.write_bytes(data)
    elif len(logs) > 1 and what == "segment lost":
        for path in directory.glob(f"{random.choice(logs).stem}.*"):
            path.unlink()
    return what


def loaded(root: Path, given: dict[str, Any]) -> LoadedCopy:
    (place,) = copies_of(resolve(str(root / given["dir"])), fail).copies
    settings = LoadSettings(given["clean"], given["recovery_point"], given["log_start_offset"], INDEX_BYTES)
    return load(place._replace(settings=settings, high_watermark=given["high_watermark"]))


def predicted(root: Path, case: dict[str, Any]) -> tuple[object, ...]:
    copies = [loaded(root, case[role]) for role in ("leader", "follower")]
    found = next(truncations(Comparison(copies, DiffOptions())))
    ranges = [list(one) for one in found.lost_ranges]
    return found.truncation_offset, found.loops, found.fails, found.records_lost, ranges


def outcome(answer: dict[str, Any]) -> tuple[object, ...]:
    lost = answer["records_lost"]
    return (
        answer["truncation_offset"],
        "gave_up_after" in answer,
        answer["partition_failed"],
        lost["count"],
        lost["ranges"],
    )
