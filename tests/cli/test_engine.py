"""``--engine``, ``--master`` and ``--conf``: what runs where, and what is said about it. No Spark is started here."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kdump.cli import engine_options
from kdump.cli.arguments import EngineArguments
from kdump.cli.engine_options import MOST_LOCAL_SEGMENTS
from kdump.codes import Codes, KdumpError
from kdump.spark import sessions
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, KDUMP, NAME, UNREADABLE, USAGE, kdump, locked

MANY = MOST_LOCAL_SEGMENTS + 1
A_SESSION = "a session"


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A log directory with one segment more than is left to one process."""
    partition = tmp_path / "logs" / "t-0"
    partition.mkdir(parents=True)
    for number in range(MANY):
        (partition / f"{number:020}.log").write_bytes(BATCH if number == 0 else b"")
    return partition.parent


@pytest.fixture
def held(many: Path) -> Iterator[Path]:
    """The same while a process holds its lock."""
    (many / ".lock").touch()
    with locked(many / ".lock"):
        yield many


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


def chosen(*paths: Path, local_only: bool = False, **given: Any) -> tuple[Any, list[str]]:
    """The session, and what was said."""
    notes: list[str] = []
    others: dict[str, Any] = {"conf": (), "rate": None, "idle": False, "verbose": False}
    options = EngineArguments({"engine": "auto", "master": None, **others, **given})
    return engine_options.session(options, list(map(str, paths)), notes.append, local_only=local_only), notes


def test_few_segments_stay_here_without_a_word(started: list[Any], log: Path) -> None:
    assert chosen(log) == (None, [])
    assert chosen(*[log] * MOST_LOCAL_SEGMENTS) == (None, [])
    assert not started


def test_many_segments_go_to_spark(started: list[Any], many: Path, log: Path) -> None:
    assert chosen(many) == (A_SESSION, [f"engine: spark, local[*] ({MANY} segments)"])
    assert chosen(*[log] * MANY) == (A_SESSION, [f"engine: spark, local[*] ({MANY} segments)"])
    assert chosen(many, engine="local") == (None, [])
    assert started == [(None, {}), (None, {})]


def test_a_master_or_the_engine_is_enough(started: list[Any], log: Path) -> None:
    conf = (("spark.ui.enabled", "true"), ("a", "b=c"))
    assert chosen(log, master="spark://h:1", conf=conf) == (A_SESSION, ["engine: spark, spark://h:1 (--master)"])
    assert chosen(log, engine="spark") == (A_SESSION, ["engine: spark, local[*] (--engine spark)"])
    assert started == [("spark://h:1", dict(conf)), (None, {})]


def test_never_beside_a_broker_unless_asked_for(started: list[Any], held: Path) -> None:
    expected = None, [f"engine: local, because a broker runs here ({MANY} segments)"]
    assert chosen(held) == expected
    assert chosen(held / "t-0") == expected
    assert chosen(*[held / "t-0" / NAME] * MANY) == expected
    assert not started
    assert chosen(held, engine="spark")[0] == A_SESSION
    assert chosen(held, master="yarn")[0] == A_SESSION


def test_a_lock_that_nobody_holds(started: list[Any], many: Path) -> None:
    (many / ".lock").touch()
    assert chosen(many)[0] == A_SESSION


def test_what_only_one_process_does(started: list[Any], many: Path) -> None:
    assert chosen(many, local_only=True) == (None, [])
    assert not started


def test_spark_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, many: Path) -> None:
    monkeypatch.setattr(sessions, "why_not", lambda master=None: "Spark needs x: get it")
    assert chosen(many) == (None, [f"engine: local ({MANY} segments). Spark needs x: get it"])
    with pytest.raises(KdumpError, match="Spark needs x: get it") as raised:
        chosen(many, engine="spark")
    assert raised.value.code is Codes.UNREADABLE


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[2,1,1024]", "yarn", "k8s://h:1"])
def test_masters(started: list[Any], master: str) -> None:
    assert engine_options._Master().convert(master, None, None) == master


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
        (("pyspark",), "Spark needs pyspark: pip install 'kafka-kdump[spark]'"),
        (("pyarrow",), "Spark needs pyarrow: pip install 'kafka-kdump[spark]'"),
        (("pandas",), "Spark needs pandas: pip install 'kafka-kdump[spark]'"),
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
def test_auto_stays_here_where_spark_is_missing(many: Path, tmp_path: Path) -> None:
    status, lines, errors = verified("logs", environment=without("pyspark", folder=tmp_path), folder=tmp_path)
    said = f"kdump: engine: local ({MANY} segments). Spark needs pyspark: pip install 'kafka-kdump[spark]'"
    assert errors == [said]
    assert (status, lines) == verified("--engine", "local", "logs", environment=os.environ, folder=tmp_path)[:2]
    assert status in (CLEAN, DAMAGE)


@pytest.mark.slow
def test_a_master_without_spark(log: Path, tmp_path: Path) -> None:
    environment = without("pyspark", folder=tmp_path)
    status, lines, errors = verified("--master", "yarn", log.name, environment=environment, folder=tmp_path)
    assert (status, lines, errors) == (UNREADABLE, [], ["kdump: Spark needs pyspark: pip install 'kafka-kdump[spark]'"])


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
    assert missing == "Spark needs pyspark 4.1 or later, there is 4.0.1: pip install -U 'kafka-kdump[spark]'"
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
