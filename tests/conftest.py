"""Fixtures for all tests."""

from __future__ import annotations

import pytest

from tests.harness.captures import Captures, unpack


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """The captured partitions and their goldens, unpacked once a session."""
    return unpack(tmp_path_factory.mktemp("captures"))
