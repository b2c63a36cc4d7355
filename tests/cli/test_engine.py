"""``--engine``, ``--jobs``, ``--master`` and ``--conf``: what runs where, and what is said. No Spark starts here."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kdump.cli import engine
from kdump.cli.options.shared import EngineArguments, JobsArguments
from kdump.cli.params import MASTER
from kdump.codes import Codes, KdumpError
from kdump.inputs import resolve
from kdump.spark import sessions
from kdump.system import processes
from tests.harness.cli_runs import BATCH, CLEAN, KDUMP, NAME, UNREADABLE, USAGE, kdump, locked

A_SESSION = "a session"
LEAST, MUCH = 1000, 2000
"""Bytes from which on there is work for a pool, and for Spark, in these tests."""
CORES = 5


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LEAST_FOR_POOL", LEAST)
    monkeypatch.setattr(engine, "LEAST_FOR_SPARK", MUCH)
    monkeypatch.setattr(engine, "_shown", lambda size: f"{size} bytes")
    monkeypatch.setattr(processes, "usable_cores", lambda: CORES)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory of many segments, with as many bytes as Spark is taken for."""
    partition = tmp_path / "logs" / "t-0"
    partition.mkdir(parents=True)
    for number in range(100):
        (partition / f"{number:020}.log").write_bytes(bytes(MUCH // 100))
    return partition.parent


@pytest.fixture
def held(logs: Path) -> Iterator[Path]:
    """The directory while a process holds its lock."""
    (logs / ".lock").touch()
    with locked(logs / ".lock"):
        yield logs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(BATCH)
    return tmp_path / NAME


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, Mapping[str, str]]]:
    """The sessions that would have been started: master and settings."""
    found: list[tuple[str | None, Mapping[str, str]]] = []

    def session(master: str | None, conf: Mapping[str, str]) -> str:
        found.append((master, conf))
        return A_SESSION

    monkeypatch.setattr(sessions, "session", session)
    monkeypatch.setattr(sessions, "why_not", lambda master=None: None)
    return found


def chosen(
    *paths: Path,
    only_here: str | None = None,
    verbose: bool = True,
    kind: type[EngineArguments] = JobsArguments,
    **given: Any,
) -> tuple[Any, list[str]]:
    """The session or the number of processes, and what was said."""
    console = Mock()
    arguments = {"engine": "auto", "jobs": None, "master": None, "conf": (), "rate": None, "idle": False, **given}
    options = kind({"verbose": verbose, **arguments})
    found = engine.choose_engine(options, [resolve(str(path)) for path in paths], console, only_here=only_here)
    assert (found.pool is not None) is (found.jobs > 1)
    return found.spark or found.jobs, [call.args[0] for call in console.note.call_args_list]


def test_little_is_done_in_this_process(started: list[Any], log: Path, logs: Path) -> None:
    """However many segments there are."""
    said = [f"engine: local, 1 process (less than {LEAST} bytes of logs)"]
    assert chosen(log) == chosen(log, jobs=4) == chosen(log, engine="local") == (1, said)
    assert chosen(log, verbose=False) == (1, [])
    for segment in sorted((logs / "t-0").iterdir())[:51]:
        segment.write_bytes(b"")
    assert chosen(logs) == (1, said)
    assert not started


def test_more_is_done_by_as_many_processes_as_there_are_cores(started: list[Any], logs: Path) -> None:
    for segment in sorted((logs / "t-0").iterdir())[:50]:
        segment.unlink()
    said = [f"engine: local, {CORES} processes ({LEAST} bytes of logs or more)"]
    assert chosen(logs) == chosen(*sorted((logs / "t-0").iterdir())) == (CORES, said)
    assert chosen(logs, verbose=False) == (CORES, [])
    assert chosen(logs, jobs=3) == (3, ["engine: local, 3 processes (-j 3)"])
    assert chosen(logs, jobs=1) == (1, ["engine: local, 1 process (-j 1)"])
    assert not started


def test_much_is_done_on_spark(started: list[Any], logs: Path) -> None:
    said = [f"engine: spark, local[*] ({MUCH} bytes of logs or more)"]
    assert chosen(logs) == chosen(logs, verbose=False) == (A_SESSION, said)
    assert started == [(None, {}), (None, {})]


def test_gaps_of_sparse_files_are_no_work(started: list[Any], logs: Path) -> None:
    for segment in (logs / "t-0").iterdir():
        segment.unlink()
    with (logs / "t-0" / NAME).open("wb") as file:
        file.truncate(1 << 35)
    if os.stat(file.name).st_blocks:
        pytest.skip("the file system of the temporary directory has no sparse files")
    assert chosen(logs) == (1, [f"engine: local, 1 process (less than {LEAST} bytes of logs)"])
    assert not started


