"""verify.sarif: documents that keep to SARIF 2.1.0, as far as kdump uses it."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import unquote_to_bytes, urlparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.verify.sarif import SarifReport
from kdump.verify.summary import SegmentSummary

LOG = "/logs/orders-0/00000000000000000000.log"
DAMAGE = Finding(Codes.BATCH_CRC, "the CRC is wrong", 7628, 1976, 62, 80, 81, LOG)
MISSING = Finding(Codes.INDEX_MISSING, "there is no X.index", 0, path="logs/orders-0/X.index")
NOTHING = dict.fromkeys(Severity, 0)

KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    # Of each object of the schema: the members that are required, and the kinds of those that kdump writes.
    "log": (("version", "runs"), {"$schema": "str", "version": "str", "runs": "[run]"}),
    "run": (
        ("tool",),
        {"tool": "tool", "invocations": "[invocation]", "artifacts": "[artifact]", "results": "[result]"},
    ),
    "tool": (("driver",), {"driver": "component"}),
    "component": (("name",), {"name": "str", "version": "str", "semanticVersion": "str", "rules": "[rule]"}),
    "rule": (
        ("id",),
        {
            "id": "str", "name": "str", "shortDescription": "text", "fullDescription": "text", "help": "text",
            "defaultConfiguration": "configuration",
        },
    ),
    "text": (("text",), {"text": "str"}),
    "configuration": ((), {"level": "level"}),
    "invocation": (
        ("executionSuccessful",),
        {"executionSuccessful": "bool", "toolExecutionNotifications": "[notification]"},
    ),
    "notification": (
        ("message",),
        {"level": "level", "message": "text", "associatedRule": "reference", "locations": "[location]"},
    ),
    "reference": (("id",), {"id": "str"}),
    "artifact": ((), {"location": "place", "roles": "[role]", "length": "int"}),
    "place": ((), {"uri": "uri"}),
    "result": (
        ("message",),
        {
            "ruleId": "str", "ruleIndex": "int", "level": "level", "message": "text", "locations": "[location]",
            "partialFingerprints": "bag", "properties": "bag",
        },
    ),
    "location": ((), {"physicalLocation": "physical"}),
    "physical": (("artifactLocation",), {"artifactLocation": "place", "region": "region"}),
    "region": (("startLine",), {"startLine": "int", "byteOffset": "int", "byteLength": "int"}),
}  # fmt: skip


def check(value: Any, kind: str) -> None:
    """Fails where a part of a document is not what the schema asks for."""
    if kind.startswith("["):
        assert isinstance(value, list)
        for item in value:
            check(item, kind[1:-1])
    elif kind in KINDS:
        required, members = KINDS[kind]
        assert set(required) <= value.keys() <= members.keys(), kind
        for name, member in value.items():
            check(member, members[name])
    elif kind == "level":
        assert value in ("none", "note", "warning", "error")
    elif kind == "role":
        assert value == "analysisTarget"
    elif kind == "uri":
        assert value.isascii()
        urlparse(value)
    elif kind == "int":
        assert type(value) is int
        assert value >= 0
    else:
        assert isinstance(value, {"str": str, "bool": bool, "bag": dict}[kind])


def document(report: SarifReport) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.document())
    check(found, "log")
    assert found["version"] == "2.1.0"
    (run,) = found["runs"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return dict(run)


def report(*findings: Finding) -> SarifReport:
    made = SarifReport()
    for finding in findings:
        made.add_finding(finding)
    return made


def test_results() -> None:
    run = document(report(DAMAGE, MISSING, DAMAGE))
    first, second, third = run["results"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["KD108", "KD306"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "error"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == f"file://{LOG}"
    assert place["region"] == {"startLine": 1, "byteOffset": 7628, "byteLength": 1976}
    assert first["properties"] == {"name": "batch-crc", "firstOffset": 62, "lastOffset": 80, "continueAt": 81}
    assert "the CRC is wrong; offsets 62..80 lost (at most)" in first["message"]["text"]
    assert second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "logs/orders-0/X.index"
    assert first["partialFingerprints"] == third["partialFingerprints"] != second["partialFingerprints"]
    rule = run["tool"]["driver"]["rules"][0]
    assert rule["help"]["text"].startswith(Codes.BATCH_CRC.value.manual)


def test_severities() -> None:
    graded = Finding(Codes.OFFSET_GAP, "gone", 0, path=LOG, graded=Severity.INFO)
    run = document(report(graded))
    assert run["results"][0]["level"] == "note"
    assert run["tool"]["driver"]["rules"][0]["defaultConfiguration"] == {"level": "warning"}


def test_clean_files_are_there_too() -> None:
    made = SarifReport()
    made.add_segment(SegmentSummary(LOG, 17, 1, 0, 0, NOTHING, None))
    made.add_segment(SegmentSummary(LOG, 17, 1, 0, 0, NOTHING, None))
    made.add_segment(SegmentSummary("-", None, 1, 0, 0, NOTHING, None))
    run = document(made)
    assert run["results"] == run["tool"]["driver"]["rules"] == []
    assert run["invocations"] == [{"executionSuccessful": True}]
    assert [artifact.get("length") for artifact in run["artifacts"]] == [17, None]


def test_paths_that_cannot_be_read() -> None:
    made = report(DAMAGE)
    made.add_error(KdumpError(Codes.MISSING, "no such file or directory", path="gone"))
    made.add_error(KdumpError(Codes.NO_SEGMENTS, "no partition is of such a topic"))
    (invocation,) = document(made)["invocations"]
    first, second = invocation["toolExecutionNotifications"]
    assert invocation["executionSuccessful"] is False
    assert first["associatedRule"] == {"id": "KD001"}
    assert first["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "gone"}}
    assert "locations" not in second


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b/ü%#?.log", "a%20b/%C3%BC%25%23%3F.log"),
        ("a:b.log", "a%3Ab.log"),
        ("/x/0.log", "file:///x/0.log"),
        ("s3://bucket/a%20b/0.log", "s3://bucket/a%20b/0.log"),
        (os.fsdecode(b"\xff.log"), "%FF.log"),
    ],
)
def test_uris(path: str, uri: str) -> None:
    run = document(report(Finding(Codes.PAYLOAD, "", 0, path=path)))
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


@given(st.binary(min_size=1).map(os.fsdecode), st.text())
def test_any_name_and_any_message(path: str, message: str) -> None:
    made = report(Finding(Codes.PAYLOAD, message, 5, path=path))
    made.add_segment(SegmentSummary(path, 1, 1, 0, 0, NOTHING, None))
    made.add_error(KdumpError(Codes.MISSING, message, path=path))
    assert made.document().decode().replace("\n", "").isprintable()
    uri = document(made)["artifacts"][0]["location"]["uri"]
    if "://" not in path:
        assert unquote_to_bytes(uri.removeprefix("file://")) == os.fsencode(path)
