"""Buckets and a log directory of real brokers, with the answers of the real software (fixtures/tiered)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT

TIERED = ROOT / "fixtures/tiered"
ANSWERS: dict[str, Any] = json.loads((TIERED / "answers.json").read_text())
ZSTD, LOGS = TIERED / "zstd/bucket", TIERED / "zstd/logs"
AES, LOCAL = TIERED / "aes/bucket", TIERED / "local/bucket"
KEY, OTHER_KEY = TIERED / "keys/a.priv.pem", TIERED / "keys/c.priv.pem"
needs_crypto = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("Crypto") is None, reason="encrypted objects need pycryptodome"
)


def rows_digest(lines: Iterable[str]) -> list[Any]:
    """How many records JSON lines have, and a digest of them, as answers.json has it of a real consumer's."""
    digest, count = hashlib.sha256(), 0
    for line in lines:
        row = json.loads(line)
        if not row["isControl"]:
            heads = [[name, _short(value)] for name, value in row["headers"]]
            shown = [row["offset"], row["timestamp"], _short(row["key"]), _short(row["value"]), heads]
            digest.update((json.dumps(shown) + "\n").encode())
            count += 1
    return [count, digest.hexdigest()]


def _short(value: Any) -> str | None:
    if value is None:
        return None
    data = base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest()[:32]


def damaged(bucket: Path, into: Path, operations: Iterable[list[Any]]) -> Path:
    """A copy of a bucket, changed by the operations of answers.json."""
    shutil.copytree(bucket, into)
    for kind, name, *rest in operations:
        path = into / name
        match kind:
            case "remove":
                path.unlink()
            case "truncate":
                os.truncate(path, rest[0])
            case "append":
                path.write_bytes(path.read_bytes() + bytes.fromhex(rest[0]))
            case "xor":
                data = bytearray(path.read_bytes())
                data[rest[0]] ^= rest[1]
                path.write_bytes(data)
            case "swap":
                other = into / rest[0]
                data_here, data_there = path.read_bytes(), other.read_bytes()
                path.write_bytes(data_there)
                other.write_bytes(data_here)
            case "copy":
                shutil.copy(path, into / rest[0])
    return into


def touched(operations: Iterable[list[Any]]) -> set[str]:
    """The ids of the segments whose objects the operations change."""
    names = [word for one in operations for word in one[1:3] if isinstance(word, str) and "/" in word]
    return {Path(name).name[21:].partition(".")[0] for name in names}
