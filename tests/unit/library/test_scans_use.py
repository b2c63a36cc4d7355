"""What a scan does besides its rows: sources, DuckDB and polars, errors, and being left in the middle."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kdump
from kdump import testing
from tests.harness import ROOT
from tests.harness.captures import Captures
from tests.harness.scanned import of_values

PAIRS = [(f"k{number % 10}", f"value {number}") for number in range(5000)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing changes it."""
    path = tmp_path_factory.mktemp("written") / "orders-7"
    return testing.write_segment(path, PAIRS, codec="lz4", records_per_batch=100)


@pytest.fixture
def log(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written.parent, tmp_path / written.parent.name)) / written.name


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class TestLeft:
    @pytest.mark.slow
    def test_at_any_record(self, log: Path) -> None:
        before = open_files()
        for count in (1, 99, 100, 101, 4999):
            records = iter(kdump.scan(log))
            for _ in range(count):
                next(records)
            del records
            assert open_files() == before

    def test_by_close(self, log: Path) -> None:
        before = open_files()
        records, batches = iter(kdump.scan(log)), kdump.scan(log).batches()
        next(records), next(batches)
        records.close()
        batches.close()
        assert open_files() == before

    def test_a_reader(self, log: Path) -> None:
        before = open_files()
        reader = kdump.scan([log] * 3).to_reader()
        reader.read_next_batch()
        reader.close()
        del reader
        assert open_files() == before

    def test_never_begun(self, log: Path) -> None:
        before = open_files()
        scan = kdump.scan(log)
        iter(scan), scan.to_reader(), scan.batches(), repr(scan)
        assert open_files() == before


