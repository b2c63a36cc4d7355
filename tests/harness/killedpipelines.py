"""Runs of the pipeline that are killed at random points: ``python -m tests.harness.killedpipelines FOLDER [KILLS]``.

Logs grow between runs. After the last run every offset is there once. A master of a cluster and the folder in which its
executors work may follow; then executors are killed too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.dataset as ds

from tests.harness import ROOT
from tests.harness.growing import append, batch

PARTITIONS = 4
RECORDS = 200
"""Of a batch."""
_PATIENCE = 300.0


class KilledPipeline:
    """Logs, a lake, and a run that is killed now and then.

    Args:
        folder: is filled.
        seed: of the random points.
        master: of Spark.
        work: where the executors of a cluster work; None: there are none.
    """

    def __init__(self, folder: Path, seed: int, master: str = "local[2]", work: Path | None = None) -> None:
        self.logs, self.lake = folder / "logs", folder / "lake"
        self._random = random.Random(seed)
        self._master = master
        self.work = work
        self.ends = [0] * PARTITIONS
        self._bases = [0] * PARTITIONS
        self.seconds = 12.0

    def grow(self, batches: int = 150) -> None:
        """Add to all partitions; some roll, and one begins later."""
        for number in range(PARTITIONS):
            if self._random.random() < 0.5:
                self._bases[number] = self.ends[number]
            data = []
            for _ in range(batches):
                data.append(batch(self.ends[number], RECORDS, size=50))
                self.ends[number] += RECORDS
            append(self.logs / f"t-{number}", self._bases[number], b"".join(data))

    def run(self, victim: str | None) -> str:
        """Run once, and kill ``driver``, ``all`` processes, or an ``executor``; gives how it ended."""
        command = [
            sys.executable,
            "-m",
            "kdump.spark.pipeline",
            str(self.logs),
            str(self.lake),
            "--master",
            self._master,
        ]
        command += ["--batch-bytes", "20m", "--conf", "spark.executor.memory=512m"]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, start_new_session=True, stdout=-1, stderr=-1
        ) as process:
            if victim is not None:
                self._kill(process, victim)
            _, err = process.communicate(timeout=_PATIENCE)
            with suppress(ProcessLookupError):
                # Java ends with its driver; a run must not begin before that.
                os.killpg(process.pid, signal.SIGKILL)
            assert process.returncode in (0, 3, -signal.SIGKILL), err.decode()
            assert victim is not None or process.returncode == 0, err.decode()
            state = self.lake / "_checkpoint" / "state.json"
            batch = json.loads(state.read_text())["batch"] if state.exists() else 0
            left = "on its way" if (self.lake / "_checkpoint" / "open").exists() else "not begun"
            return f"killed: {victim}; status {process.returncode}, {batch} batches, the next one is {left}"

    def _kill(self, process: subprocess.Popen[bytes], victim: str) -> None:
        begun = self.lake / "_checkpoint" / "open"
        before = begun.read_bytes() if begun.exists() else None
        end = time.monotonic() + _PATIENCE
        while process.poll() is None and time.monotonic() < end:
            with suppress(FileNotFoundError):
                if begun.read_bytes() != before:
                    break
            time.sleep(0.01)
        time.sleep(self._random.uniform(0, self.seconds))
        with suppress(ProcessLookupError):
            if victim == "driver":
                process.kill()
            elif victim == "all":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                found = list(self._executors())
                if found:
                    os.kill(self._random.choice(found), signal.SIGKILL)

    def _executors(self) -> Iterator[int]:
        """Java of the executors and their Python workers: what works in the folder of the cluster."""
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal():
                with suppress(OSError):
                    place = Path(os.readlink(directory / "cwd"))
                    if self.work is not None and self.work in place.parents and "app-" in str(place):
                        yield int(directory.name)

    def check(self) -> int:
        """Every offset is in the files once. Gives the number of records."""
        found = ds.dataset(self.lake / "records", partitioning="hive").to_table(columns=["partition", "offset"])
        for number, end in enumerate(self.ends):
            offsets = sorted(
                offset
                for partition, offset in zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)
                if partition == number
            )
            assert offsets == list(range(end)), (number, end, len(offsets), len(set(offsets)))
        return found.num_rows


def killed_runs(pipeline: KilledPipeline, kills: int) -> Iterator[str]:
    """So many runs that are killed, and one that is not."""
    victims = ["driver", "all", *(["executor"] if pipeline.work is not None else [])]
    for number in range(kills):
        pipeline.grow()
        yield pipeline.run(victims[number % len(victims)])
    yield pipeline.run(None)
    yield f"{pipeline.check():,} records, each once"


if __name__ == "__main__":
    FOLDER, KILLS, *REST = sys.argv[1:]
    MASTER, WORK = REST or ("local[2]", None)
    for line in killed_runs(KilledPipeline(Path(FOLDER), 1, MASTER, Path(WORK) if WORK else None), int(KILLS)):
        print(line, flush=True)
