"""The rows of ``--output jsonl`` hold what the real tool's ``--print-data-log`` holds, for every capture.

The text is made anew from nothing but the rows, by the templates of shared/spec/dump-output.md sections 4 and 5, and
compared with the recorded text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from row_runs import BOTH_PATHS, Row, batches, records, stored

from kdump.scan.view import DecodePath
from kdump.wire.utf8 import decode_utf8
from tests.harness.captures import Captures, partition_names

KRAFT_LABELS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}
KRAFT_LINE = re.compile(r"(\| offset: .* headerKeys: \[\] (?:%s)) (\{.*\})" % "|".join(KRAFT_LABELS.values()))


def word(value: bool) -> str:
    return "true" if value else "false"


def batch_line(row: Row) -> str:
    timestamp = -1 if row["magic"] == 0 else row["maxTimestamp"]
    end = f"size: {row['size']} magic: {row['magic']} compresscodec: {row['compression']} crc: {row['crc']} "
    end += f"isvalid: {word(row['isValid'])}"
    if row["baseOffset"] is None:
        return f"offset: {row['lastOffset']} position: {row['position']} {row['timestampType']}: {timestamp} {end}"
    horizon = row["deleteHorizonMs"]
    return (
        f"baseOffset: {row['baseOffset']} lastOffset: {row['lastOffset']} count: {row['count']} "
        f"baseSequence: {row['baseSequence']} lastSequence: {row['lastSequence']} "
        f"producerId: {row['producerId']} producerEpoch: {row['producerEpoch']} "
        f"partitionLeaderEpoch: {row['partitionLeaderEpoch']} isTransactional: {word(row['isTransactional'])} "
        f"isControl: {word(row['isControl'])} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {row['position']} {row['timestampType']}: {timestamp} {end}"
    )


def record_line(row: Row) -> str:
    timestamp = -1 if row["magic"] == 0 else row["timestamp"]
    line = f"| offset: {row['offset']} {row['timestampType']}: {timestamp} "
    line += f"keySize: {row['keySize']} valueSize: {row['valueSize']} "
    key, value = stored(row["key"]), stored(row["value"])
    assert row["keySize"] == (-1 if key is None else len(key))
    assert row["valueSize"] == (-1 if value is None else len(value))
    if row["magic"] < 2:
        assert row["headers"] == []
        line += f"isValid: {word(row['isValid'])} crc: {row['crc']}"
    else:
        header_keys = ",".join(decode_utf8(stored(key) or b"") for key, _ in row["headers"])
        line += f"sequence: {row['sequence']} headerKeys: [{header_keys}]"
        if row["isControl"]:
            return line + control(row)
    return (
        line
        + ("" if key is None else f" key: {decode_utf8(key)}")
        + ("" if value is None else f" payload: {decode_utf8(value)}")
    )


def control(row: Row) -> str:
    name, value = row["controlType"], row["control"]
    if name in ("ABORT", "COMMIT"):
        return f" endTxnMarker: {name} coordinatorEpoch: {value['coordinatorEpoch']}"
    if name in KRAFT_LABELS:
        return f" {KRAFT_LABELS[name]} {json.dumps(value)}"
    return f" controlType: {name}"


def text_of(path: Path, decode_path: DecodePath) -> Iterator[str]:
    """The lines of the batches and, below each, those of its records."""
    below = {
        position: list(rows)
        for position, rows in groupby(records(path, path=decode_path), key=lambda row: row["position"])
    }
    for row in batches(path, path=decode_path):
        yield batch_line(row)
        yield from map(record_line, below.pop(row["position"], ()))
    assert not below, "records without a batch"


def comparable(text: str) -> list[str]:
    """Lines; the JSON of KRaft control records in any order of members, which the rows hold for one version only."""
    lines = []
    for line in text.splitlines(keepends=True):
        match = KRAFT_LINE.match(line)
        lines.append(f"{match[1]} {json.dumps(json.loads(match[2]), sort_keys=True)}\n" if match else line)
    return lines


@pytest.mark.parametrize("path", BOTH_PATHS, ids=lambda path: path.name.lower())
@pytest.mark.parametrize("partition", partition_names())
def test_rows_hold_what_the_text_holds(captures: Captures, partition: str, path: DecodePath) -> None:
    compared = 0
    for golden in captures.goldens(partition):
        if golden.flags.name != "print" or not golden.files[0].endswith((".log", ".checkpoint")):
            continue
        outcome = golden.outcome()
        lines = comparable(outcome.whole_lines.decode("utf-8", "surrogateescape"))
        lines = [
            line
            for line in lines
            if not line.startswith(("Dumping ", "Log starting offset: ", "Snapshot end offset: ", "KRaft boot"))
        ]
        if lines and lines[-1].startswith("Found "):
            lines.pop()
        ours = comparable("".join(f"{line}\n" for line in text_of(golden.directory / golden.files[0], path)))
        # Where the Java tool aborts the view of batches, which decodes nothing, goes on.
        assert ours[: len(lines)] == lines if outcome.status else ours == lines
        compared += 1

    if not compared:
        pytest.skip("no recorded text")
