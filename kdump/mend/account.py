"""What came from where, and what is gone, as a manifest tells it."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from typing import Any

from kdump.mend.pieces import MendedLog, Piece


def account(path: str, log: MendedLog, *, sha256_before: str, sha256_after: str) -> dict[str, Any]:
    """One log: plain values for JSON.

    Args:
        path: where it was.
        log: what became of it.
        sha256_before: of all its bytes.
        sha256_after: of those of the mended log.
    """
    return {
        "path": path,
        "baseOffset": log.base_offset,
        "sha256Before": sha256_before,
        "sha256After": sha256_after,
        "size": log.size,
        "pieces": [_piece(piece) for piece in log.pieces],
        **{
            name: [_plain(asdict(item)) for item in getattr(log, name)]
            for name in ("dropped", "lost", "restored", "transactions")
        },
    }


def _piece(piece: Piece) -> dict[str, Any]:
    members = _plain(asdict(piece))
    members["data"] = piece.data.hex()
    members["patches"] = [[offset, data.hex()] for offset, data in piece.patches]
    return members


def _plain(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value.value if isinstance(value, Enum) else value for name, value in members.items()}
