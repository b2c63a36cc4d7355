"""kafka.startup.logdirectory: folders and checkpoints; what is expected was measured on LogManager.startup of 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kdump.codes import KdumpError
from kdump.inputs import resolve
from kdump.kafka.startup import logdirectory
from kdump.kafka.startup.logdirectory import parse_folder, read_log_directory, sort_folders
from kdump.kafka.startup.textfiles import checkpoint_words
from kdump.repair.run import Repair, RepairOptions
from tests.harness.batches import plain_rows, v2_batch

ORDERS = {("orders", 0): 12}


def test_checkpoints_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many partitions a repair plans, and whatever it says of their next starts."""
    read: list[str] = []

    def counted(name: str, data: bytes, words: Sequence[str]) -> Iterator[list[str]]:
        read.append(name)
        return checkpoint_words(name, data, words)

    monkeypatch.setattr(logdirectory, "checkpoint_words", counted)
    checkpoints = ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint")
    for count in (2, 4):
        root = tmp_path / str(count)
        for number in range(count):
            (root / f"orders-{number}").mkdir(parents=True)
            log = v2_batch(plain_rows(3)) + b"torn"
            (root / f"orders-{number}" / f"{0:020}.log").write_bytes(log)
        for name in checkpoints:
            (root / name).write_text("0\n1\norders 0 0\n")
        read.clear()
        with Repair(RepairOptions(), on_error=pytest.fail) as job:
            assert len(list(job.of(resolve(str(root))))) == count
        assert sorted(read) == sorted(checkpoints)
        known = read_log_directory(str(root))
        (root / checkpoints[0]).write_text("0\n1\norders 0 1\n")
        (root / checkpoints[1]).write_text("0\n7\norders 0 0\n")
        changed = read_log_directory(str(root))
        assert (known.log_starts, known.refusals) == ({("orders", 0): 0}, [])
        assert (changed.log_starts, changed.recovery_points) == ({("orders", 0): 1}, {})
        assert changed.refusals == read_log_directory(str(root)).refusals != []


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("orders-0", (("orders", 0), "")),
        ("orders--1", (("orders-", 1), "")),
        ("orders-+1", (("orders", 1), "")),
        ("orders-00", (("orders", 0), "")),
        ("orders-\u0661", (("orders", 1), "")),
        ("line\nfeed-0", (("line\nfeed", 0), "")),
        (" -0", ((" ", 0), "")),
        (".hidden-0", ((".hidden", 0), "")),
        ("ord.ers-1.abc-delete", (("ord.ers", 1), "-delete")),
        ("orders-0.a~b-delete", (("orders", 0), "-delete")),
        ("orders-0.abc-future", (("orders", 0), "-future")),
        ("orders-0.abc-stray", (("orders", 0), "-stray")),
        *(
            (name, None)
            for name in (
                *(
                    "lost+found",
                    "topic",
                    "orders-x",
                    "-1",
                    "orders-",
                    "orders-2147483648",
                    "orders-99999999999999999999",
                ),
                *(".hidden", "orders-0-delete", "orders-0.-delete", "orders-0.a b-delete", "orders-0.x.y-delete"),
                *(
                    "-delete",
                    "-0.abc-delete",
                    "orders-0.abc-xyz",
                    "orders-0.abc-deleted",
                    "or\nd-0.abc-delete",
                    "orders-0 ",
                ),
            )
        ),
    ],
)
def test_folders(name: str, folder: object) -> None:
    assert parse_folder(name) == folder
    found = sort_folders([name])
    assert (found.partitions, found.unparsable) == (([], [name]) if folder is None else ([name], []))


@pytest.mark.parametrize(
    ("text", "offsets", "is_refused"),
    [
        (b"", {}, False),
        (b"0\n", {}, False),
        (b"0\n1\norders 0 12\n", ORDERS, False),
        (b"0\n1\norders 0 12", ORDERS, False),
        (b"0\r\n1\r\norders 0 12\r\n", ORDERS, False),
        (b"0\n1\norders 0 12 \n", ORDERS, False),
        (b"0\n1\norders  0\t12\n", ORDERS, False),
        (b"0\n1\norders 0 00000000000000000000012\n", ORDERS, False),
        (b"+0\n+1\norders +0 +12\n", ORDERS, False),
        ("0\n1\norders 0 \u0661\u0662\n".encode(), ORDERS, False),
        (b"0\n2\norders 0 7\norders 0 12\n", ORDERS, False),
        (b"0\n1\norders 0 x\n", {}, False),
        (b"0\n2\norders 0 7\norders 0 99999999999999999999\n", {}, False),
        (b"0\n-1\n", {}, False),
        (b"1\n1\norders 0 12\n", {}, True),
        (b"0\nx\norders 0 12\n", {}, True),
        (b"0\n2\norders 0 12\n", {}, True),
        (b"0\n1\norders 0 12 5\n", {}, True),
        (b"0\n1\n orders 0 12\n", {}, True),
        (b"0\n1\norders\xc2\xa00 12\n", {}, True),
        (b"0\n1\norders 0 12\n\n", {}, True),
        (b"\xff\n", {}, True),
    ],
)
def test_checkpoints(tmp_path: Path, text: bytes, offsets: object, is_refused: bool) -> None:
    """The directory of a refused one goes offline; a bad number only empties it."""
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (tmp_path / name).write_bytes(text)
    known = read_log_directory(str(tmp_path))
    assert known.recovery_points == known.log_starts == offsets
    assert [name for name, _ in known.refusals] == (
        ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"] if is_refused else []
    )


def test_a_checkpoint_that_cannot_be_read_is_not_taken_for_empty(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").mkdir()
    with pytest.raises(KdumpError):
        read_log_directory(str(tmp_path))
