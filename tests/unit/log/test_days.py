"""log.days: of which days logs are."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from kdump.log.days import days_of_logs
from tests.harness.batches import message, plain_rows, v2_batch

DAY = 86_400_000
NOON = 20_000 * DAY + DAY // 2
"""On 2024-10-04."""


def batch(base: int, timestamp: int) -> bytes:
    return v2_batch(plain_rows(2), base_offset=base, base_timestamp=timestamp, max_timestamp=timestamp)


def write(folder: Path, **logs: bytes) -> list[str]:
    for name, data in logs.items():
        (folder / f"{name.strip('_')}.log").write_bytes(data)
    return [str(folder / f"{name.strip('_')}.log") for name in logs]


def test_one_day(tmp_path: Path) -> None:
    logs = write(tmp_path, _0=batch(0, NOON) + batch(2, NOON + 5), _4=batch(4, NOON + 1000))
    assert days_of_logs(logs) == (date(2024, 10, 4), date(2024, 10, 4))


def test_the_newest_entry_is_of_another_day(tmp_path: Path) -> None:
    logs = write(tmp_path, _0=batch(0, NOON), _2=batch(2, NOON) + batch(4, NOON + DAY) + b"garbage")
    assert days_of_logs(logs) == (date(2024, 10, 4), date(2024, 10, 5))
    assert days_of_logs(logs[:1]) == (date(2024, 10, 4), date(2024, 10, 4))


def test_damage_before_the_first_entry(tmp_path: Path) -> None:
    damaged = bytearray(batch(0, NOON - DAY))
    damaged[-1] ^= 1
    (log,) = write(tmp_path, _0=bytes(damaged) + batch(2, NOON))
    assert days_of_logs([log]) == (date(2024, 10, 4), date(2024, 10, 4))


def test_old_messages(tmp_path: Path) -> None:
    (log,) = write(tmp_path, _0=message(1, 0, b"k", b"v", timestamp=NOON))
    assert days_of_logs([log]) == (date(2024, 10, 4), date(2024, 10, 4))


@pytest.mark.parametrize("data", [b"", b"garbage" * 20, message(0, 0, b"k", b"v"), batch(0, -1), batch(0, 2**62)])
def test_nothing_tells(tmp_path: Path, data: bytes) -> None:
    assert days_of_logs(write(tmp_path, _0=data)) is None
    assert days_of_logs([str(tmp_path / "missing.log")]) is None
