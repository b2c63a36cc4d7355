"""The Spark session that kdump makes when it gets none."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard
from urllib.parse import urlsplit

from kdump.codes import Codes, KdumpError
from kdump.system.modules import only_own_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session: TypeAlias = "SparkSession"
"""For those that hand one on without importing pyspark."""

LOCAL: Final = "local[*]"
_LOCAL_MASTER: Final = re.compile(r"local(\[.*\])?")
"""Masters that run everything in the Java process of the driver."""
_STDERR: Final = 2
_LOCAL_DIRECTORY: Final = "spark.local.dir"
_LOOPBACK: Final = "127.0.0.1"
_OLDEST_JAVA: Final = 17
_CONNECT_PORT: Final = 15002
_PATIENCE: Final = 10
"""Seconds."""
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_FOR_WORKERS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=1000000 "
    "-XX:Tier4MinInvocationThreshold=200000 -XX:Tier4CompileThreshold=2000000 -XX:Tier4BackEdgeThreshold=1000000"
)
"""Settings that leave the processors to the Python workers. Of the JVM's code, only what runs for each row is
optimized.
"""
_SET_BY_OTHERS: Final = {"SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"}
"""Where one of these variables is set (``spark-submit`` sets the second), the master is set too, and not here."""
_CONNECT: Final = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"}
"""PySpark itself sets the second one, with its first session on a Spark Connect server."""
_RAISED: Final = re.compile(r"(?:: )?((?:[\w$]+\.)*\w*(?:Error|Exception): .*)")


def why_not(master: str | None = None) -> str | None:
    """What is missing for Spark (on ``master``), and how to get it; None where nothing is missing."""
    try:
        import pandas  # noqa: F401  (PySpark's mapInArrow asks for it)
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError as error:
        return f"Spark needs {error.name}: pip install pyspark pandas pyarrow"
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < (4, 1):
        return f"Spark needs pyspark 4.1 or later, there is {pyspark.__version__}: pip install -U pyspark"
    if _is_connect(master):
        try:
            import grpc_status  # noqa: F401  (what of pyspark[connect] comes with nothing else)
        except ImportError as error:
            return f"Spark Connect needs {error.name}: pip install 'pyspark[connect]'"
        return None
    if importlib.util.find_spec("py4j") is None:
        return (
            "without a Spark Connect server (sc://HOST:PORT) Spark needs more than pyspark-client: pip install pyspark"
        )
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        return f"Spark needs Java {_OLDEST_JAVA} or later: install a JDK, or set JAVA_HOME"
    return None


@contextmanager
def translated_errors(what: str, path: str | None = None) -> Iterator[None]:
    """Failures of Spark become a KdumpError of one line: ``what``, and the reason.

    Raises:
        KdumpError: UNREADABLE.
    """
    from pyspark.errors import PySparkException

    expected: list[type[Exception]] = [PySparkException, OSError, RuntimeError]
    # pyspark-client is without it.
    with suppress(ImportError):
        from py4j.protocol import Py4JError

        expected.append(Py4JError)
    try:
        yield
    except tuple(expected) as error:
        raise KdumpError(Codes.UNREADABLE, f"{what}: {_reason(error)}", path=path) from error


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, app_name: str = "kdump"
) -> SparkSession:
    """A session with kdump's sources registered; the one that there is, or a new one.

    A new one has this Python in its workers, says errors only, and shows its progress where standard error is a
    terminal.

    Args:
        master: as for ``spark-submit``; None: ``local[*]``, or what ``spark-submit`` says. One that
            begins with ``sc://`` is a Spark Connect server.
        conf: further settings.
        app_name: what a new session is called.

    Raises:
        KdumpError: UNREADABLE without pyspark, pyarrow or Java, or when Spark does not start.
    """
    missing = why_not(master)
    if missing is not None:
        raise KdumpError(Codes.UNREADABLE, missing)
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    from kdump.spark.sources import register

    if master is None and is_remote() and (connected := SparkSession.getActiveSession()) is not None:
        # A builder that does not know the server gives no session, not even the one that there is.
        for name, value in (conf or {}).items():
            connected.conf.set(name, value)
        register(connected)
        return connected
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    defaults: dict[str, str] = {}
    builder = SparkSession.builder.appName(app_name)
    if _is_remote(master):
        builder = builder.remote(master)
    else:
        defaults = _defaults()
        if master is not None or not _SET_BY_OTHERS & os.environ.keys():
            chosen = master or os.environ.get("MASTER", LOCAL)
            builder = builder.master(chosen)
            if _LOCAL_MASTER.fullmatch(chosen) and SparkSession.getActiveSession() is None:
                defaults |= _closed_to_others(conf or {})
        for name, value in defaults.items():
            builder = builder.config(name, value)
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    with translated_errors("Spark does not start", master):
        if _is_remote(master):
            _knock(master)
        with only_own_modules(), nullcontext() if _is_connect(master) else _java_not_left_behind():
            spark: SparkSession = builder.getOrCreate()
        if _LOCAL_DIRECTORY in defaults:
            _remove_at_exit(defaults[_LOCAL_DIRECTORY], spark)
        register(spark)
    return spark


def _is_remote(master: str | None) -> TypeGuard[str]:
    """A Spark Connect server."""
    return master is not None and master.startswith("sc://")


def _is_connect(master: str | None) -> bool:
    """A Spark Connect server, also one that the environment or a session that there is names."""
    return _is_remote(master) or (master is None and bool(_CONNECT & os.environ.keys()))


def where(master: str | None) -> str:
    """The master that a new session gets."""
    if master is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        return "the master of spark-submit"
    return master or os.environ.get("SPARK_REMOTE") or os.environ.get("MASTER", LOCAL)


@contextmanager
def _java_not_left_behind() -> Iterator[None]:
    """Holds the first interrupt back until PySpark knows the Java process that it starts.

    A process that PySpark does not know would live on.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    from pyspark import SparkContext

    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if held or getattr(SparkContext, "_gateway", held) is not None:
            raise KeyboardInterrupt
        held.append(number)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        # PySpark has its own handler once there is a context: it cancels the jobs.
        if signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if held:
            raise KeyboardInterrupt


