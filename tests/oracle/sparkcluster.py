"""Clusters of the installed PySpark on loopback: a standalone master with workers, a Spark Connect server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

LOOPBACK = "127.0.0.1"
_PATIENCE = 300.0
"""Seconds; a machine that is busy starts a JVM in a minute."""


def spark_home() -> Path:
    """The directory of the installed pyspark, which is a distribution of Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


def environment(python: str = sys.executable) -> dict[str, str]:
    """Of all processes of a cluster; ``python`` runs the workers' functions."""
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": python,
    }


@contextlib.contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[str]:
    """The URL of a master with so many workers of one core each.

    The workers keep what they write in ``directory`` and have a PYTHONPATH of their own, none.
    """
    port = _free_port()
    url = f"spark://{LOOPBACK}:{port}"
    own = environment()
    own.pop("PYTHONPATH", None)
    with contextlib.ExitStack() as stack:
        log = directory / "master.log"
        master = ("org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", "0")
        stack.enter_context(_running(_spark_class(*master), log, own))
        _wait(lambda: _is_open(port), log)
        for number in range(workers):
            worker = ("org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0")
            place = ("--work-dir", str(directory / f"work-{number}"), "--host", LOOPBACK, url)
            stack.enter_context(_running(_spark_class(*worker, *place), directory / f"worker-{number}.log", own))
        _wait(lambda: log.read_text().count("Registering worker") >= workers, log)
        yield url


@contextlib.contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """The URL of a Spark Connect server with two cores."""
    port = _free_port()
    settings = {"spark.connect.grpc.binding.address": LOOPBACK, "spark.connect.grpc.binding.port": str(port)}
    command = [str(spark_home() / "sbin" / "start-connect-server.sh"), "--master", "local[2]"]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    log = directory / "connect.log"
    own = {**environment(), "SPARK_LOG_DIR": str(directory), "SPARK_PID_DIR": str(directory)}
    with _running(command, log, own):
        _wait(lambda: _is_open(port), log)
        yield f"sc://{LOOPBACK}:{port}"


def executors(application: str) -> list[int]:
    """The processes of the executors of an application."""
    wanted = (b"org.apache.spark.executor.CoarseGrainedExecutorBackend", application.encode())
    return [process for process, words in _processes() if all(word in words for word in wanted)]


def python_workers(application: str) -> list[int]:
    """The Python processes that run functions for an application: each is forked by a daemon of an executor."""
    parents = {process: _parent(process) for process, _ in _processes()}
    of_application = set(executors(application))
    daemons = {process for process, parent in parents.items() if parent in of_application}
    return [process for process, parent in parents.items() if parent in daemons]


def _processes() -> list[tuple[int, Sequence[bytes]]]:
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with contextlib.suppress(OSError):
                found.append((int(directory.name), (directory / "cmdline").read_bytes().split(b"\0")))
    return found


def _parent(process: int) -> int | None:
    with contextlib.suppress(OSError):
        # Behind the name, which may hold anything: state, parent.
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def _spark_class(*words: str) -> list[str]:
    return [str(spark_home() / "bin" / "spark-class"), *words]


@contextlib.contextmanager
def _running(command: Sequence[str], log: Path, own: Mapping[str, str]) -> Iterator[None]:
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=own, stdout=output, stderr=output, start_new_session=True) as process,
    ):
        try:
            yield
        finally:
            # Scripts have children of their own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


def _wait(is_there: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while not is_there():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _is_open(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True
