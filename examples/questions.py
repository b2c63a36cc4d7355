"""What people ask of the files of a Kafka broker, answered with Spark, cell by cell.

Run the cells in a notebook or an editor that knows ``# %%``, or all of them:

    python examples/questions.py /backup/kafka [FIRST_OFFSET LAST_OFFSET]
"""

# %% A session with kdump's data sources, and what to look at
import sys

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

import kdump.spark

spark = kdump.spark.session()
path = sys.argv[1]
first_offset, last_offset = map(int, sys.argv[2:] or (0, 99))

records = spark.read.format("kafka-segment")
batches = spark.read.format("kafka-segment-batches")
findings = spark.read.format("kafka-segment-findings")

# %% Which keys are hot? The schema says what is decoded: values are not.
hot_keys = (
    records.schema("topic string, key binary, keySize int, valueSize int, isControl boolean")
    .load(path)
    .where("isControl is not true")
    .groupBy("topic", "key")
    .agg(
        F.count("*").alias("records"),
        F.sum(F.greatest("keySize", F.lit(0)) + F.greatest("valueSize", F.lit(0))).alias("bytes"),
    )
    .orderBy(F.desc("records"), F.desc("bytes"), "topic", "key")
)
hot_keys.select("topic", F.col("key").cast("string"), "records", "bytes").show(10)

# %% Who wrote these offsets? Producer ids and epochs are in the headers of batches; magic 0 and 1 have none.
writers = (
    batches.schema(
        "topic string, partition int, baseOffset bigint, lastOffset bigint, count int, producerId bigint, "
        "producerEpoch int, isControl boolean"
    )
    .load(path)
    .where((F.col("lastOffset") >= first_offset) & (F.col("baseOffset") <= last_offset))
    .where("isControl is not true")
    .groupBy("topic", "partition", "producerId", "producerEpoch")
    .agg(
        F.min("baseOffset").alias("firstOffset"),
        F.max("lastOffset").alias("lastOffset"),
        F.count("*").alias("batches"),
    )
    .orderBy("topic", "partition", "firstOffset")
)
writers.show(20)

# %% What is damaged where, and where does a consumer go on?
damage = (
    findings.load(path)
    .where("severity = 'error'")
    .select("file", "position", "code", "name", "firstOffset", "lastOffset", "continueAt", "message")
    .orderBy("file", "position", "code")
)
damage.show(20, truncate=False)

# %% How many bytes has a topic each day? By spark.sql.session.timeZone; batches without a time have no day.
day = F.when(F.col("maxTimestamp").between(0, 253402300799999), F.to_date(F.timestamp_millis("maxTimestamp")))
bytes_a_day = (
    batches.schema("topic string, maxTimestamp bigint, size int")
    .load(path)
    .groupBy("topic", day.alias("day"))
    .agg(F.sum("size").alias("bytes"))
    .orderBy("topic", "day")
)
bytes_a_day.show(20)

# %% Which transactions were aborted? The marker that ends a record's transaction is the next one of its producer.
coming = (
    Window.partitionBy("topic", "partition", "producerId").orderBy("offset").rowsBetween(0, Window.unboundedFollowing)
)
aborted = (
    records.schema(
        "topic string, partition int, offset bigint, producerId bigint, producerEpoch int, isTransactional boolean, "
        "isControl boolean, txnState string"
    )
    .load(path)
    .where("isTransactional")
    .withColumn("markerOffset", F.min(F.when(F.col("isControl"), F.col("offset"))).over(coming))
    .where("txnState = 'aborted'")
    .groupBy("topic", "partition", "producerId", "markerOffset")
    .agg(
        F.max("producerEpoch").alias("producerEpoch"),
        F.min("offset").alias("firstOffset"),
        F.max("offset").alias("lastOffset"),
        F.count("*").alias("records"),
    )
    .orderBy("topic", "partition", "firstOffset")
)
aborted.show(20)
