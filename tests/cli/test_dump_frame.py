"""Saved requests and responses of a Kafka 0.7 broker."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from tests.harness.archives import case_files
from tests.harness.cli_runs import CLEAN, DAMAGE, KDUMP, UNREADABLE, kdump

NAME = "kafka07"
WIRE = {path.removeprefix(f"{NAME}/wire/"): data for path, data in case_files(NAME).items() if "/wire/" in path}
BY_CLIENT = [json.loads(line) for line in WIRE["iteration-by-real-client.jsonl"].decode().splitlines()]
CAPTURES = sorted(name.removesuffix(".json") for name in WIRE if name.endswith(".json"))
FETCHES = [name for name in CAPTURES if name.endswith("-real-fetch")]


def rows_of(kind: str, *files: str, cwd: Path) -> tuple[list[dict[str, Any]], int, str]:
    """The rows of a dump with all records, the exit status, standard error."""
    for file in files:
        (cwd / file).write_bytes(WIRE[file])
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


@pytest.mark.parametrize("kind", ["nothing", "fetch:1"])
def test_unknown_kinds(kind: str, tmp_path: Path) -> None:
    assert kdump("dump", "--frame", kind, "x.bin", cwd=tmp_path).returncode == 2


@pytest.mark.slow
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
