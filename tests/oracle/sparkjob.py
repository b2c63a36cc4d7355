"""What is run on a cluster, in a process of its own: ``python -m tests.oracle.sparkjob MASTER PATH OUT [VICTIM]``.

Everything that kdump does on Spark is done over PATH, and written to the directory OUT. With a VICTIM (``executor``,
``worker``) one such process is killed in the middle of each job.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.cli.main import cli
from kdump.spark import session
from tests.harness.arrowrows import collected
from tests.oracle.sparkcluster import executors, python_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMANDS = {
    "verify": ["verify"],
    "stats": ["stats", "--output", "jsonl"],
    "jsonl": ["dump", "--output", "jsonl", "--records", "--resync"],
}
FORMATS = {"records": "kafka-segment", "batches": "kafka-segment-batches", "findings": "kafka-segment-findings"}
VICTIMS: dict[str, Callable[[str], list[int]]] = {"executor": executors, "worker": python_workers}
SPLIT = "16k"


def main(master: str, path: str, out: Path, victim: str | None = None) -> None:
    spark = session(master, {"spark.sql.shuffle.partitions": "4", "spark.executor.memory": "512m"})
    # The one that there is, on a server too.
    assert session().conf.get("spark.sql.shuffle.partitions") == "4"
    for name, source in FORMATS.items():
        with _killing(spark, victim):
            rows = collected(spark.read.format(source).option("splitBytes", SPLIT).load(path))
        (out / f"{name}.pickle").write_bytes(pickle.dumps(rows))
    for name, words in COMMANDS.items():
        with _killing(spark, victim), _stdout_in(out / f"{name}.out"):
            status = cli.main([*words, "--engine", "spark", "--master", master, path], standalone_mode=False)
        (out / f"{name}.status").write_text(str(status))
    spark.stop()


@contextlib.contextmanager
def _killing(spark: SparkSession, victim: str | None) -> Iterator[None]:
    """Kills one process of a kind once tasks run, and holds that the job was not done by then and felt it."""
    if victim is None:
        yield
        return
    tracker, application = spark.sparkContext.statusTracker(), str(spark.sparkContext.applicationId)
    killed: list[int] = []
    done = threading.Event()

    def running() -> bool:
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return any(stage is not None and stage.numActiveTasks for stage in stages)

    def kill() -> None:
        while not done.is_set() and not killed:
            found = VICTIMS[victim](application) if running() else []
            if found and running():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found[0], signal.SIGKILL)
                    killed.append(found[0])
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        done.set()
        killer.join()
    assert killed, "no process was there to be killed while tasks ran"


@contextlib.contextmanager
def _stdout_in(path: Path) -> Iterator[None]:
    """kdump writes to the descriptor."""
    sys.stdout.flush()
    kept = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