def test_much_is_done_here_where_that_is_asked_for(started: list[Any], logs: Path) -> None:
    assert chosen(logs, engine="local") == (
        CORES,
        [f"engine: local, {CORES} processes ({LEAST} bytes of logs or more)"],
    )
    assert chosen(logs, rate=5)[0] == chosen(logs, idle=True)[0] == CORES
    assert chosen(logs, jobs=2)[0] == 2
    assert not started


def test_a_master_or_the_engine_is_enough(started: list[Any], log: Path) -> None:
    conf = (("spark.ui.enabled", "true"), ("a", "b=c"))
    assert chosen(log, master="spark://h:1", conf=conf) == (A_SESSION, ["engine: spark, spark://h:1 (--master)"])
    assert chosen(log, engine="spark") == (A_SESSION, ["engine: spark, local[*] (--engine spark)"])
    assert started == [("spark://h:1", dict(conf)), (None, {})]


def test_one_process_beside_a_broker_unless_asked_for(started: list[Any], held: Path) -> None:
    expected = 1, ["engine: local, 1 process (a broker runs here)"]
    assert chosen(held) == expected
    assert chosen(held / "t-0") == expected
    assert chosen(*sorted((held / "t-0").iterdir())) == expected
    assert chosen(held, engine="local") == expected
    assert not started
    assert chosen(held, jobs=2) == (2, ["engine: local, 2 processes (-j 2)"])
    assert chosen(held, engine="spark")[0] == A_SESSION
    assert chosen(held, master="yarn")[0] == A_SESSION


@pytest.mark.parametrize(
    "words", [["verify"], ["stats"], ["state", "--at", "now"], ["verify", "--startup"]], ids=" ".join
)
def test_who_is_told_that_a_broker_runs(tmp_path: Path, words: list[str]) -> None:
    log = tmp_path / "t-0" / NAME
    log.parent.mkdir()
    log.write_bytes(BATCH)
    lock = tmp_path / ".lock"
    lock.touch()
    said = f"kdump: {tmp_path}: a broker holds the lock: the files may change while they are read\n"
    with locked(lock):
        for path in (tmp_path, log.parent, log):
            assert kdump(*words, str(path), cwd=tmp_path).stderr.decode().count(said) == 1
    assert said not in kdump(*words, str(tmp_path), cwd=tmp_path).stderr.decode()


def test_a_lock_that_nobody_holds(started: list[Any], logs: Path) -> None:
    (logs / ".lock").touch()
    assert chosen(logs)[0] == A_SESSION


def test_what_only_one_process_does(started: list[Any], logs: Path) -> None:
    expected = 1, ["engine: local, 1 process (--tail is for one process)"]
    assert chosen(logs, only_here="--tail") == chosen(logs, only_here="--tail", jobs=3) == expected
    assert not started


def test_spark_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, logs: Path) -> None:
    monkeypatch.setattr(sessions, "why_not", lambda master=None: "Spark needs x: get it")
    said = f"engine: local, {CORES} processes ({MUCH} bytes of logs or more. Spark needs x: get it)"
    assert chosen(logs) == (CORES, [said])
    with pytest.raises(KdumpError, match="Spark needs x: get it") as raised:
        chosen(logs, engine="spark")
    assert raised.value.code is Codes.UNREADABLE


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[2,1,1024]", "yarn", "k8s://h:1"])
def test_masters(started: list[Any], master: str) -> None:
    assert MASTER.convert(master, None, None) == master


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--engine", "local", "--master", "yarn"], "--master and --conf go with Spark, not with --engine local"),
        (["--engine", "fast"], "'fast' is not one of 'auto', 'local', 'spark'"),
        (["--master", "host:7077"], "'host:7077' is none of local[N], spark://..., yarn"),
        (["--master", "localhost"], "'localhost' is none of"),
        (["--conf", "spark.ui.enabled"], "'spark.ui.enabled' is not of the form K=V"),
        (["--engine", "local", "--conf", "a=b"], "--master and --conf go with Spark, not with --engine local"),
        (["--engine", "spark", "--rate", "5"], "--rate goes with --engine local only"),
        (["--master", "yarn", "--rate", "5"], "--rate goes with --engine local only"),
        (["--master", "yarn", "-j", "5"], "--jobs goes with --engine local only"),
        (["--engine", "spark", "-j", "1"], "--jobs goes with --engine local only"),
        (["-j", "0"], "0 is not in the range x>=1"),
    ],
)
def test_wrong_options(log: Path, words: list[str], what: str) -> None:
    run = kdump("verify", *words, log.name, cwd=log.parent)
    assert run.returncode == USAGE
    assert what in run.stderr.decode().splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--engine", "spark"], "--output kafka"),
        (["--master", "yarn", "--output", "table"], "--output table"),
        (["--engine", "spark", "--output", "jsonl", "-n", "5"], "-n"),
        (["--engine", "spark", "--output", "jsonl", "--tail", "5"], "--tail"),
        (["--engine", "spark", "--output", "jsonl", "--follow"], "--follow"),
        (["--engine", "spark", "--output", "jsonl", "--all-files"], "--all-files"),
        (["--engine", "spark", "--output", "jsonl", "--files", "a.log"], "--files"),
    ],
)
def test_dumps_of_one_process(log: Path, words: list[str], what: str) -> None:
    run = kdump("dump", *words, *([] if "--files" in words else [log.name]), cwd=log.parent)
    assert run.returncode == USAGE
    assert run.stderr.decode().splitlines()[-1] == f"Error: {what} goes with --engine local only"


