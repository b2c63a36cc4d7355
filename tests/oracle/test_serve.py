"""kdump serve and Kafka's console consumer: it gets what it gets from a real broker of the same files."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import kdump
from tests.harness.archives import unpack_cases
from tests.oracle.toolchain import DUMP_RELEASE, java_command

pytestmark = pytest.mark.oracle

_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("serve", tmp_path_factory.mktemp("serve"))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("topic", ["k08-v0", "k010-v1-compact", "k11-compact-txn", "made-open-txn", "flip-txn"])
def test_the_console_consumer(answers: Path, topic: str, isolation: str) -> None:
    lines = (answers / "answers" / f"{topic}-0.{isolation}.jsonl").read_text().splitlines()
    wanted = [json.loads(line)["offset"] for line in lines]
    with kdump.serving(answers / "partitions" / f"{topic}-0") as address:
        words = ["--bootstrap-server", address, "--topic", topic, "--partition", "0", "--offset", "earliest"]
        words += ["--isolation-level", isolation, "--max-messages", str(len(wanted)), "--timeout-ms", "60000"]
        words += ["--formatter-property", "print.offset=true", "--formatter-property", "print.value=false"]
        run = subprocess.run(
            [*java_command(DUMP_RELEASE, _CONSUMER), *words], capture_output=True, text=True, timeout=300, check=True
        )
    assert [int(offset) for offset in re.findall(r"^Offset:(\d+)$", run.stdout, flags=re.MULTILINE)] == wanted
