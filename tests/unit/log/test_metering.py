"""One meter counts all that a command reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.log import metering
from kdump.log.metering import metered
from kdump.log.opening import open_source
from tests.harness.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(metering, "time", clock)
    return clock


def logs(tmp_path: Path, *sizes: int) -> list[str]:
    paths = [tmp_path / f"{number}.log" for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(bytes(size))
    return list(map(str, paths))


def test_the_rate_holds_for_all_files_together(tmp_path: Path, clock: Clock) -> None:
    with metered(rate=1_000_000):
        for path in logs(tmp_path, 3_000_000, 1, 2_000_000):
            with open_source(path) as source:
                assert len(source.read(0, 4_000_000)) == source.size
    assert clock.now - 100 == pytest.approx(5.000001)
    assert max(clock.pauses) <= 0.27, "many short pauses, no long one"


def test_without_a_rate_nothing_waits(tmp_path: Path, clock: Clock) -> None:
    (path,) = logs(tmp_path, 1_000_000)
    with metered(), open_source(path) as source:
        source.read(0, 1_000_000)
    with open_source(path) as source:
        source.read(0, 1_000_000)
    assert clock.pauses == []


def test_the_rate_ends_with_its_block(tmp_path: Path, clock: Clock) -> None:
    (path,) = logs(tmp_path, 1_000_000)
    with metered(rate=1), open_source(path):
        pass
    with open_source(path) as source:
        source.read(0, 1_000_000)
    assert clock.now == 100


def test_a_stream_is_counted_too(clock: Clock) -> None:
    reading, writing = os.pipe()
    os.write(writing, bytes(5000))
    os.close(writing)
    seen: list[tuple[str, int]] = []
    path = f"/proc/self/fd/{reading}"
    from kdump.log.named import note_named

    note_named(path)
    with metered(rate=1000, progress=lambda *step: seen.append(step)), open_source(path) as source:
        assert len(source.read(0, 8000)) == 5000
    os.close(reading)
    assert clock.now - 100 == pytest.approx(5)
    assert seen[-1] == (path, 5000)
