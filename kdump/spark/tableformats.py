"""Rows of a batch on their way from staged Parquet files to a table of Delta or Iceberg, once.

Source: Delta's "Idempotent table writes in foreachBatch" (txnAppId, txnVersion); Iceberg's snapshot properties
(``snapshot-property.``) and its metadata table ``snapshots``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG: Final = "kdump"
"""Of Iceberg: its warehouse is TARGET, its table is ``records``."""
_BATCH: Final = "kdump-batch"


def append_batch(
    spark: SparkSession, target: str, names: Sequence[str], *, form: str, by: Sequence[str], writer: str, batch: int
) -> None:
    """Append the staged files ``names`` of a batch to ``TARGET/records``, unless it has them. Raises what Spark does.

    Args:
        spark: a session that has the package of the format.
        target: as Spark's own file systems call it.
        names: of files in the target.
        form: delta or iceberg.
        by: columns that the table is partitioned by.
        writer: names this pipeline in the table.
        batch: its number.
    """
    if not names:
        return
    from pyspark.sql.functions import col

    rows = spark.read.parquet(*(f"{target}/{name}" for name in names))
    if form == "delta":
        once = {"txnAppId": writer, "txnVersion": str(batch)}
        rows.write.format("delta").mode("append").partitionBy(*by).options(**once).save(f"{target}/records")
        return
    catalog = f"spark.sql.catalog.{CATALOG}"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.warehouse", target)
    table = f"{CATALOG}.records"
    mark = f"{writer}-{batch}"
    to = rows.sortWithinPartitions(*by).writeTo(table).option(f"snapshot-property.{_BATCH}", mark)
    if not spark.catalog.tableExists(table):
        to = to.using("iceberg")
        (to.partitionedBy(*map(col, by)) if by else to).create()
    elif not spark.table(f"{table}.snapshots").where(f"summary['{_BATCH}'] = '{mark}'").count():
        to.append()