def test_a_dump_prints_from_one_process(started: list[Any], log: Path, logs: Path) -> None:
    said = [f"engine: local, 1 process (less than {MUCH} bytes of logs)"]
    assert chosen(log, kind=EngineArguments) == (1, said)
    said = ["engine: local, 1 process (it prints from one process)"]
    assert chosen(logs, engine="local", kind=EngineArguments) == (1, said)
    assert chosen(logs, rate=5, kind=EngineArguments) == (1, said)
    assert not started
    assert chosen(logs, kind=EngineArguments)[0] == A_SESSION


def test_a_repair_has_no_processes(log: Path) -> None:
    run = kdump("repair", "-j", "2", log.name, cwd=log.parent)
    assert run.returncode == USAGE
    assert "No such option" in run.stderr.decode()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["dump", "--output", "table"], "--output table"),
        (["dump", "--output", "jsonl", "-n", "1"], "-n"),
        (["dump", "--output", "jsonl", "--all-files"], "--all-files"),
        (["stats", "-j", "2", "--what-if", "magic"], "--what-if"),
        (["convert", "-j", "2", "-o", "-", "--to", "jsonl"], "-o -"),
        (["convert", "-j", "2", "-o", "out.log", "--codec", "gzip"], "one segment"),
    ],
)
def test_what_has_no_parts_runs_in_one_process_and_says_so(log: Path, words: list[str], what: str) -> None:
    run = kdump(*words, "-v", log.name, cwd=log.parent)
    assert run.returncode == CLEAN
    assert f"kdump: engine: local, 1 process ({what} is for one process)" in run.stderr.decode().splitlines()


# A module in front of the installed one: the same ImportError as where it is not there.
HIDDEN = 'raise ImportError("hidden", name=__name__)\n'


