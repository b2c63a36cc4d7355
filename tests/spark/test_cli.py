"""``--engine spark`` at the command line: output and status of ``--engine local``, the choice said on stderr."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.cli import engine
from kdump.cli.main import cli
from tests.harness.captures import FIXTURES, Captures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEGMENTS = str(FIXTURES / "segments")
ENGINE = b"kdump: engine: spark, local[*] (--engine spark)\n"

Run = Callable[..., tuple[bytes, bytes, int]]


@pytest.fixture
def run(spark: SparkSession, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command in this process, whose session is taken: output, stderr without Spark's own lines, status."""

    def run(*arguments: str) -> tuple[bytes, bytes, int]:
        capfdbinary.readouterr()
        status = cli.main(list(arguments), prog_name="kdump", standalone_mode=False)
        out, errors = capfdbinary.readouterr()
        # Errors of the paths come before those of the files in them where Spark does the work.
        return (
            out,
            b"".join(sorted(line for line in errors.splitlines(True) if line.startswith(b"kdump:"))),
            status or 0,
        )

    return run


def with_engine(errors: bytes) -> bytes:
    return b"".join(sorted([*errors.splitlines(True), ENGINE]))


DUMPS = [
    ("--output", "jsonl"),
    ("--output", "csv", "--records", "--resync"),
    ("--output", "jsonl", "--deep-iteration", "--offset", "2:9", "--isolation", "read_committed"),
    ("--output", "jsonl", "--records", "--key", "k", "--redact-key", "secret", "--fields", "offset,key"),
    ("--format", r"%t %o %k\n"),
]


@pytest.mark.parametrize("options", DUMPS, ids=" ".join)
def test_dump(run: Run, options: tuple[str, ...]) -> None:
    paths = (SEGMENTS, "/no/such/place")
    out, errors, status = run("dump", "--engine", "local", *options, *paths)
    assert (run("dump", "--engine", "spark", *options, *paths)) == (out, with_engine(errors), status)
    assert out
    assert status == 3


def test_relative_paths(run: Run, captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(captures.root)
    for command in (("dump", "--output", "jsonl"), ("verify", "--output", "jsonl")):
        out, errors, status = run(*command, "--engine", "local", "1.1.1", "damaged")
        assert run(*command, "--engine", "spark", "1.1.1", "damaged") == (out, with_engine(errors), status)


@pytest.mark.parametrize("options", [(), ("--quick", "--output", "junit")], ids=" ".join)
def test_verify(run: Run, options: tuple[str, ...]) -> None:
    out, errors, status = run("verify", "--engine", "local", *options, SEGMENTS)
    spark_out, spark_errors, spark_status = run("verify", "--engine", "spark", *options, SEGMENTS)
    assert sorted(spark_out.splitlines()) == sorted(out.splitlines())
    assert (spark_errors, spark_status) == (with_engine(errors), status)


@pytest.mark.parametrize("by", ["segment", "producer", "key"])
def test_stats(run: Run, captures: Captures, tmp_path: Path, by: str) -> None:
    """Equal lines in the same order: directories, damage, an empty segment, one named twice, what is not there."""
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / f"{0:020}.log").write_bytes(b"")
    paths = (SEGMENTS, str(captures.root / "3.9.1" / "v2-txn-0"), SEGMENTS, str(tmp_path), "/no/such/place")
    for options in ((),) if by == "key" else ((), ("--quick",)):
        words = ("stats", "--by", by, "--output", "jsonl", *options)
        out, errors, status = run(*words, "--engine", "local", *paths)
        assert run(*words, "--engine", "spark", *paths) == (out, with_engine(errors), status)
        assert out
        assert status == 3


def test_many_bytes_choose_spark(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LEAST_FOR_POOL", 0)
    monkeypatch.setattr(engine, "LEAST_FOR_SPARK", 1 << 20)
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(bytes(1 << 10))
    assert run("verify", "--quick", str(tmp_path))[1] == b""
    (partition / f"{1:020}.log").write_bytes(bytes(1 << 20))
    assert run("verify", "--quick", str(tmp_path))[1] == b"kdump: engine: spark, local[*] (1 MiB of logs or more)\n"
    assert run("verify", "--quick", "--engine", "local", str(tmp_path))[1] == b""


def test_an_interrupt_while_java_starts(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is left of it, and nothing said. This ``java`` tells when it begins, and waits a little."""
    home, begun = tmp_path / "home", tmp_path / "begun"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    wait = f'case "$*" in *launcher.Main*) ;; *) echo $$ > {begun}.new; mv {begun}.new {begun}; sleep 1;; esac'
    java.write_text(f'#!/bin/sh\n{wait}\nexec {shutil.which("java")} "$@"\n')
    java.chmod(0o755)
    command = [sys.executable, "-m", "kdump", "verify", "--master", "local[1]", SEGMENTS]
    environment = {**os.environ, "JAVA_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not begun.exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        # Java has the other ends too: this waits for it as well.
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert not {b"Traceback", b"Exception"} & set(errors.replace(b":", b" ").split()), errors