def _knock(remote: str) -> None:
    """OSError where nothing listens. Spark's own client would try for many minutes."""
    url = urlsplit(remote)
    with socket.create_connection((url.hostname or "", url.port or _CONNECT_PORT), _PATIENCE):
        pass


def _defaults() -> dict[str, str]:
    is_terminal = os.isatty(_STDERR)
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(is_terminal).lower(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING} {_FOR_WORKERS}",
    }


def _closed_to_others(conf: Mapping[str, str]) -> dict[str, str]:
    """Settings of a local master that keep other hosts and other users out.

    Spark's ports deserialize Java objects, so they listen on the loopback address only and ask for a secret. Spark
    makes that secret itself for a local master: a secret among the settings would stand in Java's command line, where
    every user can read it.
    """
    settings = {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.authenticate": "true",
    }
    if _LOCAL_DIRECTORY not in conf and "SPARK_LOCAL_DIRS" not in os.environ:
        settings[_LOCAL_DIRECTORY] = tempfile.mkdtemp(prefix="kdump-spark-")
    return settings


def _remove_at_exit(directory: str, spark: SparkSession) -> None:
    """Remove a directory when this process or its Java ends. Neither always does: kdump's commands leave at once."""
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    assert spark.sparkContext._jvm is not None, "the master is local"
    spark.sparkContext._jvm.java.io.File(directory).deleteOnExit()


def _reason(error: Exception) -> str:
    """The line of a message with the reason: the first with an exception of Python or Java, else the first line."""
    lines = str(error).strip().splitlines()
    raised = (match[1] for line in lines if (match := _RAISED.match(line)))
    return next(raised, lines[0] if lines else type(error).__name__)
