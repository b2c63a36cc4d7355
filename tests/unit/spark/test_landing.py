"""What a task of the pipeline makes of damaged logs, without Spark: no offset twice, and no byte without an account."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow.dataset as ds

from kdump.spark.lake import Lake
from kdump.spark.landing import COUNTS, OPEN_BATCH, Landed, Landing, LandTask
from kdump.spark.landplan import plan_partition
from kdump.spark.partitions import list_partitions
from kdump.tasks.logs import Wanted
from tests.harness.batches import GZIP, NONE, message, v2_batch, wrapper
from tests.harness.fast_reference import Row

TOKEN = b"token"
BATCHES = 30
Damage = Callable[[random.Random, bytearray, list[int]], None]


def flip(rng: random.Random, data: bytearray, bounds: list[int]) -> None:
    """A bit of what a CRC covers."""
    number = rng.randrange(BATCHES)
    data[rng.randrange(bounds[number] + 21, bounds[number + 1])] ^= 1 << rng.randrange(8)


def header(rng: random.Random, data: bytearray, bounds: list[int]) -> None:
    """A bit of what no CRC covers: offset, length, leader epoch, magic."""
    data[rng.choice(bounds[:-1]) + rng.randrange(17)] ^= 1 << rng.randrange(8)


def zeros(rng: random.Random, data: bytearray, bounds: list[int]) -> None:
    at = rng.randrange(len(data))
    size = rng.randrange(1, 600)
    data[at : at + size] = bytes(len(data[at : at + size]))


def cut(rng: random.Random, data: bytearray, bounds: list[int]) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 600)]


def double(rng: random.Random, data: bytearray, bounds: list[int]) -> None:
    first, end = _two(rng, bounds)
    data[end:end] = data[first:end]


def swap(rng: random.Random, data: bytearray, bounds: list[int]) -> None:
    first, end = _two(rng, bounds)
    middle = rng.choice([bound for bound in bounds if first < bound <= end])
    data[first:end] = data[middle:end] + data[first:middle]


def insert(rng: random.Random, data: bytearray, bounds: list[int]) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.randrange(1, 600))


def _two(rng: random.Random, bounds: list[int]) -> tuple[int, int]:
    first, end = sorted(rng.sample(range(len(bounds)), 2))
    return bounds[first], bounds[end]


KINDS = (flip, header, zeros, cut, double, swap, insert)


def entries(kind: str) -> list[bytes]:
    """Entries of a log, by rising offset; values tell their offsets."""
    found, offset = [], 0
    for number in range(BATCHES):
        count = 1 + number % 4
        values = [b"value-%d" % each for each in range(offset, offset + count)]
        if kind == "batches":
            rows = [Row(each, each, b"key", value) for each, value in enumerate(values)]
            found.append(v2_batch(rows, base_offset=offset, codec=(NONE, GZIP)[number % 2]))
        else:
            inner = [message(1, each, b"k", value) for each, value in enumerate(values)]
            found.append(wrapper(1, offset + count - 1, inner))
        offset += count
    return found


def landed(folder: Path) -> tuple[Landed, list[dict[str, Any]], list[dict[str, Any]]]:
    """The account of the only partition of a folder, its records, and its quarantine."""
    (log,) = list_partitions([str(folder / "logs")], Wanted(), lambda error: None).values()
    (plan,) = plan_partition((log, None), only_committed=False)
    assert plan.error is None
    lake = folder / "lake"
    Lake(str(lake)).write(OPEN_BATCH, TOKEN)
    landing = Landing(str(lake), 1, TOKEN.decode(), "records", ())
    (done,) = landing(LandTask(1, tuple(plan.ranges)))
    assert isinstance(done, Landed)
    tables = (lake / name for name in ("records", "quarantine"))
    records, quarantine = (ds.dataset(table).to_table().to_pylist() if table.exists() else [] for table in tables)
    return done, records, quarantine


@pytest.mark.parametrize("kind", ["batches", "wrappers"])
@pytest.mark.parametrize("damage", KINDS, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("seed", range(6))
def test_damage(tmp_path: Path, kind: str, damage: Damage, seed: int) -> None:
    rng = random.Random(seed)
    whole = entries(kind)
    bounds = [0]
    for entry in whole:
        bounds.append(bounds[-1] + len(entry))
    data = bytearray(b"".join(whole))
    damage(rng, data, bounds)
    path = tmp_path / "logs" / "t-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    os.utime(path, (1e9, 1e9))
    done, records, quarantine = landed(tmp_path)

    assert sum(done.counts.values()) == done.end
    assert done.counts["landed"] == len(records) == len({row["offset"] for row in records})
    assert set(done.counts) == set(COUNTS)
    if damage is not header:
        assert all(row["value"] == b"value-%d" % row["offset"] for row in records)
    # Where a swapped message with others inside begins is not known without reading it, so some are left out.
    if damage is double or (damage is swap and kind == "batches"):
        assert len(records) == sum(1 + number % 4 for number in range(BATCHES))
        assert done.counts["quarantined"] == done.counts["missing"] == 0
    # What has not landed is in quarantine.
    covered = bytearray(len(data))
    for position in {row["position"] for row in records}:
        end = position + 12 + struct.unpack_from(">i", data, position + 8)[0]
        covered[position:end] = b"\1" * len(covered[position:end])
    for row in quarantine:
        end = row["position"] + row["length"]
        assert row["bytes"] in (None, bytes(data[row["position"] : end]))
        covered[row["position"] : end] = b"\1" * len(covered[row["position"] : end])
    is_blank = {at for at, byte in enumerate(covered) if not byte and not data[at]}
    assert [at for at, byte in enumerate(covered) if not byte and at not in is_blank] == []


def test_a_sound_log(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "t-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(entries("batches")))
    done, records, quarantine = landed(tmp_path)
    assert (done.counts["landed"], done.end, quarantine) == (len(records), len(records), [])
    assert [row["value"] for row in records] == [b"value-%d" % number for number in range(len(records))]
