"""log.stores and log.objects: what is asked of a store, how much of it comes, and what happens when it fails."""

from __future__ import annotations

import importlib
import os
import random
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, KdumpError
from kdump.inputs import PathDirectory, inputs_of, log_paths
from kdump.log import files, stores
from kdump.log.named import ListingEntry
from kdump.log.opening import open_source, read_whole
from kdump.log.resync import ResyncWalk
from kdump.log.walk import Walk
from kdump.tasks.logs import log_files
from kdump.verify.run import findings as verify
from tests.harness.cli_runs import BATCH, DAMAGED_BATCH, NAME
from tests.harness.examples import examples
from tests.harness.store_runs import BUCKET, CountingStore, store

__all__ = ["store"]

LARGEST = 8 << 20
URI = f"{BUCKET}/orders-0/{NAME}"


@pytest.fixture
def folder(store: CountingStore) -> Path:
    folder = store.root / "orders-0"
    folder.mkdir()
    return folder


def fill(folder: Path, size: int) -> bytes:
    """A file of whole batches."""
    data = BATCH * (size // len(BATCH))
    (folder / NAME).write_bytes(data)
    return data


# --- Ranges ---


@examples(30)
@given(st.lists(st.tuples(st.integers(0, 600_000), st.integers(0, 300_000)), max_size=12), st.data())
def test_any_ranges(store: CountingStore, reads: list[tuple[int, int]], data: st.DataObject) -> None:
    content = random.Random(7).randbytes(500_000)
    (store.root / "x").write_bytes(content)
    with open_source(f"{BUCKET}/x") as source:
        position = 0
        for start, size in reads:
            # Half of them go on where the last one ended.
            position = data.draw(st.sampled_from([start, position]))
            assert source.read(position, size) == content[position : position + size]
            position = min(position + size, len(content))


def test_a_reader_that_goes_on_is_read_ahead_of(store: CountingStore, folder: Path) -> None:
    data = fill(folder, 50 << 20)
    with open_source(URI) as source:
        entries = sum(len(chunk.starts) for chunk in Walk(source).chunks())
    assert entries == len(data) // len(BATCH)
    assert store.bytes_read == len(data)
    sizes = [count for _, count in store.ranges]
    assert max(sizes) == LARGEST
    assert len(sizes) < 6 + len(data) / LARGEST


def test_no_more_is_fetched_than_was_read_in_a_row(store: CountingStore, folder: Path) -> None:
    fill(folder, 50 << 20)
    with open_source(URI) as source:
        for position in range(0, 5 << 20, 1 << 20):
            source.read(position, 1 << 20)
    assert 5 << 20 <= store.bytes_read <= 10 << 20


def test_one_read_is_one_request(store: CountingStore, folder: Path) -> None:
    data = fill(folder, 20 << 20)
    with open_source(URI) as source:
        source.read(1 << 20, 4 << 20)
        # Within what came.
        assert source.read(2 << 20, 100) == data[2 << 20 :][:100]
    assert store.ranges == [(1 << 20, 4 << 20)]


def test_places_far_apart(store: CountingStore, folder: Path) -> None:
    fill(folder, 20 << 20)
    with open_source(URI) as source:
        for position in (15 << 20, 0, 10 << 20, 5 << 20):
            source.read(position, 61)
    assert store.ranges == [(position, 1 << 16) for position in (15 << 20, 0, 10 << 20, 5 << 20)]


def test_nothing_is_fetched_ahead_after_the_end_of_what_is_wanted(store: CountingStore, folder: Path) -> None:
    fill(folder, 60 << 20)
    with open_source(URI) as source:
        for _ in Walk(source, limit=21 << 20).chunks():
            pass
    # A chunk at a time.
    assert store.bytes_read <= 22 << 20


def test_small_reads_that_go_on(store: CountingStore, folder: Path) -> None:
    """As those of the batches of a time index: they end inside ranges."""
    fill(folder, 20 << 20)
    with open_source(URI) as source:
        for position in range(0, 20 << 20, 17_000):
            source.read(position, 17_000)
    assert store.bytes_read <= 20 << 20
    assert len(store.ranges) < 20


def test_small_files_come_whole(store: CountingStore, folder: Path) -> None:
    fill(folder, 3000)
    assert len(read_whole(URI)) == (folder / NAME).stat().st_size
    assert len(store.ranges) == 1


# --- What fails ---


def test_missing(store: CountingStore, folder: Path) -> None:
    for path in (URI, f"{BUCKET}/nowhere-0/{NAME}", f"{BUCKET}/what"):
        with pytest.raises(KdumpError, match="no such file or directory") as caught:
            open_source(path)
        assert (caught.value.code, caught.value.path) == (Codes.MISSING, path)


def test_directory(store: CountingStore, folder: Path) -> None:
    with pytest.raises(KdumpError, match="is a directory") as caught:
        open_source(f"{BUCKET}/orders-0/")
    assert caught.value.code is Codes.UNREADABLE


def test_what_is_cut_while_it_is_read_ends_there(store: CountingStore, folder: Path) -> None:
    data = fill(folder, 20 << 20)
    with open_source(URI) as source:
        assert source.read(0, 1 << 20) == data[: 1 << 20]
        os.truncate(folder / NAME, 3 << 20)
        assert source.size == len(data)
        assert source.read(0, len(data)) == data[: 3 << 20]


def test_a_store_that_refuses_what_was_cut(store: CountingStore, folder: Path) -> None:
    """S3 says 416 to a range after the end: to a reader the file ends there."""
    data = fill(folder, 20 << 20)

    def refuse(position: int) -> None:
        if position >= (folder / NAME).stat().st_size:
            raise OSError("HTTP status 416")

    store.before_read = refuse
    with open_source(URI) as source:
        source.read(0, 1 << 20)
        os.truncate(folder / NAME, 3 << 20)
        assert source.read(4 << 20, 100) == b""
        assert source.read(0, len(data)) == data[: 3 << 20]


def test_vanished(store: CountingStore, folder: Path) -> None:
    fill(folder, 20 << 20)

    def vanish(position: int) -> None:
        if position >= 2 << 20:
            (folder / NAME).unlink(missing_ok=True)
            raise FileNotFoundError("404")

    store.before_read = vanish
    for walk in (lambda source: Walk(source).chunks(), lambda source: ResyncWalk(source).items()):
        fill(folder, 20 << 20)
        with open_source(URI) as source, pytest.raises(KdumpError, match="vanished while it was read") as caught:
            list(walk(source))
        assert (caught.value.code, caught.value.path, caught.value.position) == (Codes.MISSING, URI, 2 << 20)


def test_forbidden_in_mid_read_is_the_end_of_the_file_and_no_bad_block(store: CountingStore, folder: Path) -> None:
    fill(folder, 20 << 20)

    def forbid(position: int) -> None:
        if position >= 2 << 20:
            raise PermissionError("the token has expired")

    store.before_read = forbid
    with pytest.raises(KdumpError, match="the token has expired") as caught:
        list(verify(f"{BUCKET}/orders-0"))
    assert (caught.value.code, caught.value.path) == (Codes.UNREADABLE, URI)
    # Not a request a block: 4,608 blocks are left.
    assert len(store.ranges) < 20


def test_an_error_ahead_of_the_reader_is_told_only_when_it_gets_there(store: CountingStore, folder: Path) -> None:
    data = fill(folder, 20 << 20)

    def forbid(position: int) -> None:
        if position >= 2 << 20:
            raise PermissionError("no")

    store.before_read = forbid
    with open_source(URI) as source:
        for position in (0, 1 << 20):
            assert source.read(position, 1 << 20) == data[position : position + (1 << 20)]
        assert source.read(100, 100) == data[100:200]
        with pytest.raises(KdumpError) as caught:
            source.read(2 << 20, 1)
    assert caught.value.position == 2 << 20


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(stores, "_stores", {})
    monkeypatch.setattr(importlib, "import_module", import_module)
    for ask in (open_source, files.is_directory, files.exists, files.listing):
        with pytest.raises(KdumpError, match=r"pip install pyarrow") as caught:
            ask("s3://bucket/x")
        assert (caught.value.code, caught.value.path) == (Codes.UNREADABLE, "s3://bucket/x")


# --- Names ---


def test_a_directory_is_listed_once(store: CountingStore, folder: Path) -> None:
    fill(folder, 3000)
    (folder / "leader-epoch-checkpoint").touch()
    directory = files.strip_credentials(f"{BUCKET}/orders-0/")
    assert list(log_paths([PathDirectory(directory)])) == [URI]
    assert files.exists(URI)
    assert not files.exists(URI.replace(".log", ".index"))
    with pytest.raises(KdumpError):
        read_whole(URI.replace(".log", ".snapshot"))
    assert (store.listed, store.opened, store.asked) == (["orders-0"], [], [])


def test_entering_forgets_what_was_listed(store: CountingStore, folder: Path) -> None:
    directory = files.strip_credentials(f"{BUCKET}/orders-0")
    assert files.listing(directory) == []
    fill(folder, 3000)
    assert files.listing(directory) == []
    files.strip_credentials(directory)
    entry = ListingEntry(NAME, URI, is_directory=False, size=(folder / NAME).stat().st_size)
    assert files.listing(directory) == [entry]
    assert files.size(URI) == entry.size
    with pytest.raises(KdumpError) as caught:
        files.size(f"{BUCKET}/nowhere")
    assert caught.value.code is Codes.MISSING


def test_requests_of_a_verified_partition(store: CountingStore, folder: Path) -> None:
    for number in range(5):
        (folder / f"{3 * number:020}.log").write_bytes(DAMAGED_BATCH)
    list(verify(f"{BUCKET}/orders-0"))
    assert store.listed == ["orders-0"]
    assert sorted(store.opened) == sorted(f"orders-0/{3 * number:020}.log" for number in range(5))
    # Each is read twice: recovery of what is damaged is modelled too. The last one is read once more: its damaged batch
    # tells up to which offset the log went.
    assert len(store.ranges) <= 11


def test_names_that_have_to_be_encoded(store: CountingStore) -> None:
    folder = store.root / "50% of #1?a=b" / "orders-0"
    folder.mkdir(parents=True)
    fill(folder, 3000)
    (top,) = files.listing(BUCKET)
    assert (top.name, top.path) == ("50%25%20of%20%231%3Fa=b", f"{BUCKET}/50%25%20of%20%231%3Fa=b")
    (segment,) = log_paths([PathDirectory(top.path)])
    assert len(read_whole(segment)) == (folder / NAME).stat().st_size
    assert files.strip_credentials(segment) == segment


def test_newer_credentials_replace_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_stores", {})
    assert (
        files.strip_credentials("s3://key:first@bucket/a")
        == files.strip_credentials("s3://key:second@bucket/a")
        == "s3://bucket/a"
    )
    assert stores.store_of("s3://bucket/b").given.user == "key:second"
    assert stores.store_of("s3://other/b").given.user == ""


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*-0", ["a-0", "b-0"]),
        ("[a]*", ["a-0", "a-1"]),
        ("b-*/*.log", [f"b-0/{NAME}"]),
        (f"*/{NAME}", [f"a-1/{NAME}", f"b-0/{NAME}"]),
        (".*", [".hidden-0"]),
        ("x*", []),
        ("a-0", ["a-0"]),
        ("nowhere", ["nowhere"]),
        # A name, although it looks like a pattern.
        ("odd[0]", ["odd%5B0%5D"]),
    ],
)
def test_patterns(store: CountingStore, pattern: str, names: list[str]) -> None:
    for name in ("a-0", "a-1", "b-0", ".hidden-0", "odd[0]", "odd0"):
        (store.root / name).mkdir()
    for name in ("a-1", "b-0"):
        (store.root / name / NAME).write_bytes(BATCH)
    assert files.expanded(files.strip_credentials(f"{BUCKET}/{pattern}")) == [f"{BUCKET}/{name}" for name in names]
    assert files.expanded(f"{store.root}/{pattern}") == [f"{store.root}/{unquote(name)}" for name in names]


