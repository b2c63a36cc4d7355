"""The next command for a finding, and which finding matters most."""

from __future__ import annotations

import pytest

from kdump.codes import Codes, Finding, Severity
from kdump.verify.advice import lost_offsets, most_important, next_command

LOG = f"d/orders 1-0/{0:020}.log"


def found(code: Codes, first: int | None = None, last: int | None = None, path: str = LOG) -> Finding:
    return Finding(code, "", 7, 9, first, last, path=path)


def test_what_matters_most() -> None:
    info = Finding(Codes.OFFSET_GAP, "", 0, None, 0, 10**9, path=LOG, graded=Severity.INFO)
    warning, error = found(Codes.OFFSET_GAP, 0, 10**6), found(Codes.CODEC)
    few, many = found(Codes.BATCH_CRC, 5, 6), found(Codes.BATCH_CRC, 5, 600)
    findings = [info, warning, error, few, many, found(Codes.BATCH_CRC, 1005, 1600)]
    for number, worst in ((6, many), (4, few), (3, error), (2, warning), (1, info)):
        assert most_important(findings[:number]) is worst
    assert most_important([]) is None
    assert [lost_offsets(finding) for finding in (error, few, many)] == [0, 2, 596]


@pytest.mark.parametrize(
    ("code", "path", "command"),
    [
        (Codes.BATCH_CRC, LOG, f"kdump dump --explain 7 '{LOG}'"),
        (Codes.INDEX_MISSING, LOG.replace(".log", ".timeindex"), "kdump repair --indexes 'd/orders 1-0'"),
        (Codes.SNAPSHOT_BEYOND_LOG, LOG.replace(".log", ".snapshot"), "kdump repair 'd/orders 1-0'"),
        (Codes.SEGMENT_MISSING, LOG, "kdump repair 'd/orders 1-0'"),
        (Codes.BATCH_CRC, f"{0:020}.log", f"kdump dump --explain 7 {0:020}.log"),
        (Codes.HIGH_WATERMARK, "d/replication-offset-checkpoint", None),
    ],
)
def test_the_next_command(code: Codes, path: str, command: str | None) -> None:
    assert next_command(found(code, path=path)) == command
