"""Salvaged logs before the real code: recovery cuts nothing, and the strictest reader finds nothing."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from kdump.log.content import ContentSource
from kdump.log.opening import open_source
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.repair.salvage.salvage import SalvageOptions, salvage
from kdump.repair.salvage.siblingcontext import sibling_context
from tests.harness.batches import entries
from tests.harness.captures import FIXTURES, Captures
from tests.oracle.javadump import JavaDump
from tests.oracle.mutations import LOG_MUTATIONS, mutate
from tests.oracle.producerlogs import producer_log
from tests.oracle.recoveries import Broker, Case
from tests.oracle.toolchain import DUMP_RELEASE, OLDER_RELEASES, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

BASE_SIZE_LIMIT = 200_000


def salvaged(path: Path, options: SalvageOptions) -> tuple[int, bytes]:
    """(base offset, bytes) of what becomes of a log."""
    with open_source(str(path)) as source:
        log = salvage(source, sibling_context(str(path)), options)
    with ContentSource(str(path), log.content) as mended:
        return log.base_offset, mended.read(0, log.size)


def strictly_read(paths: list[Path]) -> list[str]:
    """What the reader says of each log."""
    try:
        command = java_command(DUMP_RELEASE, "StrictReader", options=("-Xmx1g",))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    done = subprocess.run(command, input="\n".join(map(str, paths)), capture_output=True, text=True, check=True)
    return [line.split("\t")[1] for line in done.stdout.splitlines()]


def judge(broker: Broker, damaged: list[Path]) -> None:
    """Salvage each log in all ways and show what comes of it to the real code."""
    random = Random(5)
    cases, paths = [], []
    for number, path in enumerate(damaged):
        options = SalvageOptions(correct=random.random() < 0.5, transactions=random.choice(list(TxnPolicy)))
        base_offset, data = salvaged(path, options)
        if data:
            cases.append(Case(f"salvaged-{number}", base_offset, data))
            paths.append(broker.directory / "in" / cases[-1].name / f"{base_offset:020d}.log")
    answers = broker.recover(cases)
    wrong = [
        f"{case.name}: {answer.failure or answer.bytes_cut}"
        for case, answer in zip(cases, answers, strict=True)
        if answer.failure or answer.bytes_cut
    ]
    said = strictly_read(paths)
    assert len(said) == len(paths)
    wrong += [f"{path}: {one}" for path, one in zip(paths, said, strict=True) if one != "-"]
    print(f"{len(damaged)} damaged logs, something left of {len(cases)}, {len(wrong)} of them wrong")
    assert not wrong, "\n".join(wrong)


def test_cases(broker: Broker, tmp_path: Path) -> None:
    subprocess.run(
        ["tar", "-x", "--use-compress-program", "zstd --long=27", "-f", FIXTURES / "cases" / "repair.tar.zst"],
        cwd=tmp_path,
        check=True,
    )
    results = (tmp_path / "repair" / "results.jsonl").read_text().splitlines()
    assert len(results) > 200
    judge(broker, sorted(tmp_path.glob("repair/mutants/*/*.log")))
    assert {json.loads(line)["outcome"] for line in results} == {"unchanged", "truncated", "exception"}


def test_damaged_captures(broker: Broker, captures: Captures, generated: list[Path], seed: int, mutants: int) -> None:
    random = Random(seed)
    bases = [path for path in (*generated, *captures.files(".log", BASE_SIZE_LIMIT)) if path.stat().st_size]
    damaged = []
    for number in range(mutants):
        base = random.choice(bases)
        _, data = mutate(base.read_bytes(), random, LOG_MUTATIONS)
        path = broker.directory / "damaged" / str(number) / base.name
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        damaged.append(path)
    judge(broker, damaged)


def test_damaged_producer_logs(broker: Broker, seed: int, mutants: int) -> None:
    random = Random(seed + 1)
    damaged = []
    for number in range(mutants):
        data = producer_log(random, 0, random.randrange(1, 120), now=1_700_000_000_000, flaws=random.choice((0, 0.1)))
        path = broker.directory / "damaged" / str(number) / f"{0:020d}.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(mutate(data, random, LOG_MUTATIONS)[1])
        damaged.append(path)
    judge(broker, damaged)


@pytest.mark.parametrize("name", ["v0-snappy-0", "v1-gzip-0"])
def test_old_tools_read_salvaged_logs_of_old_formats(tmp_path: Path, name: str) -> None:
    """Nothing of a newer format covers what is lost in the log and at its end."""
    (path,) = (FIXTURES / "segments" / name).glob("*.log")
    data = bytearray(path.read_bytes())
    messages = entries(bytes(data))
    assert len(messages) > 3
    for position in (len(messages[0]), len(data) - len(messages[-1])):
        data[position + 20] ^= 0x42
    damaged = tmp_path / "damaged-0" / path.name
    damaged.parent.mkdir()
    damaged.write_bytes(data)
    _, result = salvaged(damaged, SalvageOptions())
    copy = tmp_path / "salvaged-0" / path.name
    copy.parent.mkdir()
    copy.write_bytes(result)
    try:
        tool = JavaDump(OLDER_RELEASES["0.10.2"])
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    with tool:
        sound, read = (tool.call(["--deep-iteration", "--files", str(one)]) for one in (path, copy))
    assert (read.status, read.failure) == (0, None)
    known, left = (re.findall(rb"^offset: (\d+) ", outcome.stdout, re.MULTILINE) for outcome in (sound, read))
    assert 0 < len(left) < len(known)
    assert [offset for offset in known if offset in left] == left
