"""The model of LogSegment.recover against the real one: captures, random producer logs, and damage of each."""

from __future__ import annotations

import shutil
import struct
import time
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

from kdump.kafka.failures import FailureKind
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import Recovery, RecoveryOutcome, recover
from kdump.kafka.segmentindexes import DEFAULT_INDEX_SIZE
from kdump.log.opening import open_source
from kdump.reading.view import DecodePath
from tests.harness import ROOT
from tests.harness.captures import Captures
from tests.harness.recoverypaths import recovering
from tests.oracle.crafted import crafted_segments
from tests.oracle.mutations import LOG_MUTATIONS, mutate
from tests.oracle.producerlogs import producer_log, producer_snapshot
from tests.oracle.recoveries import Answer, Broker, Case

pytestmark = pytest.mark.oracle

FIXED_SEED = 12345
BASE_SIZE_LIMIT = 200_000
_PAYLOAD_ERRORS = ("org.xerial.snappy.SnappyError", "java.nio.BufferUnderflowException")
"""What a broken snappy or lz4 container of a compressed marker throws in places; the model has one answer for all."""
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
KEPT = ROOT / "build" / "oracle" / "recoveries"
"""Where the cases on which model and broker differ are kept."""


@pytest.fixture(params=["fixed", "new"])
def recovery_seed(request: pytest.FixtureRequest, seed: int) -> int:
    return FIXED_SEED if request.param == "fixed" else seed


def model(case: Case, directory: Path, path: DecodePath) -> Answer:
    """What kdump makes of a case."""
    log = directory / "model.log"
    log.write_bytes(case.log)
    producers = case.producers()
    with open_source(str(log)) as source, recovering(path):
        recovery = recover(
            source,
            case.base_offset,
            producers,
            index_interval_bytes=case.interval,
            index_size=case.index_size,
        )
    if recovery.outcome is RecoveryOutcome.FAILED:
        assert recovery.failure is not None
        return Answer(recovery.failure.kind.java_class, 0, None, None, None, None)
    return _files(case, recovery, producers)


def _files(case: Case, recovery: Recovery, producers: ProducerStates) -> Answer:
    indexes = recovery.indexes
    assert indexes is not None
    # A broker has a snapshot at the base offset and takes none where it saw no v2 batch since.
    is_newer = producers.end_offset > case.base_offset
    snapshot = producers.snapshot() if is_newer else None
    return Answer(None, recovery.bytes_cut, indexes.index, indexes.time_index, indexes.txn_index, snapshot)


def compare(broker: Broker, cases: list[Case]) -> None:
    """Run the cases both ways; AssertionError naming those that differ."""
    differing = []
    answers = broker.recover(cases)
    for case, expected in zip(cases, answers, strict=True):
        if expected.failure == _OUT_OF_MEMORY:
            # A matter of the heap: a compressed marker whose length field lies.
            continue
        for path in (DecodePath.SCALAR, DecodePath.COLUMNAR):
            got = model(case, broker.directory, path)
            if got != expected and not _is_payload_error(expected, got):
                differing.append(f"{case.name} {path.name}: {_difference(expected, got)}")
                shutil.copytree(broker.directory / "in" / case.name, KEPT / case.name, dirs_exist_ok=True)
    failed = sum(answer.failure is not None for answer in answers)
    cut = sum(answer.bytes_cut > 0 for answer in answers)
    print(f"{len(cases)} recoveries, {cut} of them cut, {failed} failed: {len(differing)} answers differ")
    assert not differing, "\n".join([f"cases in {KEPT}:", *differing])


def _is_payload_error(expected: Answer, got: Answer) -> bool:
    return got.failure == FailureKind.MARKER_PAYLOAD.java_class and expected.failure in _PAYLOAD_ERRORS


def _difference(expected: Answer, got: Answer) -> str:
    names = [name for name in Answer.__slots__ if getattr(expected, name) != getattr(got, name)]
    return f"{', '.join(names)}: broker {expected.failure} {expected.bytes_cut}, model {got.failure} {got.bytes_cut}"


def snapshot_file(entries: list[bytes]) -> bytes:
    covered = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", 1, crc32c(covered)) + covered


def test_sound_logs(broker: Broker, captures: Captures, generated: list[Path]) -> None:
    paths = [*generated, *captures.files(".log", 5_000_000)]
    cases = [Case(f"sound-{number}", int(path.stem), path.read_bytes()) for number, path in enumerate(paths)]
    compare(broker, cases)


def test_crafted(broker: Broker) -> None:
    compare(broker, [Case(f"crafted-{name.replace(' ', '-')}", 0, data) for name, data in crafted_segments()])


def test_producer_logs(broker: Broker, recovery_seed: int, mutants: int) -> None:
    random = Random(recovery_seed)
    now = int(time.time() * 1000)
    cases = []
    for number in range(mutants):
        base_offset = random.choice((0, 7, 5_000_000_000))
        with_snapshot = base_offset and random.random() < 0.5
        cases.append(
            Case(
                f"producers-{recovery_seed}-{number}",
                base_offset,
                producer_log(
                    random, base_offset, random.randrange(150), now=now, flaws=random.choice((0, 0, 0.02, 0.2))
                ),
                snapshot_file(producer_snapshot(random, now=now)) if with_snapshot else None,
                random.choice((0, 100, 4096, 4096)),
                random.choice((240, 1024, DEFAULT_INDEX_SIZE, DEFAULT_INDEX_SIZE)),
            )
        )
    compare(broker, cases)


def test_damaged_logs(
    broker: Broker, captures: Captures, generated: list[Path], recovery_seed: int, mutants: int
) -> None:
    random = Random(recovery_seed + 1)
    bases = [*generated, *captures.files(".log", BASE_SIZE_LIMIT)]
    cases = []
    for number in range(mutants):
        base = random.choice(bases)
        how, data = mutate(base.read_bytes(), random, LOG_MUTATIONS)
        cases.append(Case(f"damaged-{recovery_seed}-{number}-{how}", int(base.stem), data))
    compare(broker, cases)