class TestDamage:
    def test_raise_names_file_position_and_code(self, log: Path) -> None:
        testing.flip_bit(log, log.stat().st_size // 2)
        records = iter(kdump.scan(log))
        found = []
        with pytest.raises(kdump.DamageError, match=r"orders-7.*: at \d+: the CRC is wrong"):
            found.extend(records)
        with pytest.raises(kdump.DamageError, match="the CRC is wrong"):
            kdump.scan(log).to_arrow()

    def test_findings_are_those_of_the_newest_pass(self, log: Path) -> None:
        testing.flip_bit(log, log.stat().st_size // 2)
        scan = kdump.scan(log, on_damage="skip")
        assert scan.findings == []
        assert len(list(scan)) == scan.to_arrow().num_rows == 4900
        assert [finding.name for finding in scan.findings] == ["batch-crc"]
        assert Path(scan.findings[0].path) == log

    def test_a_path_that_is_not_there_is_no_damage(self, log: Path) -> None:
        for on_damage in ("raise", "skip", "mark"):
            for path in (log.parent / "missing.log", log.parent / "miss*", log.with_suffix(".index"), "/proc/version"):
                with pytest.raises(kdump.KdumpError):
                    list(kdump.scan(path, on_damage=on_damage))

    def test_a_file_that_cannot_be_read(self, log: Path) -> None:
        (log.parent / f"{9000:020}.log").mkdir()
        with pytest.raises(kdump.KdumpError):
            list(kdump.scan(log.parent / f"{9000:020}.log"))


class TestSources:
    def test_several_paths_patterns_topics_and_partitions(self, tmp_path: Path) -> None:
        for name in ("a-0", "a-1", "b-0"):
            testing.write_segment(tmp_path / name, [(name, "v")])
        (tmp_path / "other.txt").write_text("x")

        def keys(paths: Any, **wanted: Any) -> list[bytes | None]:
            return [record.key for record in kdump.scan(paths, **wanted)]

        assert keys(tmp_path) == [b"a-0", b"a-1", b"b-0"]
        assert keys(str(tmp_path / "*")) == [b"a-0", b"a-1", b"b-0"]
        assert keys([tmp_path / "b-0", str(tmp_path / "a-?")]) == [b"b-0", b"a-0", b"a-1"]
        assert keys(tmp_path, topics="a") == [b"a-0", b"a-1"]
        assert keys(tmp_path, topics=["a", "b"], partitions=0) == [b"a-0", b"b-0"]
        assert keys(tmp_path, partitions=[1, 2]) == [b"a-1"]

    def test_standard_input(self, log: Path) -> None:
        code = "import kdump\nprint(sum(1 for _ in kdump.scan('-')))"
        with log.open("rb") as data:
            cat = subprocess.Popen(["cat"], stdin=data, stdout=subprocess.PIPE)
            run = subprocess.run(
                [sys.executable, "-c", code], stdin=cat.stdout, capture_output=True, cwd=ROOT, check=True
            )
            cat.wait()
        assert run.stdout.split() == [b"5000"]

    def test_a_growing_file_is_read_up_to_its_size_at_the_start(self, log: Path) -> None:
        data = log.read_bytes()
        records = iter(kdump.scan(log))
        first = next(records)
        with log.open("ab") as file:
            file.write(data[:1000])
        assert len([first, *records]) == 5000

    @pytest.mark.slow
    def test_bounded_memory_of_a_large_batch(self, tmp_path: Path) -> None:
        path = testing.write_segment(
            tmp_path / "t-0", [(None, "x" * 1000)] * 20_000, codec="zstd", records_per_batch=20_000
        )
        sizes = [batch.nbytes for batch in kdump.scan(path).to_reader()]
        assert sum(sizes) > 20_000_000


class TestTables:
    def test_columns(self, log: Path) -> None:
        table = kdump.scan(log, columns=["value", "offset"]).to_arrow()
        assert table.schema == pa.schema([("value", pa.binary()), ("offset", pa.int64())])
        assert kdump.scan(log, columns=["headerKeys"]).to_arrow().num_rows == 5000
        assert kdump.scan(log, columns="offset").to_reader().schema.names == ["offset"]

    def test_pandas_keeps_integers(self, log: Path) -> None:
        frame = kdump.scan(log, columns=["offset", "timestamp", "isValid", "key"]).to_pandas()
        assert [str(kind) for kind in frame.dtypes] == ["Int64", "datetime64[ms, UTC]", "boolean", "object"]

    def test_duckdb_takes_the_scan(self, log: Path) -> None:
        duckdb = pytest.importorskip("duckdb")
        scan = kdump.scan(log, columns=["key", "offset"])
        with duckdb.connect() as connection:
            connection.register("records", scan)
            query = 'select key, count(*), max("offset") from records group by key order by key'
            found = connection.sql(query).fetchall()
        assert found == [(f"k{number}".encode(), 500, 4990 + number) for number in range(10)]

    def test_polars_takes_the_scan(self, captures: Captures) -> None:
        pl = pytest.importorskip("polars")
        scan = kdump.scan(captures.root / "4.3.1" / "v2-txn-0")
        rows = of_values(scan.to_arrow().to_pylist())
        assert of_values(scan.to_polars().to_dicts()) == rows
        assert of_values(pl.DataFrame(scan).to_dicts()) == rows

    def test_pyarrow_takes_the_scan(self, log: Path) -> None:
        assert pa.table(kdump.scan(log)) == kdump.scan(log).to_arrow()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"columns": ["nothing"]}, "no column nothing"),
        ({"columns": ["decodedKey", "x"]}, "no column x"),
        ({"offsets": 5}, "offsets is a pair"),
        ({"time": (1, 2, 3)}, "time is a pair"),
        ({"keys": "("}, "no regular expression"),
        ({"headers": "h=("}, "no regular expression"),
        ({"isolation": "committed"}, "isolation is one of"),
        ({"on_damage": "ignore"}, "on_damage is one of"),
        ({"decode": "json"}, "decode is 'auto'"),
        ({"decode": {"header": "json"}}, "only 'key' and 'value'"),
        ({"decode": {"key": "nothing"}}, "no decoder"),
    ],
)
def test_wrong_arguments(log: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kdump.scan(log, **arguments)


@pytest.mark.parametrize("is_columnar", [False, True], ids=["scalar", "columnar"])
@pytest.mark.slow
def test_pandas_is_imported_only_when_asked_for(log: Path, is_columnar: bool) -> None:
    """It takes longer than reading 200 MB."""
    code = f"""
import sys, kdump
from kdump.fast import policy
if {is_columnar}:
    policy.SHOWN = policy.SHOWN_IN_CHUNK = 0
scan = kdump.scan(sys.argv[1], columns=[*kdump.scan(sys.argv[1]).schema.names, "headerKeys", "nextOffset"])
print(scan.to_arrow().num_rows, "pandas" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code, str(log)], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    assert run.stdout.split() == [b"5000", b"False"]


def test_no_path() -> None:
    with pytest.raises(ValueError, match="no path"):
        kdump.scan([])


def test_batches_have_no_keys(log: Path) -> None:
    with pytest.raises(ValueError, match="not batches"):
        kdump.scan(log, keys="x").batches()


@pytest.mark.slow
def test_the_notebook_runs(captures: Captures) -> None:
    for package in ("duckdb", "polars"):
        pytest.importorskip(package)
    paths = [str(captures.root / "4.3.1" / name) for name in ("v2-multi-0", "__consumer_offsets-0")]
    script = [sys.executable, str(ROOT / "examples" / "notebook.py"), *paths]
    python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": python_path}
    run = subprocess.run(script, capture_output=True, text=True, cwd=ROOT, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    assert "key-0" in run.stdout
    assert "minute" in run.stdout
