"""Partition directories with what a real broker start made of each (fixtures/cases, or the whole collection)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.releases import KAFKA_4_3, Release
from kdump.rows.scalarlines import plain
from kdump.verify.startcheck import StartCheck, check_start
from kdump.verify.startreport import startup_row

NOW = 1_700_003_600_000
"""The clock (ms) of all starts."""


def settings_of(params: dict[str, Any], now: int | None = NOW, release: Release = KAFKA_4_3) -> LoadSettings:
    """What the broker of a case knew; the recorded ones were of 4.3.1."""
    offsets = params["recovery_point"], params["log_start_offset"]
    return LoadSettings(params["clean"], *offsets, params["segment_index_bytes"], now, release=release)


def started(directory: Path, params: dict[str, Any], now: int | None = NOW, release: Release = KAFKA_4_3) -> StartCheck:
    """The model's answer for a directory."""
    return check_start(Directory.on_disk(str(directory)), settings_of(params, now, release), checksums=True)


def differences(check: StartCheck, expected: dict[str, Any]) -> list[str]:
    """In what the JSON line of an answer differs from what the broker did: empty when it is the same."""
    found = plain(startup_row(check))
    failure = expected["exception"]
    wanted: dict[str, Any] = {
        "outcome": failure["broker"] if failure else "starts",
        "exception": failure["class"] if failure else None,
        "files": {name: (state["size"], state["sha256"]) for name, state in expected["files"].items()},
    }
    found["files"] = {
        file["name"]: (file["size"], file["sha256"]) for file in found["files"] if file["size"] is not None
    }
    if not failure:
        wanted |= {
            "logStartOffset": expected["log_start_offset"],
            "recoveryPoint": expected["recovery_point"],
            "logEndOffset": expected["log_end_offset"],
            "segments": expected["segments"],
            "deletedLater": expected["deleted_later"],
        }
        served = check.start.served
        first_unstable = None if served is None else served.first_unstable_offset
        if first_unstable != expected["first_unstable_offset"]:
            return [f"first unstable offset: {first_unstable}, not {expected['first_unstable_offset']}"]
    return [f"{name}: {found[name]}, not {value}" for name, value in wanted.items() if found[name] != value]
