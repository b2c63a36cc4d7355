"""Kafka's own conversions (fixtures/cases): the same messages, wrapper by wrapper."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import Codes
from kdump.format.batch import parse_header
from tests.harness.archives import case_files
from tests.harness.batches import GZIP, LZ4, NONE, SNAPPY, ZSTD, entries
from tests.harness.conversions import Seen, convert, converted, records, unpacked
from tests.harness.examples import sparse


@cache
def results() -> list[dict[str, Any]]:
    return [json.loads(line) for line in case_files("convert")["convert/results.jsonl"].splitlines()]


@cache
def names() -> list[str]:
    return sorted({result["base"] for result in results()})


def of(result: dict[str, Any]) -> str:
    return f"{result['base']}-to-{result['to_magic']}"


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The segment of the case that a test is called with."""
    (name,) = (name for name in names() if name in request.node.name)
    prefix = f"convert/{name}/source/"
    (path,) = (path for path in case_files("convert") if path.startswith(prefix))
    log = tmp_path / "source" / path.removeprefix(prefix)
    log.parent.mkdir()
    log.write_bytes(case_files("convert")[path])
    return log


CONVERTED = [result for result in results() if "exception" not in result]
REFUSED = [result for result in results() if "exception" in result]
OLD = [name for name in names() if f"convert/{name}/to-v2-each.log" in case_files("convert")]


@pytest.mark.parametrize("case", sparse(CONVERTED, fast=4), ids=of)
def test_down(case: dict[str, Any], source: Path, tmp_path: Path) -> None:
    expected = case_files("convert")[f"convert/{case['base']}/to-v{case['to_magic']}.log"]
    got = converted(source, tmp_path / source.name, to_magic=case["to_magic"])
    assert list(map(unpacked, entries(got))) == list(map(unpacked, entries(expected)))
    if not {entry[17] & 7 for entry in entries(expected)} & {SNAPPY, LZ4}:
        assert got == expected
    assert records(got) == records(expected)


@pytest.mark.parametrize("case", REFUSED, ids=of)
def test_zstd_is_refused(case: dict[str, Any], source: Path, tmp_path: Path) -> None:
    result = convert(source, tmp_path / "out.log", to_magic=case["to_magic"])
    assert result.error is not None
    assert result.error.code is Codes.NO_CODEC
    assert result.error.path == str(source)
    assert not result.staged
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("case", REFUSED, ids=of)
def test_zstd_with_another_codec(case: dict[str, Any], source: Path, tmp_path: Path, codec: int) -> None:
    to_magic = case["to_magic"]
    got = converted(source, tmp_path / "out.log", to_magic=to_magic, codec=codec)
    assert {entry[17] & 7 for entry in entries(got)} == {codec}
    rows = [json.loads(line) for line in case_files("convert")[f"convert/{case['base']}/source.jsonl"].splitlines()]
    assert records(got) == [
        Seen(
            row["offset"],
            row["timestamp"] if to_magic else -1,
            to_magic > 0 and row["timestamp_type"] == "LogAppendTime",
            *(None if row[name] is None else bytes.fromhex(row[name]) for name in ("key", "value")),
            (),
        )
        for row in rows
        if not row["control"]
    ]


@pytest.mark.parametrize("name", OLD)
def test_up(name: str, source: Path, tmp_path: Path) -> None:
    log = source.read_bytes()
    got = converted(source, tmp_path / source.name, to_magic=2)
    assert {entry[16] for entry in entries(got)} == {2}
    assert records(got) == records(log)
    # Kafka appends each message of its own alone; of wrappers that hold all their offsets it makes the same batches.
    appended = {entry[:8]: entry for entry in entries(case_files("convert")[f"convert/{name}/to-v2-each.log"])}
    wrappers = [entry for entry in entries(log) if entry[16] < 2 and entry[17] & 7]
    batches = [entry for entry in entries(got) if entry[22] & 7]
    assert len(wrappers) == len([batch for batch in batches if batch[:8] in appended or not wrappers])
    for batch in batches:
        if parse_header(batch).codec == GZIP and wrappers:
            assert batch == appended[batch[:8]]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("name", sparse(names(), fast=5))
def test_recompression_keeps_headers(name: str, source: Path, tmp_path: Path, codec: int) -> None:
    log = source.read_bytes()
    got = converted(source, tmp_path / source.name, to_magic=2, codec=codec)
    before = [parse_header(entry) for entry in entries(log) if entry[16] == 2]
    after = [parse_header(entry) for entry in entries(got)][-len(before) or None :]
    for old, new in zip(before, after, strict=True) if before else ():
        assert new.codec == (old.codec if old.is_control or old.record_count == 0 else codec)
        assert old._replace(batch_length=0, crc=0, attributes=old.attributes & ~7) == new._replace(
            batch_length=0, crc=0, attributes=new.attributes & ~7
        )
    assert records(got, control=True) == records(log, control=True)
