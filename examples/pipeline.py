"""Log directories become tables, checked and without doubles, run after run: copy this page and change it.

python examples/pipeline.py /backup/kafka /lake/kafka
spark-submit --master spark://master:7077 examples/pipeline.py s3://backups/kafka s3://lake/kafka
"""

import sys

import kdump.spark
from kdump.spark.pipeline import PipelineOptions, run

source, target = sys.argv[1:3]

# The master of spark-submit, or local[*]. A session of your own will do: SparkSession.builder...getOrCreate().
spark = kdump.spark.session()

# Each offset lands once. What is damaged goes to TARGET/quarantine with its bytes, and the rest lands all the same;
# fail_on="error" lands nothing of a partition with damage instead.
done = run(
    spark,
    source,
    target,
    options=PipelineOptions(partition_by=("topic", "date"), isolation="read_committed", fail_on="never"),
)

for row in done.rows:
    print(f"batch {row['batch']}: {row['landed']} records landed, {row['quarantined']} offsets in quarantine")
    for each in row["partitions"]:
        # Every offset is accounted for: from..to = landed + control + aborted + missing + quarantined.
        for note in each["notes"]:
            print(f"{each['directory']}: {note}")

# %% What a team asks next: is anything lost? Any engine that reads Parquet can ask it.
runs = spark.read.parquet(f"{target}/runs")
lost = (
    runs.selectExpr("batch", "explode(partitions) AS each")
    .selectExpr("batch", "each.topic", "each.partition", "each.missing", "each.quarantined", "each.again")
    .where("quarantined > 0 OR missing > 0 OR again > 0")
    .orderBy("batch", "topic", "partition")
)
lost.show(20)

sys.exit(done.status)
