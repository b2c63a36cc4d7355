"""What a notebook asks of the files of a Kafka broker, cell by cell, with DuckDB, polars and pandas.

Run the cells in a notebook or an editor that knows ``# %%``, or all of them:

    python examples/notebook.py /backup/kafka/orders-0 /backup/kafka/__consumer_offsets-0
"""

# %% What to look at
import sys
from datetime import UTC, datetime, timedelta

import kdump

partition, offsets_partition = sys.argv[1:]

# %% The ten keys with the most bytes, with DuckDB, which takes the scan itself
import duckdb  # noqa: E402

records = kdump.scan(partition, columns=["key", "keySize", "valueSize", "isControl"], on_damage="skip")
top_keys = duckdb.sql("""
    select decode(key) as key, count(*) as records, sum(keySize + valueSize) as bytes
    from records
    where key is not null and isControl is not true
    group by all
    order by bytes desc, key
    limit 10
""")
print(top_keys)

# %% The last hour of the log, with polars
import polars as pl  # noqa: E402

newest = max(batch.max_timestamp or 0 for batch in kdump.scan(partition, on_damage="skip").batches())
end = datetime.fromtimestamp(newest // 1000 + 1, UTC)
hour = kdump.scan(partition, time=(end - timedelta(hours=1), end), on_damage="skip").to_polars()
print(
    hour.with_columns(pl.col("timestamp").dt.truncate("1m").alias("minute"))
    .group_by("minute")
    .agg(pl.len().alias("records"), pl.col("valueSize").mean().alias("mean value"))
    .sort("minute")
)

# %% Damage, with pandas: what is lost at most, by code
damage = kdump.findings(partition).to_arrow().to_pandas()
damage["lost"] = damage["lastOffset"] - damage["firstOffset"] + 1
print(damage.groupby(["severity", "code", "name"])["lost"].agg(["size", "sum"]))

# %% What a group had committed at noon
noon = end.replace(hour=12, minute=0, second=0, microsecond=0)
for committed in kdump.group_offsets(offsets_partition, at=noon):
    print(committed.group, committed.topic, committed.partition, committed.offset)
