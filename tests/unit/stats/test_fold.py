"""Parts of logs come together to the same figures, however they are cut and in whatever order they are merged."""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.inputs import inputs_of
from kdump.log.opening import open_source
from kdump.stats import tally
from kdump.stats.fold import StatsFold
from kdump.stats.groupfigures import report
from kdump.stats.grouping import By
from kdump.stats.order import LogPlace
from kdump.stats.partfold import LogPart, PartFold
from kdump.stats.report import stats_row
from kdump.stats.run import StatsOptions, StatsReading, fold_log
from kdump.tasks.logs import log_files
from tests.harness.batches import CODECS, CONTROL, NONE, NOW, TRANSACTIONAL, message, v2_batch, wrapper
from tests.harness.captures import FIXTURES
from tests.harness.examples import examples
from tests.harness.fast_reference import Row
from tests.harness.folds import repacked

EVERY_BY = st.sampled_from(list(By))


def random_entries(random: Random, count: int) -> list[bytes]:
    """Entries of a log as brokers and their cleaner leave them, some of them with a wrong CRC."""
    offset, found = random.randrange(5), []
    for _ in range(count):
        offset += random.choice((0, 0, 0, 3))
        timestamp = NOW + random.randrange(-(10**7), 10**7)
        producer = random.choice((-1, 7, 8, 9))
        kind = random.randrange(8)
        header: dict[str, int] = {"base_offset": offset, "base_timestamp": timestamp, "producer_id": producer}
        if kind == 0:
            found.append(message(random.randrange(2), offset, b"k%d" % offset, None, timestamp=timestamp))
            offset += 1
            continue
        if kind == 1:
            inner = [message(1, number, None, b"v" * number, timestamp=timestamp) for number in range(3)]
            found.append(wrapper(1, offset + 2, inner, timestamp=timestamp))
            offset += 3
            continue
        if producer >= 0:
            header |= {"producer_epoch": random.randrange(2), "attributes": TRANSACTIONAL}
        if kind == 2 and producer >= 0:
            marker = Row(0, 0, struct.pack(">hh", 0, random.randrange(2)), struct.pack(">hi", 0, 0))
            found.append(v2_batch([marker], **header | {"attributes": TRANSACTIONAL | CONTROL}))
            offset += 1
            continue
        if producer >= 0:
            header["base_sequence"] = random.randrange(1000)
        deltas = sorted(random.sample(range(6), random.randrange(1, 6)))
        rows = [
            Row(
                random.randrange(-5000, 5000),
                delta,
                random.choice((None, b"", b"key-%d" % random.randrange(9))),
                random.choice((None, b"x" * random.randrange(600))),
                [(b"h", b"1")] if random.random() < 0.3 else [],
            )
            for delta in deltas
        ]
        codec = random.choice((NONE, NONE, *CODECS))
        crc = {"crc": 1} if random.random() < 0.1 else {}
        if random.random() < 0.1:
            # No CRC guards it.
            header["base_offset"] = random.choice((2**40, 0))
        found.append(v2_batch(rows, codec=codec, **header, last_offset_delta=5, **crc))
        offset += 6
    return found


def folded(path: Path, by: By, *, with_records: bool) -> StatsFold:
    fold = StatsFold(by, with_records=with_records)
    place = LogPlace(str(path.parent), int(path.stem), str(path))
    with open_source(str(path)) as source:
        part = PartFold(fold, LogPart(str(path), "t", 0, place))
        for _ in StatsReading(source, None, part, StatsOptions(by, with_records=with_records)).items():
            pass
    # As it comes from a worker.
    made: StatsFold = pickle.loads(pickle.dumps(fold))
    return made


def merged(folds: list[StatsFold], random: Random) -> StatsFold:
    """Two of them at a time, until one is left."""
    folds = list(folds)
    while len(folds) > 1:
        into = folds.pop(random.randrange(len(folds)))
        into.merge(folds.pop(random.randrange(len(folds))))
        folds.append(into)
    return folds[0]


def rows(fold: StatsFold) -> dict[str, Any]:
    fold.settle()
    made = report(fold, {}, Counter())
    found = {str(figures.group): stats_row(figures, fold.by) for figures in made.groups}
    found["all of them"] = stats_row(made.total, fold.by)
    found["timelines"] = {figures.group: (figures.step, figures.timeline) for figures in (*made.groups, made.total)}
    found["batch sizes"] = made.batch_sizes
    return found


@given(seed=st.integers(0, 2**32), by=EVERY_BY, with_records=st.booleans(), few=st.sampled_from([1, 1 << 15]))
@examples(60)
def test_any_order(tmp_path_factory: pytest.TempPathFactory, seed: int, by: By, with_records: bool, few: int) -> None:
    """``few``: more rows are sorted in at once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tally, "_FEW_ROWS", few)
        _check_any_order(tmp_path_factory.mktemp("t-0"), Random(seed), by, with_records=with_records)


def _check_any_order(folder: Path, random: Random, by: By, *, with_records: bool) -> None:
    whole, others = [], []
    base_offset = 0
    for _ in range(random.randrange(1, 4)):
        entries = random_entries(random, random.randrange(1, 12))
        path = folder / f"{base_offset:020d}.log"
        path.write_bytes(b"".join(entries))
        base_offset += 1000
        whole.append(folded(path, by, with_records=with_records))
        others.append(repacked(folded(path, by, with_records=with_records)))
    at_once = whole[0]
    for fold in whole[1:]:
        at_once.merge(fold)
    assert rows(merged(others, random)) == rows(at_once)


def test_groups_become_one() -> None:
    """The total is the fold of one group for all."""
    (log, *_) = log_files(
        inputs_of([str(FIXTURES / "segments" / "v2-txn-0")], lambda error: None, with_patterns=True), lambda error: None
    )
    by_codec, by_partition = (repacked(fold_log(log, StatsOptions(by))) for by in (By.CODEC, By.PARTITION))
    by_partition.settle()
    (only,) = report(by_partition, {}, Counter()).groups
    by_codec.settle()
    total = report(by_codec, {}, Counter()).total
    expected = stats_row(only, By.CODEC)
    # Indexes are of files.
    for name in ("group", "indexEntries", "timeIndexEntries", "bytesPerIndexEntry", "errors", "warnings"):
        del expected[name]
    assert {name: stats_row(total, By.CODEC)[name] for name in expected} == expected
