"""``kdump serve``: the process."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from kdump import testing
from tests.harness.cli_runs import KDUMP, kdump
from tests.harness.kafkaclient import KafkaClient, consume

SECONDS = 60


def test_until_an_interrupt(tmp_path: Path) -> None:
    testing.write_segment(tmp_path / "orders-0", [{"value": str(n)} for n in range(3)])
    ready = tmp_path / "ready"
    before = {path: path.read_bytes() for path in (tmp_path / "orders-0").iterdir()}
    words = ["serve", "orders-0", "--listen", "127.0.0.1:0", "--ready-file", "ready"]
    with subprocess.Popen([*KDUMP, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + SECONDS
        while not ready.exists() and time.monotonic() < end:
            time.sleep(0.05)
        address = ready.read_text().strip()
        with KafkaClient(address) as client:
            values = [record.value for record in consume(client, "orders", 0, 0, 3, committed=False)]
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(SECONDS) == 130
        finally:
            process.kill()
        assert process.stderr is not None
        assert process.stderr.read() == f"kdump: 1 partitions of 1 topics on {address}; Ctrl-C ends it\n"
    assert values == [b"0", b"1", b"2"]
    assert {path: path.read_bytes() for path in (tmp_path / "orders-0").iterdir()} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--listen", "0.0.0.0:0"], "others can reach that address"),
        (["--listen", "0.0.0.0:0", "--sasl", "a:b"], "others can reach that address"),
        (["--listen", "0.0.0.0:0", "--tls-cert", "c", "--tls-key", "k"], "others can reach that address"),
        (["--listen", "9092"], "is not HOST:PORT"),
        (["--tls-cert", "c"], "--tls-cert goes with --tls-key"),
        (["--until", "0", "--until-offset", "t-0=1"], "--until does not go with --until-offset"),
        (["--until-offset", "t=1"], "is not TOPIC-N=OFFSET"),
    ],
)
def test_usage_errors(tmp_path: Path, words: list[str], message: str) -> None:
    run = kdump("serve", ".", *words, cwd=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr.decode()


@pytest.mark.parametrize(
    "words",
    [["missing"], ["empty"], ["t-0", "--sasl", "a:missing"], ["t-0", "--tls-cert", "missing", "--tls-key", "missing"]],
)
def test_what_cannot_be_served(tmp_path: Path, words: list[str]) -> None:
    testing.write_segment(tmp_path / "t-0", [{"value": "v"}])
    (tmp_path / "empty").mkdir()
    run = kdump("serve", *words, "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert run.returncode == 3
    assert len(run.stderr.decode().splitlines()) == 1


def test_a_report_takes_no_place_of_evidence(tmp_path: Path) -> None:
    log = testing.write_segment(tmp_path / "t-0", [{"value": "v"}])
    before = log.read_bytes()
    run = kdump("serve", "t-0", "--listen", "127.0.0.1:0", "--report", str(log), cwd=tmp_path)
    assert run.returncode == 3
    assert log.read_bytes() == before
