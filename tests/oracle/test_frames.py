"""The bodies of the fixtures are what Kafka 4.3.1 writes, one of every API version that it has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kdump.format.frame import KINDS, versions_of
from tests.harness.archives import case_files
from tests.oracle.toolchain import DUMP_RELEASE, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle


def test_bodies_of_every_version(tmp_path: Path) -> None:
    try:
        command = java_command(DUMP_RELEASE, "FrameBodies")
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    subprocess.run([*command, str(tmp_path)], check=True)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(written) == {f"{kind}-{version}.bin" for kind in KINDS for version in versions_of(kind)}
    kept = case_files("kafka07")
    assert written == {name: kept[f"kafka07/frames/{name}"] for name in written}
