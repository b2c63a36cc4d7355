"""The Java side of the oracle: one JVM for all tests, generated segments, and a seed that is new every day.

Environment: ``KAFKA_JARS`` (see toolchain), ``KDUMP_ORACLE_SEED`` (an integer; default: today's date),
``KDUMP_ORACLE_MUTANTS`` (mutants a test; default 400).
"""

from __future__ import annotations

import datetime
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.javadump import JavaDump
from tests.oracle.recoveries import Broker
from tests.oracle.sandbox import Sandbox
from tests.oracle.toolchain import DUMP_RELEASE, WRITER_RELEASE, ToolchainMissingError, java_command

_GENERATED_SEGMENTS = 160


@pytest.fixture(scope="session")
def java() -> Iterator[JavaDump]:
    """The running Java tool; tests that ask for it are skipped where it cannot run."""
    try:
        tool = JavaDump()
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    with tool:
        yield tool


@pytest.fixture
def sandbox(java: JavaDump, tmp_path: Path) -> Sandbox:
    """A fresh directory for both tools."""
    directory = tmp_path / "generated-0"
    directory.mkdir()
    return Sandbox(directory, java)


@pytest.fixture(scope="session")
def seed() -> int:
    """Printed with every failure: the same seed gives the same inputs."""
    value = int(os.environ.get("KDUMP_ORACLE_SEED", datetime.date.today().strftime("%Y%m%d")))
    print(f"KDUMP_ORACLE_SEED={value}")
    return value


@pytest.fixture(scope="session")
def mutants() -> int:
    """How many damaged inputs a test makes."""
    return int(os.environ.get("KDUMP_ORACLE_MUTANTS", "400"))


@pytest.fixture(scope="session")
def generated(seed: int, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Random segments written by Kafka's own client library."""
    directory = tmp_path_factory.mktemp("segments")
    try:
        command = java_command(WRITER_RELEASE, "org.apache.kafka.common.record.SegmentGenerator")
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    subprocess.run([*command, str(directory), str(seed), str(_GENERATED_SEGMENTS)], check=True)
    return sorted(directory.glob("*/*.log"))


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """Recovery by the real code; tests that ask for it are skipped where it cannot run."""
    try:
        return Broker(tmp_path, java_command(DUMP_RELEASE, "SegmentRecovery", options=("-Xmx1g",)))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
