"""The map of the partitions: what is drawn, where, and what is folded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kdump.codes import Codes, Finding, Severity
from kdump.inputs import inputs_of
from kdump.verify.htmlpage import map_section, verify_page
from kdump.verify.partition import PartitionCheck
from kdump.verify.partitionmap import partition_map
from kdump.verify.run import Verification
from kdump.verify.segment import CheckOptions
from kdump.verify.summary import SegmentSummary
from tests.harness.batches import NOW
from tests.harness.captures import FIXTURES

NOTHING = dict.fromkeys(Severity, 0)
BAD = NOTHING | {Severity.ERROR: 1}
ODD = NOTHING | {Severity.WARNING: 1}


def segment(folder: str, base: int, last: int | None, counts: dict[Severity, int] = NOTHING) -> SegmentSummary:
    return SegmentSummary(f"{folder}/{base:020}.log", 1000, 3, base, last, counts, None, (NOW, NOW + 5))


def names(found: dict[str, Any], group: str) -> list[str]:
    return [row["name"] for row in found[group]["rows"]]


def drawn(segments: list[SegmentSummary], findings: list[Finding]) -> list[dict[str, Any]]:
    (row,) = partition_map(segments, findings)["error"]["rows"]
    lanes: list[dict[str, Any]] = row["lanes"]
    return lanes


def test_partitions_by_what_was_found() -> None:
    found = partition_map(
        [segment("d/t-10", 0, 9), segment("d/t-9", 0, 9), segment("d/u-0", 0, 9, BAD), segment("d/v-0", 0, 9, ODD)], []
    )
    assert (names(found, "error"), names(found, "warning"), names(found, "info")) == (["u-0"], ["v-0"], ["t-9", "t-10"])
    assert (found["info"]["segments"], found["info"]["bytes"], found["elsewhere"]) == (2, 2000, 0)


def test_copies_are_lanes_of_one_row() -> None:
    found = partition_map([segment("a/t-0", 0, 9), segment("b/t-0", 0, 4, BAD)], [])
    (row,) = found["error"]["rows"]
    assert [lane["where"] for lane in row["lanes"]] == ["a/t-0", "b/t-0"]
    assert names(partition_map([segment("a/x", 0, 9), segment("b/x", 0, 9)], []), "info") == ["a/x", "b/x"]


def test_where_segments_and_marks_are() -> None:
    log = f"t-0/{0:020}.log"
    findings = [
        Finding(Codes.BATCH_CRC, "wrong", 250, 500, 2, 4, 5, path=log),
        Finding(Codes.CODEC, "wrong", 500, 100, path=log),
        Finding(Codes.OFFSET_GAP, "missing", 0, None, 20, 29, path=f"t-0/{30:020}.log"),
        Finding(Codes.INDEX_MISSING, "gone", 0, path=log.replace(".log", ".index")),
        Finding(Codes.LEADER_EPOCH_RANGE, "odd", 0, path="t-0/leader-epoch-checkpoint"),
        Finding(Codes.TRANSACTION_OPEN, "open", 500, path=log, graded=Severity.INFO),
        Finding(Codes.LEFTOVER, "a leftover", 0, path=f"t-0/{0:020}.log.deleted"),
        Finding(Codes.HIGH_WATERMARK, "too high", 0, path="replication-offset-checkpoint"),
    ]
    segments = [segment("t-0", 0, 9, BAD), segment("t-0", 10, 2**62), segment("t-0", 30, None)]
    found = partition_map(segments, findings)
    (lane,) = found["error"]["rows"][0]["lanes"]
    # An offset that damage made is not believed.
    assert [block[:2] for block in lane["segments"]] == [[0, 10], [10, 10], [30, 30]]
    assert lane["segments"][0][2:6] == [NOW, NOW + 5, 1000, 2]
    assert [tuple(mark[:3]) for mark in lane["marks"]] == [
        ("damage", 2, 5),
        ("damage", 5, 6),
        ("gap", 20, 30),
        ("beside", 0, 10),
        ("beside", 0, 30),
        ("open", 5, 10),
    ]
    assert lane["marks"][0][4] == f"kdump dump --explain 250 {log}"
    assert lane["marks"][3][4] == "kdump repair --indexes t-0"
    assert found["elsewhere"] == 1


def test_what_a_start_would_leave_and_what_was_aborted(tmp_path: Path) -> None:
    """Of real segments: one batch of a transactional log is hurt."""
    folder = tmp_path / "v2-txn-0"
    folder.mkdir()
    for path in (FIXTURES / "segments" / "v2-txn-0").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    log = folder / f"{201:020}.log"
    log.write_bytes(log.read_bytes()[:5000] + b"\xff" + log.read_bytes()[5001:])
    options = CheckOptions()
    run = Verification(PartitionCheck(options), options=options)
    items = [item for found in inputs_of([str(folder)], lambda error: None) for item in run.items(found)]
    segments = [item for item in items if isinstance(item, SegmentSummary)]
    findings = [item for item in items if isinstance(item, Finding)]
    (lane,) = drawn(segments, findings)
    assert lane["start"]["at"] == 242
    kinds = [mark[0] for mark in lane["marks"]]
    assert {"aborted", "damage", "open"} <= set(kinds)
    assert all(block[2] is not None for block in lane["segments"])


def test_only_so_many_blocks_of_what_is_right() -> None:
    many = [segment(f"d/t-{number}", base, base + 9) for number in range(3) for base in range(0, 90_000, 10)]
    rows = partition_map(many, [])["info"]["rows"]
    assert [len(row["lanes"][0]["segments"]) for row in rows] == [9000, 9000, 1]
    assert rows[2]["lanes"][0]["segments"][0][:2] == [0, 90_000]


def test_no_name_ends_the_script() -> None:
    evil = "a</script><script>alert(1)</script>\x1b"
    text = map_section([segment(f"{evil}/t-0", 0, 9, BAD)], [])
    data = text.partition("id='map-data'>")[2].partition("</script>")[0]
    assert "<" not in data
    lane = json.loads(data)["error"]["rows"][0]["lanes"][0]
    assert lane["where"] == "a</script><script>alert(1)</script>\\x1b/t-0"
    page = verify_page([evil], [segment(f"{evil}/t-0", 0, 9)], [Finding(Codes.BATCH_CRC, evil, 0, path=evil)], 0)
    assert "<script>alert" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
