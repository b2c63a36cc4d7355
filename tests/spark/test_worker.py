"""The Python processes of Spark: what a task does to them, and what a user sees of them."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kdump.spark.tasks import collected, tasks_of
from kdump.spark.worker import begin_task
from tests.harness.batches import v2_batch
from tests.harness.fast_reference import Row as Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_FROZEN = pa.schema([("frozen", pa.int64())])
_TAKE = """
import sys
from kdump.spark import session
rows = session("local[1]").read.format("kafka-segment").load(sys.argv[1]).limit(3)
print([row.offset for row in rows.select("offset", "value").collect()])
"""


def test_modules_of_a_worker_are_left_to_garbage_collection_only_here(spark: SparkSession) -> None:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in tasks_of(batches):
            yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

    frozen = collected(spark, range(4), count, _FROZEN)["frozen"].to_pylist()
    assert min(frozen) > 10_000, "pandas and pyarrow alone have more objects"
    before = gc.get_freeze_count()
    begin_task()
    assert gc.get_freeze_count() == before


def test_rows_that_nobody_wants_any_more_are_no_error(spark: SparkSession, tmp_path: Path) -> None:
    """Spark hangs up on a task that still has much to send; a session of its own, whose standard error can be read."""
    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(b"".join(v2_batch([Record(0, 0, None, bytes(1 << 20))], base_offset=n) for n in range(64)))
    done = subprocess.run([sys.executable, "-c", _TAKE, str(log)], capture_output=True, text=True, check=True)
    assert done.stdout == "[0, 1, 2]\n"
    assert "Traceback" not in done.stderr
