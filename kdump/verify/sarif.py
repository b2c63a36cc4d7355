"""Findings as SARIF 2.1.0, which code scanning services read (docs.oasis-open.org/sarif)."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from kdump import __version__
from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.log.names import is_uri
from kdump.verify.summary import SegmentSummary

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


class SarifReport:
    """One run of the tool: the files that were read, the rules that were broken, and a result for each finding."""

    def __init__(self) -> None:
        self._rules: dict[Codes, int] = {}
        self._results: list[dict[str, Any]] = []
        self._artifacts: dict[str, dict[str, Any]] = {}
        self._notifications: list[dict[str, Any]] = []

    def add_finding(self, finding: Finding) -> None:
        """Add a result."""
        code = finding.code.value
        offsets = {"firstOffset": finding.first_offset, "lastOffset": finding.last_offset}
        named = {"name": code.name, **offsets, "continueAt": finding.continue_at}
        place = (code.code, finding.path, finding.position, finding.message)
        self._results.append(
            {
                "ruleId": code.code,
                "ruleIndex": self._rules.setdefault(finding.code, len(self._rules)),
                "level": _LEVELS[finding.severity],
                "message": {"text": _text(str(finding))},
                "locations": [_location(finding.path or "", finding.position, finding.length)],
                "partialFingerprints": {"kdumpFinding/v1": sha256(ascii(place).encode()).hexdigest()},
                "properties": {name: value for name, value in named.items() if value is not None},
            }
        )

    def add_segment(self, summary: SegmentSummary) -> None:
        """Add a file that was read, with findings or without."""
        uri = _uri(summary.path)
        artifact: dict[str, Any] = {"location": {"uri": uri}, "roles": ["analysisTarget"]}
        # Each is there once, however often its path was given.
        self._artifacts[uri] = artifact if summary.size is None else artifact | {"length": summary.size}

    def add_error(self, error: KdumpError) -> None:
        """Add a PATH that cannot be read."""
        notification = {
            "level": "error",
            "message": {"text": _text(error.message)},
            "associatedRule": {"id": error.code.value.code},
        }
        where = {} if error.path is None else {"locations": [_location(error.path, error.position, None)]}
        self._notifications.append(notification | where)

    def document(self) -> bytes:
        """The whole document."""
        driver = {
            "name": "kdump",
            "version": __version__,
            "semanticVersion": __version__,
            "rules": [_rule(code) for code in self._rules],
        }
        invocation: dict[str, Any] = {"executionSuccessful": not self._notifications}
        if self._notifications:
            invocation["toolExecutionNotifications"] = self._notifications
        run = {
            "tool": {"driver": driver},
            "invocations": [invocation],
            "artifacts": list(self._artifacts.values()),
            "results": self._results,
        }
        document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
        return (json.dumps(document, indent=1) + "\n").encode()


def _rule(code: Codes) -> dict[str, Any]:
    known = code.value
    manual = known.manual or known.title
    return {
        "id": known.code,
        "name": known.name,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": manual},
        "help": {"text": f"{manual} See kdump man verify, {known.code}."},
        "defaultConfiguration": {"level": _LEVELS[known.severity]},
    }


def _location(path: str, position: int | None, length: int | None) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(path)}}
    if position is not None:
        # A binary file has no lines, but GitHub takes no region without one.
        place["region"] = {"startLine": 1, "byteOffset": max(position, 0)}
        if length is not None:
            place["region"]["byteLength"] = length
    return {"physicalLocation": place}


def _uri(path: str) -> str:
    """A path as a URI; of a relative path a relative one."""
    if is_uri(path):
        return path
    name = quote(os.fsencode(path))
    return f"file://{name}" if PurePosixPath(path).is_absolute() else name


def _text(text: str) -> str:
    """Without what UTF-8 cannot represent."""
    return text.encode("utf-8", "replace").decode()
