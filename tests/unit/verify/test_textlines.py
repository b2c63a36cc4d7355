"""The text of verify: what is clean is one line for a partition, and so are leftovers."""

from __future__ import annotations

from kdump.codes import Codes, Finding, Severity
from kdump.verify.partition import Item
from kdump.verify.summary import SegmentSummary
from kdump.verify.textlines import TerminalSummary, TextLines

NOTHING = dict.fromkeys(Severity, 0)


def segment(folder: str, base: int, *, errors: int = 0) -> SegmentSummary:
    counts = NOTHING | {Severity.ERROR: errors}
    return SegmentSummary(f"{folder}/{base:020}.log", 100, 2, base, base + 9, counts, None)


def damage(folder: str, base: int, lost: int | None) -> Finding:
    last = None if lost is None else base + lost - 1
    first = None if lost is None else base
    return Finding(Codes.BATCH_CRC, "the CRC is wrong", 7, 20, first, last, path=f"{folder}/{base:020}.log")


def lines(*items: Item) -> list[str]:
    made = TextLines(color=False)
    return [line.rstrip("\n") for item in items for line in made.of(item)] + [line.rstrip("\n") for line in made.rest()]


def test_clean_segments_are_one_line() -> None:
    found = lines(segment("d/t-0", 0), segment("d/t-0", 10), segment("d/t-1", 0), segment("d/u-0", 5))
    assert found == [
        "d/t-0: 2 segments, 4 batches, 200 bytes, offsets 0..19: clean",
        f"d/t-1/{0:020}.log: 2 batches, 100 bytes, offsets 0..9: clean",
        f"d/u-0/{5:020}.log: 2 batches, 100 bytes, offsets 5..14: clean",
    ]


def test_damaged_ones_keep_their_lines() -> None:
    items = (segment("t-0", 0), damage("t-0", 10, 3), segment("t-0", 10, errors=1), segment("t-0", 20))
    assert lines(*items) == [
        f"t-0/{10:020}.log: error KD108 batch-crc at 7 (20 bytes): the CRC is wrong; offsets 10..12 lost (at most)",
        f"t-0/{10:020}.log: 2 batches, 100 bytes, offsets 10..19: 1 error",
        "t-0: 2 other segments, 4 batches, 200 bytes: clean",
    ]


def test_leftovers_are_one_line() -> None:
    items = [Finding(Codes.LEFTOVER, "a leftover (.deleted)", 0, path=f"t-0/{n:020}.log.deleted") for n in range(5)]
    (line,) = lines(*items)
    assert line.startswith("t-0: ")
    assert "5 leftovers: " in line
    assert f"{2:020}.log.deleted, ..." in line
    assert lines(items[0]) == [f"t-0/{0:020}.log.deleted: info KD318 leftover at 0: a leftover (.deleted)"]


def summary(*items: Item, width: int = 80) -> str:
    made = TerminalSummary(width=width, color=False)
    for item in items:
        made.add_finding(item) if isinstance(item, Finding) else made.add_segment(item)
    return made.text()


def test_the_end_names_what_matters_most() -> None:
    text = summary(
        damage("d/t-0", 0, None),
        segment("d/t-0", 0, errors=1),
        damage("d/t-1", 10, 500),
        segment("d/t-1", 10, errors=1),
    )
    table, _, end = text.partition("2 errors; the most important one:\n")
    assert f"│t-1/{10:020}.log │" in table
    assert all(len(line) <= 80 for line in table.splitlines())
    assert end.splitlines() == [
        f"d/t-1/{10:020}.log: error KD108 batch-crc at 7 (20 bytes): the CRC is wrong; offsets 10..509 lost (at most)",
        f"next: kdump dump --explain 7 d/t-1/{10:020}.log",
        "      kdump repair d/t-1",
    ]


def test_digits_are_never_cut() -> None:
    long = "a-topic-with-quite-a-long-name-as-there-are-many-of-them-12"
    text = summary(segment(f"d/{long}", 7, errors=1), segment(f"d/{long}", 8, errors=1))
    assert f"{long}/{7:020}.log" in text


def test_nothing_is_wrong() -> None:
    assert summary(segment("t-0", 0), segment("t-0", 10)) == "nothing is wrong: 1 partition, 2 segments, 200 B\n"
    assert summary(segment("t-0", 0)) == ""
