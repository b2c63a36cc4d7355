"""KRaft brokers from the jars, on the loopback, with one log directory each."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.oracle.toolchain import DUMP_RELEASE, java_command

_CLUSTER = "kdumpkdumpkdumpkdumpkQ"
_START_SECONDS = 120
_SETTINGS = """
node.id={node}
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
_BOTH = """
process.roles=broker,controller
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
"""
_BROKER = """
process.roles=broker
listeners=PLAINTEXT://127.0.0.1:{port}
"""


class Node:
    """A broker with a formatted log directory in ``home``; node 1 is the controller too.

    ``settings``: lines of server.properties after the usual ones. ``release``: of its jars.
    """

    def __init__(self, home: Path, number: int, ports: tuple[int, int], settings: str, release: str) -> None:
        self._home = home
        self._release = release
        self.number = number
        self.port, controller = ports
        self.logs = home / "logs"
        self._settings = home / "server.properties"
        lines = _SETTINGS + (_BOTH if number == 1 else _BROKER)
        text = lines.format(node=number, port=self.port, controller=controller, logs=self.logs)
        self._settings.write_text(text + settings)
        tool = java_command(release, "kafka.tools.StorageTool")
        words = ["format", "--cluster-id", _CLUSTER, "--config", str(self._settings)]
        subprocess.run([*tool, *words, *(["--standalone"] if number == 1 else [])], check=True, capture_output=True)

    @contextmanager
    def run(self, *, is_killed: bool = False) -> Iterator[None]:
        """Runs meanwhile, and is stopped properly, or killed."""
        options = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        command = java_command(self._release, "kafka.Kafka", options=options)
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

    @property
    def said(self) -> list[str]:
        """The lines with WARN or ERROR that the last run wrote so far, and those of exceptions."""
        return (self._home / "broker.log").read_text(errors="replace").splitlines()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            assert process.poll() is None, (self._home / "broker.log").read_text()[-2000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)
        raise AssertionError("the broker does not start")


class Cluster:
    """Brokers whose log directories lie in ``home``; they are started again and again.

    ``settings``: lines of server.properties behind the usual ones. ``release``: of the jars.
    """

    def __init__(self, home: Path, settings: str = "", *, brokers: int = 1, release: str = DUMP_RELEASE) -> None:
        self._home = home
        self._release = release
        *ports, controller = _free_ports(brokers + 1)
        self.nodes: list[Node] = []
        for number, port in enumerate(ports, 1):
            place = home if number == 1 else home / f"node{number}"
            place.mkdir(exist_ok=True)
            self.nodes.append(Node(place, number, (port, controller), settings, release))
        self.logs = self.nodes[0].logs

    @property
    def server(self) -> str:
        """The address of the first broker."""
        return f"127.0.0.1:{self.nodes[0].port}"

    @contextmanager
    def broker(self, *, is_killed: bool = False) -> Iterator[None]:
        """The first broker runs meanwhile, and is stopped properly, or killed."""
        with self.nodes[0].run(is_killed=is_killed):
            yield

    @contextmanager
    def brokers(self) -> Iterator[None]:
        """All brokers run meanwhile, and are stopped properly, the last one first."""
        with ExitStack() as running:
            for node in self.nodes:
                running.enter_context(node.run())
            yield

    @contextmanager
    def load(self, seconds: int) -> Iterator[subprocess.Popen[str]]:
        """LiveLoad, which has made its topics and writes to them for so long."""
        command = [*java_command(self._release, "LiveLoad"), self.server, str(seconds)]
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
        """What the first broker said, see ``Node.said``."""
        return self.nodes[0].said

    def tool(self, program: str, words: Sequence[str], given: bytes | None = None) -> str:
        """What a program of Kafka prints; it gets the address of the first broker, and ``given`` as its input."""
        command = [*java_command(self._release, program), "--bootstrap-server", self.server, *words]
        done = subprocess.run(command, input=given, capture_output=True, timeout=_START_SECONDS, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout.decode()

    def client(self, *words: str, program: str = "PartitionClient") -> list[str]:
        """The lines that PartitionClient, or another such program, prints."""
        command = [*java_command(self._release, program), self.server, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
