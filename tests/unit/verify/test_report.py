"""verify.report: a line, a JSON row, and JUnit XML as those who read it expect it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.kafka.failures import FailureKind
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import Recovery, RecoveryFailure, RecoveryOutcome
from kdump.rows import filetables
from kdump.verify.report import JUnitReport, finding_json, finding_line, github_error, github_line, summary_line
from kdump.verify.summary import SegmentSummary

LOG = "/logs/orders-0/00000000000000000000.log"
HOLE = Finding(Codes.BATCH_CRC, "the CRC is wrong", 7628, 1976, 62, 80, 81, LOG)
MISSING = Finding(Codes.INDEX_MISSING, "there is no X.index", 0, path="/logs/orders-0/X.index")
LEFTOVER = Finding(Codes.LEFTOVER, "a leftover (.swap)", 0, path=LOG)
ERRORS = frozenset({Severity.ERROR})
NOTHING = dict.fromkeys(Severity, 0)
EVERY_BYTE = os.fsdecode(bytes(range(1, 256)))

# --- Text ---


def test_line() -> None:
    assert finding_line(HOLE, color=False) == (
        f"{LOG}: error KD108 batch-crc at 7628 (1,976 bytes): the CRC is wrong; "
        "offsets 62..80 lost (at most); next readable offset 81\n"
    )
    assert finding_line(MISSING, color=False) == (
        "/logs/orders-0/X.index: warning KD306 index-missing at 0: there is no X.index\n"
    )


def test_line_with_an_open_end() -> None:
    line = finding_line(Finding(Codes.ZERO_TAIL, "zeros", 9, 20, 62, None, None, LOG), color=False)
    assert line == f"{LOG}: error KD109 zero-tail at 9 (20 bytes): zeros; offsets from 62 on lost (at most)\n"


def test_severity_of_the_finding_itself() -> None:
    graded = Finding(Codes.TRUNCATED, "cut", 9, 20, path=LOG, graded=Severity.INFO)
    assert finding_line(graded, color=False).startswith(f"{LOG}: info KD105 truncated at 9")
    assert json.loads(finding_json(graded))["severity"] == "info"


@pytest.mark.parametrize("finding", [HOLE, MISSING, LEFTOVER], ids=["error", "warning", "info"])
def test_colors_change_nothing_else(finding: Finding) -> None:
    colored = finding_line(finding, color=True)
    start, _, rest = colored.partition("\x1b[")
    style, _, rest = rest.partition("m")
    word, _, rest = rest.partition("\x1b[0m")
    assert (word, style.isdigit()) == (finding.severity.value, True)
    assert start + word + rest == finding_line(finding, color=False)


def test_names_and_messages_do_not_drive_a_terminal() -> None:
    line = finding_line(Finding(Codes.PAYLOAD, EVERY_BYTE, 0, path=EVERY_BYTE), color=False)
    assert line.endswith("\n")
    assert line.removesuffix("\n").isprintable()
    summary = summary_line(SegmentSummary(EVERY_BYTE, 1, 1, 0, 0, NOTHING, None))
    assert summary.removesuffix("\n").isprintable()


def recovery(outcome: RecoveryOutcome, failure: RecoveryFailure | None = None) -> Recovery:
    return Recovery(outcome, 13553, 7628, 62, -1, [], ProducerStates(), failure=failure)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (recovery(RecoveryOutcome.TRUNCATED), "5,925 bytes are cut, the log ends at 7,628 before offset 62"),
        (recovery(RecoveryOutcome.UNCHANGED), "nothing is cut"),
        (
            recovery(RecoveryOutcome.FAILED, RecoveryFailure(FailureKind.OFFSET_OVERFLOW, "offset overflow")),
            "fails, offset overflow",
        ),
    ],
    ids=["cut", "unchanged", "failed"],
)
def test_summary_if_recovered(result: Recovery, text: str) -> None:
    counts = {**NOTHING, Severity.ERROR: 1, Severity.WARNING: 2}
    line = summary_line(SegmentSummary(LOG, 13553, 1007, 0, 112, counts, result))
    assert line == (f"{LOG}: 1,007 batches, 13,553 bytes, offsets 0..112: 1 error, 2 warnings; if recovered: {text}\n")


def test_summary_of_what_is_clean() -> None:
    assert summary_line(SegmentSummary(LOG, 0, 0, None, None, NOTHING, None)) == f"{LOG}: 0 batches, 0 bytes: clean\n"
    assert summary_line(SegmentSummary("-", None, 7, 0, 9, NOTHING, None)) == "-: 7 batches, offsets 0..9: clean\n"


# --- JSON lines ---


def test_json_keys() -> None:
    row = json.loads(finding_json(HOLE))
    assert tuple(row) == filetables.FINDING.names == (
        "type", "file", "topic", "partition", "code", "name", "severity", "position", "length", "firstOffset",
        "lastOffset", "continueAt", "message",
    )  # fmt: skip
    assert list(row.values()) == [
        "finding", LOG, "orders", 0, "KD108", "batch-crc", "error", 7628, 1976, 62, 80, 81, "the CRC is wrong",
    ]  # fmt: skip


def test_json_of_what_is_not_known() -> None:
    row = json.loads(finding_json(Finding(Codes.LEFTOVER, "left", 0, path="-")))
    assert (row["topic"], row["partition"], row["severity"]) == (None, None, "info")
    assert [row[name] for name in ("length", "firstOffset", "lastOffset", "continueAt")] == [None] * 4


@given(st.binary().map(os.fsdecode), st.text())
def test_json_is_one_line_of_utf8(path: str, message: str) -> None:
    line = finding_json(Finding(Codes.PAYLOAD, message, 0, path=path))
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert json.loads(line.encode("utf-8", "surrogatepass"))["code"] == "KD202"


# --- JUnit XML ---

# What may and must be where: junit-10.xsd of Jenkins' xUnit plugin. GitLab and the actions of GitHub read a part of it.
ATTRIBUTES = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"time", "skipped", "timestamp", "hostname", "id"}),
    "testcase": ({"name"}, {"classname", "time"}),
    "failure": (set(), {"type", "message"}),
    "error": (set(), {"type", "message"}),
    "system-out": (set(), set()),
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "system-out"},
}
COUNTS = {"tests": "testcase", "failures": "testcase[failure]", "errors": "testcase[error]"}


def checked(document: bytes) -> Xml.Element:
    """The root of a document that every reader takes."""
    assert document.startswith(b"<?xml version=")
    root = Xml.fromstring(document)
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional = ATTRIBUTES[element.tag]
        assert required <= set(element.keys()) <= required | optional
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
        # What fails has a text, for readers that show nothing else, and only elements without children have one.
        assert bool((element.text or "").strip()) is (element.tag not in CHILDREN)
        assert all(len(element.findall(tag)) <= 1 for tag in ("failure", "error", "system-out"))
        for attribute, path in COUNTS.items():
            if element.get(attribute) is not None:
                below = f"testsuite/{path}" if element is root else path
                assert element.get(attribute) == str(len(element.findall(below)))
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)
    return root


def report(*findings: Finding, failing: Iterable[Severity] = ERRORS) -> JUnitReport:
    result = JUnitReport(frozenset(failing))
    for finding in findings:
        result.add_finding(finding)
    return result


def said(case: Xml.Element, tag: str) -> str:
    """Everything that readers show of the elements ``tag`` of a case."""
    return "\n".join("\n".join((*element.attrib.values(), element.text or "")) for element in case.iterfind(tag))


def cases(root: Xml.Element) -> Iterator[tuple[str, str, Xml.Element]]:
    for suite in root:
        for case in suite.iterfind("testcase"):
            assert case.get("classname") == suite.get("name")
            yield suite.get("name", ""), case.get("name", ""), case


def test_suites_and_cases() -> None:
    result = report(HOLE, MISSING)
    result.add_segment(SegmentSummary(LOG, 1, 1, 0, 0, NOTHING, None))
    result.add_segment(SegmentSummary("/logs/orders-1/0.log", 1, 1, 0, 0, NOTHING, None))
    found = {(suite, name): case for suite, name, case in cases(checked(result.document()))}
    assert list(found) == [
        ("/logs/orders-0", os.path.basename(LOG)), ("/logs/orders-0", "X.index"), ("/logs/orders-1", "0.log"),
    ]  # fmt: skip
    damaged, unindexed, clean = found.values()
    assert "KD108" in said(damaged, "failure")
    assert "offsets 62..80 lost (at most); next readable offset 81" in said(damaged, "failure")
    assert unindexed.find("failure") is None
    assert "KD306" in said(unindexed, "system-out")
    assert len(clean) == 0


def test_all_findings_of_a_file_are_in_its_case() -> None:
    second = Finding(Codes.ZERO_FILL, "zeros", 20_000, 61, path=LOG)
    ((_, _, case),) = cases(checked(report(HOLE, LEFTOVER, second).document()))
    assert all(code in said(case, "failure") for code in ("KD108", "KD106", "20000"))
    assert "KD318" not in said(case, "failure")
    assert "KD318" in said(case, "system-out")


def test_strict() -> None:
    root = checked(report(MISSING, LEFTOVER, failing={Severity.ERROR, Severity.WARNING}).document())
    assert [case.find("failure") is not None for _, _, case in cases(root)] == [True, False]


def test_paths_that_cannot_be_looked_at() -> None:
    result = report(HOLE)
    result.add_error(KdumpError(Codes.MISSING, "no such file or directory", path="gone"))
    result.add_error(KdumpError(Codes.NO_SEGMENTS, "no segment files in this directory", path="empty"))
    root = checked(result.document())
    errors = [case for _, _, case in cases(root) if case.find("error") is not None]
    assert [case.get("name") for case in errors] == ["gone", "empty"]
    assert "no such file or directory" in said(errors[0], "error")


def test_nothing_at_all() -> None:
    assert len(checked(report().document())) == 0


@given(st.binary(min_size=1).map(os.fsdecode), st.text())
def test_any_name_gives_well_formed_xml(path: str, message: str) -> None:
    result = report(Finding(Codes.PAYLOAD, message, 0, path=path), Finding(Codes.LEFTOVER, message, 0, path=path))
    result.add_segment(SegmentSummary(path, 1, 1, 0, 0, NOTHING, None))
    result.add_error(KdumpError(Codes.MISSING, message, path=path))
    root = checked(result.document())
    assert len(list(root.iter("testcase"))) == 2


def test_readable_names_stay() -> None:
    path = 'Töpfe & "Tücher" <0>/über.log'
    ((folder, name, _),) = cases(checked(report(Finding(Codes.PAYLOAD, "", 0, path=path)).document()))
    assert f"{folder}/{name}" == path


# --- GitHub Actions ---


def test_annotations() -> None:
    assert github_line(HOLE) == (
        f"::error file={LOG},title=KD108 batch-crc::at 7628 (1,976 bytes): the CRC is wrong; offsets 62..80 lost (at "
        "most); next readable offset 81\n"
    )
    assert github_line(MISSING).startswith("::warning file=/logs/orders-0/X.index,title=KD306 index-missing::")
    info = Finding(Codes.OFFSET_GAP, "gone", 0, graded=Severity.INFO)
    assert github_line(info) == "::notice title=KD505 offset-gap::at 0: gone\n"
    error = KdumpError(Codes.MISSING, "no such file or directory", path="gone")
    assert github_error(error) == "::error file=gone,title=KD001 missing::no such file or directory\n"


def test_annotations_are_escaped() -> None:
    line = github_line(Finding(Codes.PAYLOAD, "100%\r\n::error::x, y: z\x1b[31m", 0, path="a,b:c%\n::notice::.log"))
    assert line.startswith("::error file=a%2Cb%3Ac%25%0A%3A%3Anotice%3A%3A.log,title=")
    assert line.endswith("::at 0: 100%25%0D%0A::error::x, y: z\\x1b[31m\n")


@given(st.binary(min_size=1).map(os.fsdecode), st.text())
def test_any_name_is_one_annotation(path: str, message: str) -> None:
    line = github_line(Finding(Codes.PAYLOAD, message, 0, path=path))
    assert line.count("\n") == 1
    assert "\r" not in line
    properties = line.removeprefix("::error ").partition("::")[0]
    file, title = properties.split(",")
    assert title == f"title={Codes.PAYLOAD.value.code} {Codes.PAYLOAD.value.name}"
    assert file.startswith("file=")
    assert ":" not in file
