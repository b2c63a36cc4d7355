"""Standard input, output and error of this process, replaced for a while."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread


@dataclass(slots=True)
class Caught:
    """What was written to standard output and standard error; known when ``caught()`` is left."""

    out: bytes = b""
    errors: bytes = b""


@contextmanager
def caught(stdin: bytes | None = None) -> Iterator[Caught]:
    """Catch both outputs; standard input is a pipe with ``stdin``, unless that is None."""
    result = Caught()
    targets = (1, 2) if stdin is None else (1, 2, 0)
    kept = [os.dup(target) for target in targets]
    files = [os.memfd_create("out"), os.memfd_create("err")]
    streams = sys.stdout, sys.stderr
    feeder = None
    try:
        for target, file in zip((1, 2), files, strict=True):
            os.dup2(file, target)
        if stdin is not None:
            feeder = _pipe_to_stdin(stdin)
        sys.stdout = open(1, "w", closefd=False, errors="surrogateescape")  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        yield result
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = streams
        for target, old in zip(targets, kept, strict=True):
            os.dup2(old, target)
            os.close(old)
        if feeder is not None:
            feeder.join()
        result.out, result.errors = map(_contents, files)
        for file in files:
            os.close(file)


def _pipe_to_stdin(data: bytes) -> Thread:
    """A thread feeds the pipe, which takes no more than 64 KiB at once."""
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    os.close(reader)

    def feed() -> None:
        try:
            with open(writer, "wb") as stream:
                stream.write(data)
        except BrokenPipeError:
            # The command has read what it wanted.
            pass

    feeder = Thread(target=feed)
    feeder.start()
    return feeder


def _contents(file: int) -> bytes:
    size = os.fstat(file).st_size
    return os.pread(file, size, 0)
