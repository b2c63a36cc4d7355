"""What the session that kdump makes opens to other hosts and other users."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import ROOT
from tests.harness.captures import FIXTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOGGING = ROOT / "kdump/spark/log4j2.properties"

_LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp (Linux, include/net/tcp_states.h)."""


def _java_process(spark: SparkSession) -> int:
    """The process id of the Java process that runs the driver."""
    assert spark.sparkContext._jvm is not None
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def _listening_addresses(process: int) -> set[str]:
    """The addresses on which a process listens, as hexadecimal digits in the kernel's order of bytes."""
    sockets = {os.readlink(entry) for entry in Path(f"/proc/{process}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


@pytest.fixture(autouse=True)
def _only_where_it_can_be_seen(spark: SparkSession) -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("the kernel has no /proc/net/tcp")
    if not spark.sparkContext.master.startswith("local["):
        pytest.skip("the session has a cluster's master")


def test_ports_listen_on_loopback_only(spark: SparkSession) -> None:
    spark.range(10).repartition(2).count()
    addresses = _listening_addresses(_java_process(spark))
    assert addresses
    # 127.0.0.1, also as an IPv6 address, and ::1.
    assert addresses <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_ports_ask_for_a_secret_that_no_command_line_shows(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.authenticate") == "true"
    assert conf.get("spark.authenticate.secret") is None
    command_line = Path(f"/proc/{_java_process(spark)}/cmdline").read_bytes()
    assert b"spark.authenticate=true" in command_line
    assert b"secret" not in command_line


def test_local_directory_is_private(spark: SparkSession) -> None:
    directory = spark.sparkContext.getConf().get("spark.local.dir")
    assert directory is not None
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert os.listdir(directory)


def test_a_check_in_a_directory_that_others_write_to(tmp_path: Path) -> None:
    """No Python takes modules from there, and Spark leaves no files."""
    (tmp_path / "logs").mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for name in ("json", "shutil", "socket", "tempfile"):
        (tmp_path / "logs" / f"{name}.py").write_text("raise SystemExit(9)\n")
    script = tmp_path / "kdump"
    script.write_text("from kdump.__main__ import main\nmain()\n")
    words = ["verify", "--master", "local[1]", str(FIXTURES / "segments" / "v2-txn-0")]
    run = subprocess.run(
        [sys.executable, script, *words],
        cwd=tmp_path / "logs",
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    # Java ends a moment after kdump.
    deadline = time.monotonic() + 60
    while list(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(temporary.iterdir()) == []


def test_an_error_of_spark_is_printed_with_its_first_cause(spark: SparkSession) -> None:
    """Of a traceback of Python only the last line."""
    java = spark.sparkContext._jvm
    assert java is not None
    core = java.org.apache.logging.log4j.core
    pattern = re.search(r"^appender\.stderr\.layout\.pattern = (.*)$", LOGGING.read_text(), re.MULTILINE)
    assert pattern is not None
    layout = core.layout.PatternLayout.newBuilder().withPattern(pattern[1].replace("\\\\", "\\")).build()

    def printed(thrown: Any) -> str:
        message = java.org.apache.logging.log4j.message.SimpleMessage("lost task 1")
        event = core.impl.Log4jLogEvent.newBuilder().setMessage(message).setThrown(thrown).build()
        return str(layout.toSerializable(event))

    inner = java.java.io.IOException("no route to host")
    assert printed(None) == "spark: lost task 1\n"
    assert printed(java.java.lang.RuntimeException("failed", inner)) == (
        "spark: lost task 1\njava.io.IOException: no route to host\n"
    )
    shown = printed(java.java.lang.RuntimeException("Traceback (most recent call last):\n  File 1\nValueError: 7\n"))
    assert shown.rstrip() == "spark: lost task 1\njava.lang.RuntimeException: ValueError: 7"
