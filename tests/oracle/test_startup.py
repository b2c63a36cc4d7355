"""The model of a broker start against the real one: the directories of the fixtures, varied anew each day.

What lies in a directory is damaged (``mutations``), removed, given another name, left behind by a cleaner; marker,
recovery point, log start offset and limits vary.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.harness import ROOT
from tests.harness.archives import cases, unpack_cases
from tests.harness.startcases import NOW, differences, started
from tests.oracle.mutations import mutate, mutations_for
from tests.oracle.overflows import write_overflowing
from tests.oracle.toolchain import DUMP_RELEASE, MODELLED, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

FIXED_SEED = 4711
DIRECTORIES = 400
OVERFLOWING = 300
KEPT = ROOT / "build" / "oracle" / "startup"
"""Where the directories on which model and broker differ are kept."""
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_PAYLOAD_ERRORS = ("org.xerial.snappy.SnappyError", "java.nio.BufferUnderflowException", "java.lang.OutOfMemoryError")
"""What broken containers of compressed messages throw in places; the model has one answer for all."""


@pytest.fixture(params=["fixed", "new"])
def startup_seed(request: pytest.FixtureRequest, seed: int) -> int:
    return FIXED_SEED if request.param == "fixed" else seed


@pytest.fixture
def command() -> list[str]:
    try:
        return java_command(DUMP_RELEASE, "LogStart", options=("-Xmx1g",))
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def test_starts(command: list[str], startup_seed: int, tmp_path: Path) -> None:
    random = Random(startup_seed)
    sources = [(case["id"], unpacked) for case, unpacked in _sources(tmp_path)]
    made = []
    for number in range(DIRECTORIES):
        name, source = random.choice(sources)
        directory = tmp_path / "varied" / f"{number}-{name}" / source.name
        shutil.copytree(source, directory)
        notes = [vary(directory, random) for _ in range(random.choice((1, 1, 2, 3)))]
        made.append((directory, params(directory, random), notes))
    _compare(command, tmp_path / "work", made, startup_seed)


def test_splits(command: list[str], startup_seed: int, tmp_path: Path) -> None:
    random = Random(startup_seed)
    made = []
    for number in range(OVERFLOWING):
        directory = tmp_path / "overflowing" / str(number) / f"t{number}-0"
        write_overflowing(directory, random)
        given = params(directory, random)
        failure = started(directory, given, release=MODELLED).start.failure
        # The broker would split the same segment for ever.
        if failure is None or failure.java_class is not None:
            made.append((directory, given, [""]))
    assert len(made) > OVERFLOWING * 0.9
    answers = _compare(command, tmp_path / "work", made, startup_seed)
    assert sum(_is_split(answer) for answer in answers) > OVERFLOWING * 0.2
    assert sum(_has_repeated_part(answer) for answer in answers) > OVERFLOWING * 0.02


def _is_split(answer: dict[str, Any]) -> bool:
    return not answer["exception"] and any(base >= 2**31 for base, _ in answer["segments"])


def _has_repeated_part(answer: dict[str, Any]) -> bool:
    return bool(answer["exception"]) and answer["exception"]["class"] == "java.nio.file.NoSuchFileException"


def _compare(
    command: list[str], work: Path, made: list[tuple[Path, dict[str, Any], list[str]]], seed: int
) -> list[dict[str, Any]]:
    """Hold the model against the broker, directory by directory; the broker's answers."""
    answers = broker_starts(command, work, [(directory, given) for directory, given, _ in made])
    differing = []
    for (directory, given, notes), answer in zip(made, answers, strict=True):
        wrong = differences(started(directory, given, release=MODELLED), answer)
        if wrong and not (_is_payload_error(answer) or _depends_on_order(directory, answer)):
            shutil.copytree(directory, KEPT / f"{seed}-{directory.parent.name}" / directory.name, dirs_exist_ok=True)
            differing.append(f"{directory.parent.name} {given} {notes}: {wrong[0][:300]}")
    assert not differing, "\n".join(differing)
    return answers


def _sources(target: Path) -> list[tuple[dict[str, Any], Path]]:
    root = unpack_cases("startup", target)
    return [(case, root / case["dir"]) for case in cases(root)]


def _is_payload_error(answer: dict[str, Any]) -> bool:
    return bool(answer["exception"]) and answer["exception"]["class"] in _PAYLOAD_ERRORS