def test_what_another_process_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_stores", {})
    given = "s3a://key:a%2Fb@bucket/logs?region=eu"
    path = files.strip_credentials(given)
    handed_over = files.with_credentials(f"{path}/x-0")
    assert handed_over == "s3a://key:a%2Fb@bucket/logs/x-0?region=eu"
    monkeypatch.setattr(stores, "_stores", {})
    assert files.strip_credentials(handed_over) == f"{path}/x-0"
    assert files.with_credentials(path) == given
    assert files.with_credentials("/logs/x-0") == "/logs/x-0"


def test_logs_of_a_log_directory(store: CountingStore) -> None:
    for number in range(3):
        folder = store.root / f"orders-{number}"
        folder.mkdir()
        fill(folder, 3000)
    (store.root / "orders-0" / "note.txt").touch()
    errors: list[KdumpError] = []
    logs = log_files(
        inputs_of(
            [BUCKET, f"{BUCKET}/orders-0/*", f"{BUCKET}/nowhere-*", f"{BUCKET}/nowhere-0"],
            errors.append,
            with_patterns=True,
        ),
        errors.append,
    )
    logs.sort(key=lambda log: log.path)
    assert [log.path for log in logs] == [f"{BUCKET}/orders-{number}/{NAME}" for number in range(3)]
    assert [error.path for error in errors] == [f"{BUCKET}/nowhere-*", f"{BUCKET}/nowhere-0"]
    local = log_files(inputs_of([str(store.root)], errors.append, with_patterns=True), errors.append)
    assert [(log.size, log.base_offset) for log in logs] == [(log.size, log.base_offset) for log in local]
    with logs[0].open_planned() as source:
        assert source.path == logs[0].path
