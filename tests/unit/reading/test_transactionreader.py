"""Which segments are read for transactions, and from which one on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from unittest import mock

import pytest

from kdump.codes import Codes, KdumpError
from kdump.reading.transactionreader import TransactionReader
from kdump.reading.transactions import Transactions
from kdump.reading.view import DecodePath
from tests.harness.captures import FIXTURES
from tests.harness.row_runs import BOTH_PATHS, run_rows


@pytest.fixture
def reads() -> Iterator[list[str]]:
    """The names of the segments that are read for their transactions."""
    found: list[str] = []
    read_segment = Transactions.read_segment

    def read(self: Transactions, path: str, next_base: int | None = None) -> None:
        found.append(Path(path).name)
        read_segment(self, path, next_base)

    with mock.patch.object(Transactions, "read_segment", read):
        yield found


@pytest.fixture
def segments(tmp_path: Path) -> list[str]:
    """Three or more segments with transactions, without the files that tell what is open where they begin."""
    shutil.copytree(FIXTURES / "segments" / "v2-txn-0", tmp_path / "t-0")
    for snapshot in (tmp_path / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    return sorted(map(str, (tmp_path / "t-0").glob("*.log")))


@pytest.mark.parametrize("path", BOTH_PATHS)
@pytest.mark.parametrize("syntax", ["jsonl", "csv"])
def test_only_logs_with_transactions_are_read_for_them(
    reads: list[str], segments: list[str], syntax: Literal["jsonl", "csv"], path: DecodePath
) -> None:
    assert (
        len(run_rows([FIXTURES / "segments" / "v1-gzip-0" / f"{0:020d}.log"], syntax=syntax, path=path).output) > 1000
    )
    assert not reads
    run_rows([segments[0]], syntax=syntax, path=path)
    assert Path(segments[0]).name in reads


@pytest.mark.parametrize("path", BOTH_PATHS)
def test_a_column_that_is_not_shown_needs_no_reading(reads: list[str], segments: list[str], path: DecodePath) -> None:
    assert run_rows(segments, fields=("offset",), path=path).rows
    assert not reads


def test_reading_begins_with_what_was_announced(segments: list[str], reads: list[str]) -> None:
    names = [Path(path).name for path in segments]
    early, late = TransactionReader(), TransactionReader()
    early.announce(segments[0])
    early.announce(segments[1])
    assert not reads
    early.of(segments[2])
    assert reads[:3] == names[:3]
    reads.clear()
    late.of(segments[2])
    assert reads[:3] == names[:3]


def test_what_cannot_be_read_is_no_error_where_it_was_only_announced(segments: list[str], tmp_path: Path) -> None:
    reader = TransactionReader()
    reader.announce(str(tmp_path / "t-0" / f"{7:020d}.log"))
    assert reader.of(segments[0]).open_transactions is not None


def test_what_cannot_be_read_is_an_error_each_time(segments: list[str]) -> None:
    """The last segment too: no other one is read in its place."""
    reader = TransactionReader()
    for path in (segments[0], segments[-1]):
        Path(path).unlink()
        os.mkfifo(path)
        reader.announce(path)
        for _ in range(2):
            with pytest.raises(KdumpError) as caught:
                reader.of(path)
            assert (caught.value.code, caught.value.path) == (Codes.SPECIAL_FILE, path)
    with pytest.raises(KdumpError):
        reader.open_before(segments[1])
    assert reader.of(segments[1]).open_transactions is not None
