"""One Spark session for all tests here; without pyspark or Java they are skipped, with the reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kdump.spark.sessions import session, why_not

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = os.environ.get("KDUMP_TEST_MASTER", "local[2]")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A warm session with kdump's sources."""
    missing = why_not(MASTER)
    if missing is not None:
        pytest.skip(missing)
    spark = session(MASTER, {"spark.sql.shuffle.partitions": "4"})
    yield spark
    spark.stop()
