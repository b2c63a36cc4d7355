"""``--redact``: nothing of a user's contents is left, sizes and equality are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.batches import CONTROL, NONE, TRANSACTIONAL, ZSTD, message, v2_batch, wrapper
from tests.harness.cli_runs import CLEAN, DAMAGE, USAGE, kdump
from tests.harness.fast_reference import Row as RecordRow
from tests.harness.plainoutput import bytes_of
from tests.harness.row_runs import Row, records, run_rows

SECRETS = [b"SECRET-A", b"SECRET-B" * 40, b"SE\xff\0CRET", b"S", b"", None]
ROWS = [
    RecordRow(0, number, key, SECRETS[-1 - number], [(b"name", key), (b"other", b"SECRET-A")])
    for number, key in enumerate(SECRETS)
]
OUTPUTS = [
    ["--print-data-log"],
    *(["--output", name, "--records"] for name in ("jsonl", "csv", "table")),
    ["--format", "%k %v %h\n"],
]


def without_contents(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("key", "value", "headers")}


def contents(rows: list[Row]) -> list[bytes | None]:
    """All keys, values and header values."""
    found = []
    for row in rows:
        found += [bytes_of(row["key"]), bytes_of(row["value"]), *(bytes_of(value) for _, value in row["headers"])]
    return found


@pytest.fixture(params=[NONE, ZSTD, "legacy", "wrapper"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    inner = [message(1, number, row.key, row.value) for number, row in enumerate(ROWS)]
    data = {"legacy": b"".join(inner), "wrapper": wrapper(1, len(ROWS) - 1, inner)}.get(request.param)
    (tmp_path / "0.log").write_bytes(v2_batch(ROWS, codec=request.param) if data is None else data)
    return tmp_path / "0.log"


def test_sizes_nulls_and_equality_stay(log: Path) -> None:
    plain, hidden = records(log), records(log, secret=b"s" * 32)
    assert [without_contents(row) for row in hidden] == [without_contents(row) for row in plain]
    assert [[key for key, _ in row["headers"]] for row in hidden] == [
        [key for key, _ in row["headers"]] for row in plain
    ]
    before, after = contents(plain), contents(hidden)
    assert [None if data is None else len(data) for data in after] == [
        None if data is None else len(data) for data in before
    ]
    for first, hidden_first in zip(before, after, strict=True):
        for second, hidden_second in zip(before, after, strict=True):
            assert (first == second) == (hidden_first == hidden_second)
    for data in after:
        assert data is None or data == b"" or data.isalnum()


def test_the_hash_depends_on_the_key(log: Path) -> None:
    one, two = (contents(records(log, secret=secret * 32)) for secret in (b"1", b"2"))
    assert all(first != second for first, second in zip(one, two, strict=True) if first is not None and len(first) > 1)
    assert one == contents(records(log, secret=b"1" * 32))


@pytest.mark.parametrize("words", OUTPUTS, ids=lambda words: words[1] if len(words) > 1 else words[0])
@pytest.mark.parametrize("log", [NONE, "wrapper"], indirect=True)
def test_nothing_is_left(log: Path, words: list[str]) -> None:
    plain = kdump("dump", *words, log.name, cwd=log.parent)
    assert plain.returncode == CLEAN
    assert b"SECRET" in plain.stdout
    runs = [kdump("dump", *words, *more, log.name, cwd=log.parent) for more in (["--redact"], ["--redact"])]
    for run in runs:
        assert (run.returncode, run.stderr) == (CLEAN, b"")
        assert b"SECRET" not in run.stdout
        assert b"U0VDUkVU" not in run.stdout, "in Base64"
        assert run.stdout.count(b"\n") == plain.stdout.count(b"\n")
    assert runs[0].stdout != runs[1].stdout


@pytest.mark.parametrize("log", [NONE], indirect=True)
def test_redact_key_is_the_same_in_every_run(log: Path) -> None:
    words = ("dump", "--print-data-log", log.name)
    runs = [kdump(*words, "--redact-key", key, cwd=log.parent).stdout for key in ("a", "a", "b")]
    assert runs[0] == runs[1] != runs[2]
    assert b"SECRET" not in runs[0]


@pytest.mark.parametrize("log", ["legacy"], indirect=True)
def test_filters_look_at_the_original(log: Path) -> None:
    run = kdump("dump", "--format", r"%o\n", "--redact", "--key", "^SECRET-A$", log.name, cwd=log.parent)
    assert run.stdout == b"0\n"


@pytest.mark.parametrize("value", [b"\0\0\0\0\0\5", None])
def test_control_records_stay(tmp_path: Path, value: bytes | None) -> None:
    """One without a value hides nothing either, and is damage still."""
    row = RecordRow(0, 0, b"\0\0\0\1", value)
    (tmp_path / "0.log").write_bytes(v2_batch([row], attributes=CONTROL | TRANSACTIONAL))
    assert records(tmp_path / "0.log", secret=b"s" * 32) == records(tmp_path / "0.log")


def test_contents_after_a_damaged_control_bit_are_hidden(tmp_path: Path) -> None:
    """A flipped bit makes control records of a user's, which no marker's layout fits."""
    (tmp_path / "0.log").write_bytes(v2_batch(ROWS, attributes=CONTROL, crc=1))
    run = run_rows([tmp_path / "0.log"], secret=b"s" * 32)
    assert run.rows
    assert b"SECRET" not in run.output


def test_explain_shows_bytes_and_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(v2_batch(ROWS))
    run = kdump("dump", "--redact", "--explain", "70", "0.log", cwd=tmp_path)
    assert run.returncode == USAGE
    assert b"SECRET" not in run.stdout


def test_damage_is_told_without_contents(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(v2_batch(ROWS, record_count=len(ROWS) + 1) + b"SECRET")
    for words in OUTPUTS:
        run = kdump("dump", *words, "--redact", "--resync", "0.log", cwd=tmp_path)
        assert run.returncode == DAMAGE
        assert b"SECRET" not in run.stdout + run.stderr
