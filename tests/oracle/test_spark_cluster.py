"""The Spark side where it is meant to run: executors that are processes of their own, and may die.

``local-cluster``, a standalone master with two workers and a Spark Connect server, all of the installed PySpark on
loopback. What comes out equals what one process says.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import Finding
from kdump.inputs import resolve
from kdump.log.context import FileContext
from kdump.rows.filetables import FINDING
from kdump.spark.sessions import why_not
from kdump.verify.run import Verification
from tests.harness import ROOT
from tests.harness.arrowrows import dumped, mapped
from tests.harness.captures import Captures
from tests.harness.killedpipelines import KilledPipeline, killed_runs
from tests.oracle import sparkcluster
from tests.oracle.sparkjob import COMMANDS, FORMATS

pytestmark = pytest.mark.oracle

BUILD = ROOT / "build" / "oracle"
OLDEST = "4.1.0"
PARTITIONS = ("4.3.1", "2.8.2", "0.8.2.2", "damaged")
LARGEST = 200_000


@pytest.fixture(autouse=True, scope="module")
def _spark_is_there() -> None:
    missing = why_not()
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture(scope="module")
def tree(captures: Captures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of partitions of several brokers, sound and damaged."""
    root = tmp_path_factory.mktemp("logs")
    for number, name in enumerate(captures.partitions()):
        if name.startswith(PARTITIONS) and captures.size(name) < LARGEST:
            shutil.copytree(captures.root / name, root / f"topic-{number}", ignore=shutil.ignore_patterns("golden"))
    assert len(list(root.iterdir())) > 20
    return root


@pytest.fixture(scope="module")
def expected(tree: Path) -> dict[str, Any]:
    """What one process says."""
    answers: dict[str, Any] = {}
    for kind in ("records", "batches"):
        rows = list(map(mapped, dumped(kind, tree)))
        answers[kind] = sorted(rows, key=lambda row: (row["file"], row["position"]))
    answers["findings"] = [
        {"type": "finding", **FileContext.of(item.path or "").columns(), **FINDING.row(item)}
        for item in Verification().items(resolve(str(tree)))
        if isinstance(item, Finding)
    ]
    for name, words in COMMANDS.items():
        command = [sys.executable, "-m", "kdump", *words, "--engine", "local", str(tree)]
        run = subprocess.run(command, capture_output=True, check=False)
        answers[name] = run.stdout, str(run.returncode)
    assert all(answers.values())
    return answers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with sparkcluster.standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url


def said(master: str, tree: Path, out: Path, *victim: str, python: str = sys.executable) -> dict[str, Any]:
    """What a job in a process of its own says."""
    command = [python, "-m", "tests.oracle.sparkjob", master, str(tree), str(out), *victim]
    run = subprocess.run(command, cwd=ROOT, env=sparkcluster.environment(python), capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    answers: dict[str, Any] = {name: pickle.loads((out / f"{name}.pickle").read_bytes()) for name in FORMATS}
    for name in COMMANDS:
        answers[name] = (out / f"{name}.out").read_bytes(), (out / f"{name}.status").read_text()
    return answers


def check(answers: dict[str, Any], expected: dict[str, Any]) -> None:
    assert answers.keys() == expected.keys()
    for name, answer in answers.items():
        if name == "findings":
            assert sorted(map(repr, answer)) == sorted(map(repr, expected[name]))
        else:
            assert answer == expected[name], name


def test_local_cluster(tree: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    check(said("local-cluster[2,1,1024]", tree, tmp_path), expected)


@pytest.mark.parametrize("victim", ["executor", "worker"])
def test_standalone_with_a_process_that_is_killed(
    cluster: str, tree: Path, expected: dict[str, Any], tmp_path: Path, victim: str
) -> None:
    check(said(cluster, tree, tmp_path, victim), expected)


def test_the_pipeline_with_killed_executors_and_drivers(tmp_path: Path) -> None:
    work = tmp_path / "cluster"
    work.mkdir()
    with sparkcluster.standalone(work) as url:
        pipeline = KilledPipeline(tmp_path, 5, url, work)
        assert len(list(killed_runs(pipeline, 6))) == 8
    assert pipeline.check() == sum(pipeline.ends)


def test_spark_connect(tree: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    missing = why_not("sc://")
    if missing is not None:
        pytest.skip(missing)
    if not list((sparkcluster.spark_home() / "jars").glob("spark-connect_*.jar")):
        pytest.skip("the installed pyspark has no Spark Connect server")
    with sparkcluster.connect_server(tmp_path) as url:
        check(said(url, tree, tmp_path), expected)


JOB = """
import sys
import kdump.spark

spark = kdump.spark.session()
assert spark.sparkContext.master == sys.argv[1], spark.sparkContext.master
spark.read.format("kafka-segment").load(sys.argv[2]).write.parquet(sys.argv[3])
python = spark.range(1).mapInArrow(lambda batches: whose(batches), "executable string").first()[0]
assert "/work-" in python and python.endswith("/environment/bin/python"), python
"""
WHOSE = """
def whose(batches):
    import sys, pyarrow
    list(batches)
    yield pyarrow.RecordBatch.from_pydict({"executable": [sys.executable]})

"""


def test_a_packed_environment(cluster: str, tree: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    """The recipe of man kdump-spark, SHIPPING TO A CLUSTER."""
    own = sparkcluster.environment("./environment/bin/python")
    del own["SPARK_HOME"]

    def run(*command: str) -> bytes:
        done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, check=False)
        assert done.returncode in (0, 1), done.stderr.decode()
        return done.stdout

    run(sys.executable, "-m", "venv", "environment")
    own["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    installed = subprocess.run(
        ["environment/bin/pip", "install", "-q", f"{ROOT}[spark]", "venv-pack"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"no package index: {installed.stderr.decode().strip()[-300:]}")
    jars = ("--exclude", "*/pyspark/jars/*")
    run("environment/bin/venv-pack", "-p", "environment", "-o", "environment.tar.gz", *jars)
    (tmp_path / "job.py").write_text(WHOSE + JOB)
    archives = "environment.tar.gz#environment"
    submit = ("environment/bin/spark-submit", "--master", cluster, "--archives", archives, "job.py")
    run(*submit, cluster, str(tree), str(tmp_path / "rows"))
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "rows").num_rows == len(expected["records"])
    words = ("verify", "--master", cluster, "--conf", f"spark.archives={archives}", str(tree))
    assert run("environment/bin/kdump", *words) == expected["verify"][0]


def test_the_oldest_pyspark(tmp_path: Path) -> None:
    """tests/spark in an environment with it, which is kept in build/."""
    environment = BUILD / f"pyspark-{OLDEST}"
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    command = [str(python), "-m", "pip", "install", "-q", f"pyspark[sql]=={OLDEST}", "-e", f"{ROOT}[test]"]
    installed = subprocess.run(command, capture_output=True, check=False)
    if installed.returncode:
        pytest.skip(f"pyspark {OLDEST} cannot be installed: {installed.stderr.decode().strip()[-300:]}")
    own = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/spark"]
    run = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, check=False)
    assert run.returncode == 0, run.stdout.decode()[-5000:]
    assert b" passed" in run.stdout
