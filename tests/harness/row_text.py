"""The text of DumpLogSegments made from rows alone, by docs/spec/dump-output.md sections 4 and 5."""

from __future__ import annotations

import json

from kdump.wire.utf8 import decode_utf8
from tests.harness.plainoutput import bytes_of
from tests.harness.row_runs import Row

KRAFT_LABELS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


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
    key, value = bytes_of(row["key"]), bytes_of(row["value"])
    assert row["keySize"] == (-1 if key is None else len(key))
    assert row["valueSize"] == (-1 if value is None else len(value))
    if row["magic"] < 2:
        assert row["headers"] == []
        line += f"isValid: {word(row['isValid'])} crc: {row['crc']}"
    else:
        header_keys = ",".join(decode_utf8(bytes_of(key) or b"") for key, _ in row["headers"])
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
    if value is None and name in ("ABORT", "COMMIT", *KRAFT_LABELS):
        return ""  # Behind the end of the text: the Java tool stops at it.
    if name in ("ABORT", "COMMIT"):
        return f" endTxnMarker: {name} coordinatorEpoch: {value['coordinatorEpoch']}"
    if name in KRAFT_LABELS:
        return f" {KRAFT_LABELS[name]} {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
    return f" controlType: {name}"
