"""A KRaft broker from the jars, on the loopback, with one log directory."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.oracle.toolchain import DUMP_RELEASE, java_command

_CLUSTER = "kdumpkdumpkdumpkdumpkQ"
_START_SECONDS = 120
_SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.ms=-1
"""


class Cluster:
    """A formatted log directory in ``home``; brokers on it are started one after the other.

    ``settings``: lines of server.properties after the usual ones.
    """

    def __init__(self, home: Path, settings: str = "") -> None:
        self._home = home
        self._port, controller = _free_ports(2)
        self.logs = home / "logs"
        self._settings = home / "server.properties"
        self._settings.write_text(_SETTINGS.format(port=self._port, controller=controller, logs=self.logs) + settings)
        tool = java_command(DUMP_RELEASE, "kafka.tools.StorageTool")
        words = ["format", "--cluster-id", _CLUSTER, "--config", str(self._settings), "--standalone"]
        subprocess.run([*tool, *words], check=True, capture_output=True)

    @property
    def server(self) -> str:
        """The address of the broker."""
        return f"127.0.0.1:{self._port}"

    @contextmanager
    def broker(self, *, is_killed: bool = False) -> Iterator[None]:
        """Runs meanwhile, and is stopped properly, or killed."""
        options = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        command = java_command(DUMP_RELEASE, "kafka.Kafka", options=options)
        with (
            (self._home / "broker.log").open("wb") as log,
            subprocess.Popen([*command, str(self._settings)], stdout=log, stderr=log) as process,
        ):
            try:
                self._wait(process)
                yield
            finally:
                process.send_signal(signal.SIGKILL if is_killed else signal.SIGTERM)
                process.wait(_START_SECONDS)

    @contextmanager
    def load(self, seconds: int) -> Iterator[subprocess.Popen[str]]:
        """LiveLoad, which has made its topics and writes to them for so long."""
        command = [*java_command(DUMP_RELEASE, "LiveLoad"), f"127.0.0.1:{self._port}", str(seconds)]
        with (
            (self._home / "load.log").open("ab") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        ):
            assert process.stdout
            assert process.stdout.readline() == "ready\n", (self._home / "load.log").read_text()[-2000:]
            try:
                yield process
            finally:
                process.kill()

    @property
    def said(self) -> list[str]:
        """The lines with WARN or ERROR that the last broker wrote so far, and those of exceptions."""
        return (self._home / "broker.log").read_text(errors="replace").splitlines()

    def client(self, *words: str, program: str = "PartitionClient") -> list[str]:
        """The lines that PartitionClient, or another such program, prints."""
        command = [*java_command(DUMP_RELEASE, program), f"127.0.0.1:{self._port}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            assert process.poll() is None, (self._home / "broker.log").read_text()[-2000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.2)
        raise AssertionError("the broker does not start")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
