"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import s3server
from tests.harness.captures import Captures, unpack


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """The captured partitions and their goldens, unpacked once a session."""
    return unpack(tmp_path_factory.mktemp("captures"))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3server.S3Server]:
    """A real S3 server on loopback; tests that need it are skipped where it is not installed."""
    try:
        with s3server.running(tmp_path_factory.mktemp("s3")) as server:
            yield server
    except s3server.ServerMissingError as missing:
        pytest.skip(str(missing))
