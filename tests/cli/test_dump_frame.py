"""Saved requests and responses: those of a Kafka 0.7 broker, and bodies that Kafka 4.3.1 wrote (fixtures/cases)."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from kdump.format.frame import KINDS, versions_of
from tests.harness.archives import case_files
from tests.harness.cli_runs import CLEAN, DAMAGE, KDUMP, UNREADABLE, kdump

NAME = "kafka07"
WIRE = {path.removeprefix(f"{NAME}/wire/"): data for path, data in case_files(NAME).items() if "/wire/" in path}
BODIES = {path.removeprefix(f"{NAME}/frames/"): data for path, data in case_files(NAME).items() if "/frames/" in path}
BY_CLIENT = [json.loads(line) for line in WIRE["iteration-by-real-client.jsonl"].decode().splitlines()]
CAPTURES = sorted(name.removesuffix(".json") for name in WIRE if name.endswith(".json"))
FETCHES = [name for name in CAPTURES if name.endswith("-real-fetch")]
VERSIONS = [(kind, version) for kind in KINDS for version in versions_of(kind)]
SAME = {
    "fetch-response": [[4], [5, 6], [7, 8, 9, 10], [11], [12], [13, 14, 15, 16, 17, 18], [16, 17, 18]],
    "produce-request": [[3, 4, 5, 6, 7, 8], [9, 10, 11, 12], [13]],
}
"""Versions that read the same body to its last byte."""


def rows_of(kind: str, *files: str, cwd: Path) -> tuple[list[dict[str, Any]], int, str]:
    """The rows of a dump with all records, the exit status, standard error."""
    for file in files:
        (cwd / file).write_bytes(WIRE[file] if file in WIRE else BODIES[file])
    got = kdump("dump", "--frame", kind, "--output", "jsonl", "--records", *files, cwd=cwd)
    rows = [json.loads(line) for line in got.stdout.decode().split("\n") if line]
    return rows, got.returncode, got.stderr.decode()


@pytest.mark.parametrize("name", CAPTURES)
def test_what_a_frame_of_07_says(name: str, tmp_path: Path) -> None:
    told = json.loads(WIRE[f"{name}.json"])
    request = told["request"]
    if request["name"] not in ("fetch", "multifetch", "produce", "multiproduce", "offsets"):
        return
    rows, status, _ = rows_of(request["name"], f"{name}.request.bin", cwd=tmp_path)
    frames = [row for row in rows if row["type"] == "frame"]
    assert all(row["isRequest"] for row in frames)
    for row, part in zip(frames, request.get("fetches", request.get("produces", [request])), strict=True):
        assert (row["topic"], row["partition"]) == (part["topic"], part["partition"])
        assert row["offset"] == part.get("offset")
        assert row["size"] == part.get("messageSetBytes")
        for field in ("maxSize", "time"):
            assert row["fields"].get(field) == part.get(field)
    if told["responseFile"] is not None:
        rows, status, _ = rows_of(request["name"], told["responseFile"], cwd=tmp_path)
        answers = [row for row in rows if row["type"] == "frame"]
        assert not any(row["isRequest"] for row in answers)
        assert answers[0]["errorCode"] == told["responseErrorCode"]
        assert len(answers) == len(frames)
    assert status == 0


@pytest.mark.parametrize("name", FETCHES)
def test_messages_of_a_fetch_are_those_of_the_real_client(name: str, tmp_path: Path) -> None:
    asked = json.loads(WIRE[f"{name}.json"])["request"]
    keys = ("topic", "partition", "offset", "maxSize")
    result = next(
        one["result"] for one in BY_CLIENT if one["op"] == "fetch" and all(one[key] == asked[key] for key in keys)
    )
    rows, status, _ = rows_of("fetch", f"{name}.request.bin", f"{name}.response.bin", cwd=tmp_path)
    frame = next(row for row in rows if row["type"] == "frame" and not row["isRequest"])
    assert frame["errorCode"] == result["errorCode"]
    assert frame["size"] == result["sizeInBytes"] - 2
    if "validBytes" in result:
        assert frame["size"] - frame["partialSize"] == result["validBytes"]
    found = [(row["nextOffset"], row["isValid"], _digest(row["value"])) for row in rows if row["type"] == "record"]
    expected = [(one["offset"], one["valid"], one["payloadSha256"]) for one in result.get("messages", ())]
    assert found == expected
    assert status == 0


def _digest(value: object) -> str:
    data = b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("cut", [1, 3, 5, 9, 17])
def test_a_cut_frame_is_damage(cut: int, tmp_path: Path) -> None:
    data = WIRE["001-real-fetch.response.bin"]
    (tmp_path / "cut.bin").write_bytes(data[:-cut])
    got = kdump("dump", "--frame", "fetch", "cut.bin", cwd=tmp_path)
    assert got.returncode == 1
    assert b"a frame of" in got.stderr


def test_frames_lie_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "two.bin").write_bytes(WIRE["018-real-fetch.response.bin"] + WIRE["013-real-fetch.response.bin"])
    got = kdump("dump", "--frame", "fetch", "two.bin", cwd=tmp_path)
    assert got.stdout.decode().splitlines() == [
        "fetch response error: 0 (none) size: 0",
        "fetch response error: 1 (offset out of range) size: 0",
    ]


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_bodies_of_today(kind: str, version: int, tmp_path: Path) -> None:
    rows, status, _ = rows_of(f"{kind}:{version}", f"{kind}-{version}.bin", cwd=tmp_path)
    frame, *others = rows
    assert (status, frame["apiVersion"], frame["partition"]) == (0, version, 3)
    assert (frame["topic"] is None) is (frame["topicId"] is not None) is (version >= 13)
    records = [row for row in others if row["type"] == "record"]
    if kind == "fetch-response":
        assert [row["value"] for row in records] == ["one", "two"]
        assert [row["offset"] for row in records] == [41, 42]
        assert (frame["fields"]["highWatermark"], frame["fields"]["lastStableOffset"]) == (44, 43)
        assert [row["errorCode"] for row in rows if row["type"] == "frame"] == [0, 1]
    else:
        assert [row["value"] for row in records] == ["three"]
        assert frame["fields"] == {"transactionalId": "t", "acks": -1, "timeoutMs": 30000}
    assert {row["topic"] for row in rows} == ({"orders"} if version < 13 else {None})


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_the_only_version_that_reads_a_body_is_taken(kind: str, version: int, tmp_path: Path) -> None:
    file = f"{kind}-{version}.bin"
    rows, status, error = rows_of(kind, file, cwd=tmp_path)
    # Tagged fields that a version does not know are skipped: 13 reads what 18 wrote, where there are none.
    fitting = next(versions for versions in SAME[kind] if version in versions)
    if len(fitting) == 1:
        assert (status, rows[0]["apiVersion"]) == (0, version)
        assert f"{kind} of version {version}, the only one that reads the body" in error
    else:
        assert (status, rows) == (2, [])
        listed = error.partition("versions ")[2].partition(" of ")[0]
        assert str(version) in listed.split(", ")


def test_no_version_reads_it(tmp_path: Path) -> None:
    (tmp_path / "odd.bin").write_bytes(b"\xff" * 20)
    got = kdump("dump", "--frame", "fetch-response", "odd.bin", cwd=tmp_path)
    assert got.returncode == 2
    assert b"no version of fetch-response reads the body to its last byte" in got.stderr
    got = kdump("dump", "--frame", "fetch-response:4", "odd.bin", cwd=tmp_path)
    assert got.returncode == 1


def test_bytes_after_a_body_are_damage(tmp_path: Path) -> None:
    (tmp_path / "long.bin").write_bytes(BODIES["produce-request-9.bin"] + b"x")
    got = kdump("dump", "--frame", "produce-request:9", "long.bin", cwd=tmp_path)
    assert got.returncode == 1
    assert b"1 bytes are left after version 9" in got.stderr


@pytest.mark.parametrize("kind", ["nothing", "fetch:1", "fetch-response:3", "produce-request:x"])
def test_unknown_kinds(kind: str, tmp_path: Path) -> None:
    assert kdump("dump", "--frame", kind, "x.bin", cwd=tmp_path).returncode == 2


def test_an_array_of_millions_is_refused(tmp_path: Path) -> None:
    """Each element took a byte of the body and some hundred of memory."""
    (tmp_path / "body.bin").write_bytes(bytes(10) + b"\xff\xff\xff\x01" + b"\1\1\0" * 1_500_000)
    run = kdump("dump", "--frame", "fetch-response:12", "body.bin", cwd=tmp_path)
    assert run.returncode == 1
    assert b"its arrays have more than 131,072 elements, the most that kdump reads" in run.stderr


@pytest.mark.parametrize(("partitions", "status"), [(2, CLEAN), (3, DAMAGE)])
def test_all_arrays_of_a_body_count_together(partitions: int, status: int, tmp_path: Path) -> None:
    aborted = struct.pack(">i", 60_000) + struct.pack(">qq", 1, 2) * 60_000
    part = struct.pack(">ihqq", 0, 0, 5, 5) + aborted + struct.pack(">i", 0)
    topic = struct.pack(">h", 1) + b"t" + struct.pack(">i", partitions) + part * partitions
    (tmp_path / "body.bin").write_bytes(struct.pack(">ii", 0, 1) + topic)
    # The number of elements is that of one body, not of all bodies.
    run = kdump("dump", "--frame", "fetch-response:4", "body.bin", "body.bin", cwd=tmp_path)
    assert run.returncode == status
    assert run.stderr.count(b"more than 131,072 elements") == (2 if status else 0)


def test_responses_of_07_with_too_many_parts(tmp_path: Path) -> None:
    def frame(body: bytes) -> bytes:
        return struct.pack(">i", len(body)) + body

    answers = struct.pack(">ih", 2, 0)
    offsets = struct.pack(">q", 7)
    for kind, most, response in (
        ("multifetch", 32_767, lambda count: struct.pack(">h", 0) + answers * count),
        ("offsets", 131_072, lambda count: struct.pack(">hi", 0, count) + offsets * count),
    ):
        for count, status in ((most, CLEAN), (most + 1, DAMAGE)):
            (tmp_path / "body.bin").write_bytes(frame(response(count)))
            assert kdump("dump", "--frame", kind, "body.bin", cwd=tmp_path).returncode == status


def test_sizes_of_files_with_frames(tmp_path: Path) -> None:
    """A sparse one is refused before it is read, an endless stream after 128 MiB."""
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**31 - 1)
    with open("/dev/zero", "rb") as endless:
        for path in ("sparse", "-"):
            words = [*KDUMP, "dump", "--frame", "produce", path]
            run = subprocess.run(words, cwd=tmp_path, stdin=endless, capture_output=True, check=False)
            assert run.returncode == UNREADABLE
            assert b"more than 134,217,728 bytes" in run.stderr
