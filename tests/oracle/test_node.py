"""What stops a node before its partitions: quorum-state against the real class.

Whole fields are taken away or changed, and single bytes are damaged.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kdump.kafka.startup.node import check_quorum_state
from kdump.kafka.startup.outcome import StartFailureError
from tests.oracle.toolchain import DUMP_RELEASE, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

FILES = 1500
_ID = "Mz9MvD4GQBWf0fc1V7Wm0Q"
_TODAY = {"leaderId": 1, "leaderEpoch": 5, "votedId": -1, "votedDirectoryId": _ID, "data_version": 1}
_BEFORE = {
    "clusterId": "",
    "leaderId": 1,
    "leaderEpoch": 5,
    "votedId": -1,
    "appliedOffset": 0,
    "currentVoters": [{"voterId": 1}, {"voterId": 2}],
    "data_version": 0,
}
_VALUES: list[Any] = [0, -1, 2**31 - 1, 2**31, 2**40, 2**63, 1.5, "", "1", _ID, _ID[:-1], None, True, [], [{}], {}]


@pytest.fixture
def command() -> list[str]:
    try:
        return java_command(DUMP_RELEASE, "NodeFiles")
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def test_quorum_states(command: list[str], seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    contents = [_content(random) for _ in range(FILES)]
    paths = [tmp_path / str(number) for number in range(FILES)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    done = subprocess.run(
        command, check=False, input="".join(f"{path}\n" for path in paths), capture_output=True, text=True
    )
    answers = done.stdout.split()
    assert len(answers) == FILES, done.stderr
    found = [_answer(content) for content in contents]
    assert {"-", "java.io.UncheckedIOException", "java.lang.RuntimeException"} <= set(answers)
    differing = [each for each in zip(contents, answers, found, strict=True) if each[1] != each[2]]
    assert differing == []


def _content(random: Random) -> bytes:
    members: dict[str, Any] = dict(random.choice((_TODAY, _BEFORE)))
    kind = random.random()
    if kind < 0.3:
        members[random.choice(list(members))] = random.choice(_VALUES)
    elif kind < 0.5:
        del members[random.choice(list(members))]
    data = json.dumps(members, separators=random.choice(((",", ":"), (", ", ": ")))).encode()
    if kind > 0.95:
        return random.choice(
            (b"", b"\n", b"null", b"[]", data + b"\nrest", data + b"}", b" " + data, b"\n" + data, bytes(90))
        )
    if kind > 0.7:
        position = random.randrange(len(data))
        flipped = bytes([data[position] ^ 1 << random.randrange(8)])
        return random.choice((data[:position], data[:position] + flipped + data[position + 1 :]))
    return data


def _answer(content: bytes) -> str:
    try:
        check_quorum_state(content)
    except StartFailureError as error:
        return error.java_class
    return "-"
