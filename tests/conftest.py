"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.harness import s3server
from tests.harness.captures import Captures, unpack
from tests.harness.replicas import Truth

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}
"""A loaded machine is no failure. Fixtures give folders that each example leaves as the next one needs them."""

# Without compiled modules each of the many processes that tests start compiles kdump anew, which doubles its CPU time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Nothing that comes of collecting tests is garbage: see ``pytest_collection_finish``.
gc.disable()

settings.register_profile("usual", derandomize=True, max_examples=50, **_COMMON)
settings.register_profile("quick", derandomize=True, max_examples=10, **_COMMON)
settings.register_profile("random", **_COMMON)


def pytest_configure(config: pytest.Config) -> None:
    """Leave out ``oracle`` and ``bench`` unless ``-m`` names them; try fewer examples where it leaves out slow tests.

    The examples are the same each time, so that a run says what a change did; ``--hypothesis-profile=random`` makes new
    ones.
    """
    if not config.getoption("hypothesis_profile"):
        settings.load_profile("quick" if "not slow" in config.option.markexpr else "usual")
    left_out = [f"not {name}" for name in ("oracle", "bench") if name not in config.option.markexpr]
    config.option.markexpr = " and ".join([f"({config.option.markexpr})"] * bool(config.option.markexpr) + left_out)


def pytest_collection_finish() -> None:
    """Python's garbage collector need not look at thousands of tests again and again, in forks neither.

    Nor need it look for garbage after each 700 objects: tests compare large lists of rows, which are none.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """The captured partitions and their goldens, unpacked once a session."""
    return unpack(tmp_path_factory.mktemp("captures"))


@pytest.fixture(scope="session")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """Copies of partitions, and what real Kafka does of them, unpacked once a session."""
    return Truth.unpacked(tmp_path_factory.mktemp("replicas"))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3server.S3Server]:
    """A real S3 server on loopback; tests that need it are skipped where it is not installed."""
    try:
        with s3server.running(tmp_path_factory.mktemp("s3")) as server:
            yield server
    except s3server.ServerMissingError as missing:
        pytest.skip(str(missing))


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--cpu-durations N``: on a shared machine ``--durations`` says how busy the others are."""
    parser.addoption("--cpu-durations", type=int, metavar="N", help="show the N tests that take the most CPU time")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_CPU_BEFORE] = _cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "teardown":
        report.user_properties.append(("cpu", _cpu_seconds() - item.stash[_CPU_BEFORE]))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    count = config.getoption("cpu_durations")
    if count is None:
        return
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    seconds = sorted(
        (
            (value, report.nodeid)
            for report in reports
            for name, value in getattr(report, "user_properties", ())
            if name == "cpu" and report.when == "teardown"
        ),
        reverse=True,
    )
    terminalreporter.section(f"{sum(value for value, _ in seconds):.0f} s of CPU time in {len(seconds)} tests")
    for value, name in seconds[:count]:
        terminalreporter.write_line(f"{value:8.2f} s  {name}")


def _cpu_seconds() -> float:
    """Of this process, and of its children that have ended."""
    return sum(os.times()[:4])


_CPU_BEFORE = pytest.StashKey[float]()
