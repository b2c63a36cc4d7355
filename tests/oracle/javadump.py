"""The real DumpLogSegments, held running: see ``java/DumpServer.java`` for the protocol."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from kdump.releases import RELEASES
from tests.harness.flags import FlagSet
from tests.harness.outcome import Outcome
from tests.oracle.toolchain import DUMP_RELEASE, OLDER_RELEASES, java_command

_OPTIONS = ("-Xmx1500m", "-XX:-OmitStackTraceInFastThrow", "--add-opens=java.base/java.lang=ALL-UNNAMED")
"""Bounded; an exception thrown thousands of times keeps its message, as in a process of its own; old snappy loads."""
_NEWEST_TOOL = "org.apache.kafka.tools.DumpLogSegments"
_TOOLS = {jars: "kafka.tools.DumpLogSegments" for name, jars in OLDER_RELEASES.items() if name not in RELEASES}
"""That of the releases before those that kdump models."""
_LOG4J = re.compile(rb"^(?:log4j|SLF4J)[: ].*\n", re.MULTILINE)
"""What old loggers say of themselves."""
_CALLS_PER_JVM = 4000
"""The tool never unmaps the indexes it opened; a new JVM now and then does."""


class JavaDump:
    """Calls of the Java tool, one after the other. Raises ToolchainMissingError when it cannot be started."""

    def __init__(self, release: str = DUMP_RELEASE) -> None:
        self._command = [*java_command(release, "DumpServer", options=_OPTIONS), _TOOLS.get(release, _NEWEST_TOOL)]
        self._process = self._start()
        self._calls = 0

    def dump(self, files: Iterable[str], flags: FlagSet) -> Outcome:
        """What the tool prints for ``files``, and how it ends."""
        return self.call([*flags.arguments, "--files", ",".join(files)])

    def call(self, arguments: list[str]) -> Outcome:
        """One call with any arguments (without tabs and line ends)."""
        if self._calls >= _CALLS_PER_JVM:
            self.close()
            self._process = self._start()
            self._calls = 0
        self._calls += 1
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write("\t".join(arguments).encode() + b"\n")
        requests.flush()
        head = answers.readline().split()
        if not head:
            raise RuntimeError(f"the JVM died on {arguments}")
        status, out_size, error_size = map(int, head[:3])
        failure = head[3].decode()
        out, error = answers.read(out_size), _LOG4J.sub(b"", answers.read(error_size))
        return Outcome(out, error, status, None if failure == "-" else failure)

    def close(self) -> None:
        """End the JVM."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