def without(*modules: str, folder: Path) -> dict[str, str]:
    """An environment in which modules, or ``java``, are not there."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PATH": str(folder / "bin")}
    environment.pop("JAVA_HOME", None)
    for module in modules:
        (folder / f"{module}.py").write_text(HIDDEN)
    return environment


def verified(*words: str, environment: Mapping[str, str], folder: Path) -> tuple[int, list[str], list[str]]:
    command = [*KDUMP, "verify", *words]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=120, check=False)
    return run.returncode, run.stdout.decode().splitlines(), run.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        (("pyspark",), "Spark needs pyspark: pip install pyspark pandas pyarrow"),
        (("pyarrow",), "Spark needs pyarrow: pip install pyspark pandas pyarrow"),
        (("pandas",), "Spark needs pandas: pip install pyspark pandas pyarrow"),
        ((), "Spark needs Java 17 or later: install a JDK, or set JAVA_HOME"),
    ],
)
@pytest.mark.slow
def test_what_is_missing_is_one_line(log: Path, tmp_path: Path, hidden: tuple[str, ...], said: str) -> None:
    environment = without(*hidden, folder=tmp_path)
    for words in (("--engine", "spark"), ("--master", "local[2]", "--engine", "spark")):
        expected = UNREADABLE, [], [f"kdump: {said}"]
        assert verified(*words, log.name, environment=environment, folder=tmp_path) == expected


@pytest.mark.slow
def test_a_master_without_spark(log: Path, tmp_path: Path) -> None:
    environment = without("pyspark", folder=tmp_path)
    status, lines, errors = verified("--master", "yarn", log.name, environment=environment, folder=tmp_path)
    assert (status, lines, errors) == (
        UNREADABLE,
        [],
        ["kdump: Spark needs pyspark: pip install pyspark pandas pyarrow"],
    )


def test_connect_needs_no_java_but_its_own_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setitem(sys.modules, "grpc_status", None)
    assert sessions.why_not("sc://h") == "Spark Connect needs grpc_status: pip install 'pyspark[connect]'"
    monkeypatch.setitem(sys.modules, "grpc_status", os)
    assert sessions.why_not("sc://h") is None
    assert sessions.why_not() == "Spark needs Java 17 or later: install a JDK, or set JAVA_HOME"
    monkeypatch.setenv("SPARK_REMOTE", "sc://h")
    assert sessions.why_not() is None
    assert sessions.why_not("local[2]") == "Spark needs Java 17 or later: install a JDK, or set JAVA_HOME"


def test_pyspark_client_has_no_spark_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setitem(sys.modules, "grpc_status", os)
    monkeypatch.setitem(sys.modules, "py4j", None)
    monkeypatch.setitem(sys.modules, "py4j.protocol", None)
    assert sessions.why_not("sc://h") is None
    missing = sessions.why_not()
    assert missing is not None
    assert missing.endswith("pip install pyspark")
    with pytest.raises(KdumpError, match=r"^x: refused$"), sessions.translated_errors("x"):
        raise OSError("refused")


@pytest.mark.parametrize(
    ("environment", "master", "said"),
    [
        ({}, None, "local[*]"),
        ({"MASTER": "yarn"}, None, "yarn"),
        ({"MASTER": "yarn", "SPARK_REMOTE": "sc://h"}, None, "sc://h"),
        ({"MASTER": "yarn", "PYSPARK_GATEWAY_PORT": "1"}, None, "the master of spark-submit"),
        ({"MASTER": "yarn", "PYSPARK_GATEWAY_PORT": "1"}, "local[2]", "local[2]"),
    ],
)
def test_where_a_session_will_be(
    environment: dict[str, str], master: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert sessions.where(master) == said


def test_an_old_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    missing = sessions.why_not()
    assert missing == "Spark needs pyspark 4.1 or later, there is 4.0.1: pip install -U pyspark"
    with pytest.raises(KdumpError, match=r"4\.1 or later") as raised:
        sessions.session()
    assert raised.value.code is Codes.UNREADABLE


@pytest.mark.slow
def test_spark_that_does_not_start(log: Path, tmp_path: Path) -> None:
    """A ``java`` that ends at once, as where its version is wrong."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    status, lines, errors = verified("--master", "local[1]", log.name, environment=environment, folder=tmp_path)
    assert (status, lines) == (UNREADABLE, [])
    assert errors[0] == "kdump: engine: spark, local[1] (--master)"
    assert errors[-1].startswith("kdump: local[1]: Spark does not start: [JAVA_GATEWAY_EXITED]")
    assert not any(line.startswith("Traceback") for line in errors)


def test_java_keeps_the_collector_that_it_is_given() -> None:
    """With two (one of JDK_JAVA_OPTIONS, say) it does not start."""
    assert not re.search(r"-XX:\+Use\w*GC", sessions._defaults()["spark.driver.extraJavaOptions"])


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("plain", "plain"),
        ("", "ValueError"),
        (
            "An error occurred while calling None.x.\n: org.apache.spark.SparkException: no such master\n\tat x",
            "org.apache.spark.SparkException: no such master",
        ),
        (
            "Job aborted: PythonException: Traceback (most recent call last):\n  File x\n"
            "ModuleNotFoundError: No module named 'kdump'\n",
            "ModuleNotFoundError: No module named 'kdump'",
        ),
    ],
)
def test_failures_of_spark_are_one_line(message: str, said: str) -> None:
    assert sessions._reason(ValueError(message)) == said


def test_no_module_hides_what_the_package_offers() -> None:
    import kdump.spark

    modules = {path.stem for path in Path(kdump.spark.__file__).parent.glob("*.py")}
    assert not modules & set(kdump.spark.__all__)
    assert callable(kdump.spark.session)
    assert callable(kdump.spark.session)


def test_of_a_log_in_a_store_no_more_counts_than_a_broker_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may claim any size; it must not start a session for nothing."""
    monkeypatch.setattr(engine, "log_paths", lambda inputs: iter(["s3://b/t-0/0.log", "d/t-0/0.log"]))
    monkeypatch.setattr(engine.files, "allocated", lambda path: 1 << 50)
    assert engine.log_totals([]) == ((1 << 31) + (1 << 50), 2)
