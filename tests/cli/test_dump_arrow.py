"""``dump --output arrow`` and ``parquet``: the rows of JSON lines as tables."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdump import testing
from tests.harness.archives import unpack_cases
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE
from tests.harness.cli_runs import kdump as command
from tests.harness.scanned import dumped, of_values

FORMS = ["arrow", "parquet"]
LOG = f"{0:020}.log"


def table_of(form: str, data: bytes) -> pa.Table:
    if form == "arrow":
        return pa.ipc.open_stream(data).read_all()
    return pq.read_table(io.BytesIO(data))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows: list[Any] = [
        {"key": f"k{n}", "value": b"\xff" * n, "headers": [["h", None]], "timestamp": n} for n in range(300)
    ]
    return testing.write_segment(tmp_path / "orders-7", rows, codec="gzip", records_per_batch=50)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options",
    [
        ["--records", "--fields", "value,offset"],
        ["--records", "-n", "7"],
        ["--records", "--tail", "7"],
        ["--records", "--key", "[02468]$", "--offset", "30:90"],
        ["--deep-iteration", "--fields", "offset,keySize"],
        ["--key-decoder", "text"],
        ["--batches", "--fields", "count"],
        ["--batches", "--fields", "lastOffset,nextOffset"],
        ["--records", "--fields", "nextOffset,offset"],
        ["--records", "--redact-key", "secret"],
    ],
    ids=" ".join,
)
def test_options(log: Path, form: str, options: list[str]) -> None:
    run = command("dump", "--output", form, *options, str(log), cwd=log.parent)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    kind = "batches" if "--batches" in options else "records"
    words = [word for word in options if word not in ("--records", "--batches", "--deep-iteration")]
    expected = dumped(*words, str(log), kind=kind)
    assert expected
    assert of_values(table_of(form, run.stdout).to_pylist()) == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["records", "batches"])
def test_logs_of_kafka_07_have_one_more_column(tmp_path: Path, form: str, kind: str) -> None:
    path = str(unpack_cases("kafka07", tmp_path) / "snappy-0")
    run = command("dump", "--log-format", "0.7", "--output", form, f"--{kind}", path, cwd=tmp_path)
    expected = dumped("--log-format", "0.7", path, kind=kind)
    assert run.returncode == CLEAN
    assert "nextOffset" in expected[0]
    table = table_of(form, run.stdout)
    assert (of_values(table.to_pylist()), table.schema.names) == (expected, list(expected[0]))


def test_types(log: Path) -> None:
    schema = table_of(
        "arrow", command("dump", "--output", "arrow", "--records", str(log), cwd=log.parent).stdout
    ).schema
    types = {field.name: str(field.type) for field in schema}
    assert (types["offset"], types["key"], types["value"]) == ("int64", "binary", "binary")
    assert (types["timestamp"], types["timestampType"]) == ("timestamp[ms, tz=UTC]", "int32")
    assert types["headers"] == "list<element: struct<key: string, value: binary>>"


@pytest.mark.parametrize("form", FORMS)
def test_damage(log: Path, form: str) -> None:
    testing.flip_bit(log, log.stat().st_size // 2)
    run = command("dump", "--output", form, "--records", str(log), cwd=log.parent)
    assert run.returncode == DAMAGE
    assert of_values(table_of(form, run.stdout).to_pylist()) == dumped(str(log), resync=False)


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_log_is_a_table_without_rows(tmp_path: Path, form: str) -> None:
    path = testing.write_segment(tmp_path / "t-0", [])
    run = command("dump", "--output", form, "--records", str(path), cwd=tmp_path)
    table = table_of(form, run.stdout)
    assert (run.returncode, table.num_rows) == (CLEAN, 0)
    assert "offset" in table.schema.names


@pytest.mark.parametrize("form", FORMS)
def test_only_logs(log: Path, form: str) -> None:
    run = command("dump", "--output", form, str(log.with_suffix(".index")), cwd=log.parent)
    assert run.returncode == UNREADABLE
    assert b"not a log" in run.stderr
    for option in ("--follow", "--all-files", "--format=%o"):
        run = command("dump", "--output", form, option, str(log.parent), cwd=log.parent)
        assert run.returncode == USAGE
        assert form.encode() in run.stderr or b"--output" in run.stderr
