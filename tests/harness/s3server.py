"""A real S3-compatible server on loopback: VersityGW over a folder, whose sub-folders are the buckets.

``go install github.com/versity/versitygw/cmd/versitygw@latest`` makes the program; ``VERSITYGW`` names it, else it is
looked for on the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ACCESS_KEY = "AKIAKDUMPTEST"
SECRET_KEY = "s3cr3t/with+slash"
BUCKET = "tiered"

_LINE = re.compile(r"\| +(\d{3}) \| .* \| (GET|HEAD|PUT|POST|DELETE) \| (\S+) \| ", re.ASCII)


class ServerMissingError(Exception):
    """The server's program is not installed."""


class S3Server:
    """A running server; ``root`` is the folder of bucket ``tiered``."""

    def __init__(self, folder: Path, port: int) -> None:
        self.root = folder / BUCKET
        self.log = folder.with_suffix(".log")
        self._endpoint = f"127.0.0.1:{port}"

    def environment(self) -> dict[str, str]:
        """Variables that give a process the keys."""
        return {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def uri(self, path: str, *, keys: str = "") -> str:
        """Of a path in the bucket; ``keys`` (``user:password``) only where they are to be in it."""
        user = f"{keys}@" if keys else ""
        options = f"endpoint_override={self._endpoint}&scheme=http&region=us-east-1"
        return f"s3://{user}{BUCKET}/{path}?{options}"

    def requests(self) -> list[tuple[int, str, str]]:
        """(status, method, path) of all requests so far."""
        found = map(_LINE.search, self.log.read_text().splitlines())
        return [(int(match[1]), match[2], match[3]) for match in found if match]


@contextmanager
def running(folder: Path) -> Iterator[S3Server]:
    """Run a server over ``folder``.

    Raises:
        ServerMissingError: the program is not there.
    """
    program = os.environ.get("VERSITYGW") or shutil.which("versitygw")
    if program is None:
        raise ServerMissingError("no versitygw here (tests/harness/s3server.py says how it is installed)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = S3Server(folder, port)
    server.root.mkdir(parents=True)
    keys = ["--access", ACCESS_KEY, "--secret", SECRET_KEY]
    command = [program, *keys, "--port", f"127.0.0.1:{port}", "--health", "/health", "posix", "--nometa", str(folder)]
    with server.log.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait(f"http://127.0.0.1:{port}/health", process)
            yield server
        finally:
            process.terminate()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        try:
            urlopen(url, timeout=5).close()
        except (URLError, OSError):
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the S3 server does not start")