def _depends_on_order(directory: Path, answer: dict[str, Any]) -> bool:
    """A start that fails over one of several leftovers: what the others have by then is up to the file system.

    A broker goes through the leftovers in the order of the directory, and stops at a name without a number.
    """
    leftovers = [path.name for path in directory.iterdir() if path.suffix in {".swap", ".cleaned", ".deleted"}]
    swaps = sum(name.endswith(".log.swap") for name in leftovers)
    has_odd_name = any(not name.partition(".")[0].isdigit() and not name.endswith(".deleted") for name in leftovers)
    return bool(answer["exception"]) and (swaps > 1 or (has_odd_name and len(leftovers) > 1))


def broker_starts(command: list[str], work: Path, requests: list[tuple[Path, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The real broker's answers, in order."""
    lines = []
    for directory, given in requests:
        offsets = (given["recovery_point"], given["log_start_offset"], given["segment_index_bytes"], NOW)
        lines.append("\t".join((str(directory), str(given["clean"]).lower(), *map(str, offsets))) + "\n")
    done = subprocess.run([*command, str(work)], input="".join(lines), capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(requests), done.stderr
    return answers


def params(directory: Path, random: Random) -> dict[str, Any]:
    """What the broker knows: mostly sensible."""
    bases = sorted(int(path.stem) for path in directory.glob("*.log") if path.stem.isdigit()) or [0]
    around = [0, *bases, *(base + random.randrange(60) for base in bases)]
    return {
        "clean": random.random() < 0.4,
        "recovery_point": random.choice((0, 0, 2**63 - 1, *around, *around)),
        "log_start_offset": random.choice((0, 0, 0, *around)),
        "segment_index_bytes": random.choice((16_384, 16_384, 16_384, 100, 31)),
    }


def vary(directory: Path, random: Random) -> str:
    """One change, and what it was."""
    return random.choice((_damage, _damage, _damage, _remove, _leave_behind, _exchange, _rewrite_text))(
        directory, random
    )


def _pick(directory: Path, random: Random, suffixes: tuple[str, ...] = SUFFIXES) -> Path | None:
    paths = sorted(path for path in directory.iterdir() if path.suffix in suffixes)
    return random.choice(paths) if paths else None


def _damage(directory: Path, random: Random) -> str:
    path = _pick(directory, random)
    if path is None:
        return ""
    what, data = mutate(path.read_bytes(), random, mutations_for(path.name))
    path.write_bytes(data)
    return f"{path.name}: {what}"


def _remove(directory: Path, random: Random) -> str:
    if random.random() < 0.3:
        suffix = random.choice(SUFFIXES[1:])
        for path in directory.glob(f"*{suffix}"):
            path.unlink()
        return f"no {suffix}"
    path = _pick(directory, random)
    if path is None:
        return ""
    path.unlink()
    return f"no {path.name}"


def _leave_behind(directory: Path, random: Random) -> str:
    """Files as a killed cleaner, split or deletion leaves them, whole or cut."""
    source = _pick(directory, random, (".log",))
    if source is None:
        return ""
    state = random.choice((".swap", ".swap", ".cleaned", ".deleted"))
    for suffix in random.sample(SUFFIXES, random.randint(1, len(SUFFIXES))):
        sibling = source.with_suffix(suffix)
        if sibling.exists():
            data = sibling.read_bytes()
            end = random.choice((len(data), len(data), random.randint(0, len(data))))
            sibling.with_name(sibling.name + state).write_bytes(data[:end])
    return f"{source.stem}*{state}"


def _exchange(directory: Path, random: Random) -> str:
    """A file under the name of another one of its kind, or under a new name."""
    path = _pick(directory, random)
    if path is None:
        return ""
    other = _pick(directory, random, (path.suffix,))
    number = int(other.stem) + random.choice((0, 0, 1, 5)) if other is not None and other.stem.isdigit() else 7
    target = path.with_name(f"{number:020}{path.suffix}")
    if target != path:
        shutil.copyfile(path, target)
    return f"{path.name} as {target.name}"


def _rewrite_text(directory: Path, random: Random) -> str:
    lines = [
        "0\n0\n", "0\n", "", "1\n0\n", "0\n1\n0 0\n", "0\n2\n0 0\n1 40\n", "0\n2\n5 90\n2 20\n", "0\n1\n0  0 \n",
        "0\r\n1\r\n0 0\r\n", "+0\n+1\n+1 +5", "0\n1\n1\t5\n", "0\n1\n 1 5\n", "0\n1\nx 5\n", "0\n1\n1 -5\n", "0\nx\n",
        "0\n1\n\n", "0\n1\n1 5\n\n", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version: 0\n",
        "version: 0\ntopic_id: x",
    ]  # fmt: skip
    name = random.choice(("leader-epoch-checkpoint", "partition.metadata", "leader-epoch-checkpoint.tmp"))
    text = random.choice(lines)
    (directory / name).write_bytes(text.encode())
    return f"{name}: {text!r}"
