"""docs/spec/broker-log.toml: every line is one of Kafka's, and the log loader writes it in the case that is named."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import kdump
from kdump.releases import RELEASES
from tests.harness.archives import cases, unpack_cases
from tests.harness.startcases import NOW
from tests.oracle.toolchain import DUMP_RELEASE, MODELLED, ToolchainMissingError, jars, java_command
from website.findings import Logged, broker_log, pattern, pieces

pytestmark = pytest.mark.oracle

_SEEN = {one.case for known in broker_log().values() for one in known.logged if one.case is not None}
_LOGGER = re.compile(r"^\[.*?\] (INFO|WARN|ERROR) \S+ - ", re.MULTILINE)
_PREFIX = re.compile(
    r"^(?:INFO|WARN|ERROR) |^[a-z]+(?:\.\w+)+: |^\[(?:LogLoader|ProducerStateManager|UnifiedLog|ReplicaManager)[^]]*\] "
)
"""What loggers and exceptions put in front of a text."""
_LONG = 8
"""Shorter pieces may come from values that Kafka puts into a text."""


def _is_of_release(logged: Logged) -> bool:
    """The release that the tests compare with logs so."""
    order = list(RELEASES)
    first, last = logged.since or order[0], logged.until or order[-1]
    return order.index(first) <= order.index(MODELLED.name) <= order.index(last)


def class_strings(data: bytes) -> Iterator[str]:
    """The strings in the constant pool of a class."""
    sizes = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
    at, number = 10, 1
    while number < struct.unpack(">H", data[8:10])[0]:
        tag = data[at]
        if tag == 1:
            size = struct.unpack(">H", data[at + 1 : at + 3])[0]
            yield data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            at += 1 + sizes[tag]
        number += 2 if tag in (5, 6) else 1


@pytest.fixture(scope="module")
def texts() -> str:
    """All strings of Kafka's classes that have a blank."""
    try:
        folder = jars(DUMP_RELEASE)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    found: set[str] = set()
    for path in folder.glob("kafka*.jar"):
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if name.endswith(".class"):
                    found.update(text for text in class_strings(jar.read(name)) if " " in text)
    return "\n".join(re.sub(r"\{\}|%[sd]|[\x01\x02]", "\x01", text) for text in found)


def test_every_line_is_one_of_kafka(texts: str) -> None:
    wrong = []
    for code, known in broker_log().items():
        # What was seen needs no search, and may be put together of several texts.
        for line in (line for one in known.logged if one.case is None for line in one.lines):
            text = line
            while _PREFIX.match(text):
                text = _PREFIX.sub("", text, count=1)
            parts = (part.strip(" .[]") for piece in pieces(text) for part in re.split(r"\d+", piece))
            missing = [part for part in parts if len(part) >= _LONG and part not in texts]
            if missing:
                wrong.append(f"{code}: {missing}")
    assert wrong == []


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """For each case that is named: its directory, and what the real log loader logs and throws."""
    root = unpack_cases("startup", tmp_path_factory.mktemp("cases"))
    named = [case for case in cases(root) if case["id"] in _SEEN]
    options = ("-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dorg.slf4j.simpleLogger.logFile=System.out")
    try:
        command = java_command(DUMP_RELEASE, "LogStart", options=options)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    requests = []
    for case in named:
        given = case["params"]
        values = (str(given["clean"]).lower(), given["recovery_point"], given["log_start_offset"])
        fields = (root / case["dir"], *values, given["segment_index_bytes"], NOW)
        requests.append("\t".join(map(str, fields)) + "\n")
    work = tmp_path_factory.mktemp("work")
    done = subprocess.run([*command, str(work)], input="".join(requests), capture_output=True, text=True, check=False)
    found: dict[str, tuple[Path, str]] = {}
    lines: list[str] = []
    left = iter(named)
    for line in done.stdout.splitlines():
        if not line.startswith('{"'):
            lines.append(_LOGGER.sub(r"\1 ", line))
        else:
            # The answer ends what was logged; an exception that stops the start is in it.
            case = next(left)
            thrown = json.loads(line)["exception"]
            if thrown is not None:
                lines.append(f"{thrown['class']}: {thrown['message']}")
            found[case["id"]] = (root / case["dir"], "\n".join(lines))
            lines.clear()
    assert found.keys() == _SEEN, done.stderr[-2000:]
    return found


def test_the_log_loader_writes_the_lines(logs: dict[str, tuple[Path, str]]) -> None:
    wrong = []
    codes: dict[str, set[str]] = defaultdict(set)
    for code, known in broker_log().items():
        for one in known.logged:
            if one.case is None or not _is_of_release(one):
                continue
            directory, written = logs[one.case]
            wrong += [f"{code}: {one.case} has no {line}" for line in one.lines if not pattern(line).search(written)]
            codes[one.case].add(code)
    for case, expected in codes.items():
        directory, _ = logs[case]
        # The codes of a log directory are not those of a partition.
        found = {finding.code for finding in kdump.findings(str(directory))}
        wrong += [f"{case}: verify has no {code}" for code in sorted(expected - found) if not code.startswith("KD4")]
    assert wrong == []
