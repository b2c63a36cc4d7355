"""``kdump convert`` on the command line: what it writes, what it says, how it ends."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kdump.rows.filetables import CONVERTED, FINDING, LOSS
from tests.harness.batches import NOW, ZSTD, entries, plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, KDUMP, UNREADABLE, USAGE, kdump, shell
from tests.harness.conversions import records
from tests.harness.fast_reference import Row

NAME = f"{0:020}.log"
ROWS = [Row(0, 0, b"k", b"v", [(b"h", b"x")]), Row(1, 1, None, b"w")]
LOG = v2_batch(ROWS) + v2_batch([Row(0, 0, b"k", b"z")], base_offset=2)
DAMAGED = LOG + v2_batch(ROWS, base_offset=3, crc=1)


HOLD_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print(flush=True)
input()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a sound and a damaged segment, and a log directory of two partitions."""
    (tmp_path / NAME).write_bytes(LOG)
    (tmp_path / "damaged.log").write_bytes(DAMAGED)
    for partition, names in {"t-0": [0, 50], "t-1": [7]}.items():
        (tmp_path / "data" / partition).mkdir(parents=True)
        for first in names:
            log = v2_batch(plain_rows(3), base_offset=first)
            (tmp_path / "data" / partition / f"{first:020}.log").write_bytes(log)
    return tmp_path


def convert(home: Path, *words: str, stdin: bytes = b"") -> tuple[int, str, str]:
    run = kdump("convert", *words, cwd=home, stdin=stdin)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def tree(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files(folder)}


def trio(stem: str) -> list[str]:
    return [f"{stem}.{suffix}" for suffix in ("index", "log", "timeindex")]


def test_to_a_file(home: Path) -> None:
    status, out, err = convert(home, NAME, "-o", "new/old.log", "--to-magic", "1")
    assert (status, err) == (CLEAN, "")
    assert out == f"{NAME}: 1 records lose their headers\n{NAME} -> new/old.log: 3 records, 107 bytes\n"
    assert files(home / "new") == trio("old")
    assert [record.value for record in records((home / "new" / "old.log").read_bytes())] == [b"v", b"w", b"z"]


@pytest.mark.parametrize("target", ["new/", "there"])
def test_to_a_directory(home: Path, target: str) -> None:
    (home / "there").mkdir()
    assert convert(home, NAME, "-o", target, "--to-magic", "0")[0] == CLEAN
    assert files(home / target) == trio(NAME[:20])


@pytest.mark.parametrize("source", ["data", "data/"])
def test_a_log_directory(home: Path, source: str) -> None:
    status, out, _ = convert(home, source, "-o", "new", "--codec", "zstd")
    assert status == CLEAN
    assert len(out.splitlines()) == 3
    assert files(home / "new") == sorted(
        name for stem in (f"t-0/{0:020}", f"t-0/{50:020}", f"t-1/{7:020}") for name in trio(stem)
    )


def test_a_link_before_the_directory_above_the_target(home: Path) -> None:
    (home / "a" / "b").mkdir(parents=True)
    (home / "link").symlink_to("a/b")
    assert convert(home, "data/t-1", "-o", "link/../out", "--codec", "zstd")[0] == CLEAN
    assert files(home / "a" / "out") == trio("00000000000000000007")
    assert not (home / "out").exists()


def test_json_lines_are_named_by_their_first_offset(home: Path) -> None:
    stale = home / "new" / f"{0:020}.txnindex"
    stale.parent.mkdir()
    stale.write_bytes(b"of another log")
    assert convert(home, "-", "-o", "new/", "--from", "jsonl", stdin=b'{"offset": 5000000000}')[0] == CLEAN
    assert files(home / "new") == sorted([stale.name, *trio(f"{5000000000:020}")])


def test_json_lines_are_not_replaced_by_the_log(home: Path) -> None:
    (home / "t-0").mkdir()
    source = home / "t-0" / NAME
    source.write_bytes(b'{"value": "a"}')
    assert convert(home, f"t-0/{NAME}", "-o", "t-0/", "--from", "jsonl")[0] == UNREADABLE
    assert files(home / "t-0") == [NAME]
    assert source.read_bytes() == b'{"value": "a"}'


@pytest.mark.parametrize("words", [("data/t-0/", "--renumber", "50"), (f"data/t-0/{50:020}.log", "--to-magic", "1")])
def test_another_segment_beside_the_source_is_not_replaced(home: Path, words: tuple[str, ...]) -> None:
    before = (home / "data" / "t-0" / f"{50:020}.log").read_bytes()
    status, _, err = convert(home, f"data/t-0/{NAME}", "-o", *words)
    assert status == USAGE
    assert "is another segment beside the source" in err
    assert (home / "data" / "t-0" / f"{50:020}.log").read_bytes() == before


@pytest.mark.parametrize("words", [("--to", "jsonl"), ("--to", "csv"), ("--codec", "gzip")])
def test_two_segments_never_become_one_file(home: Path, words: tuple[str, ...]) -> None:
    """Of ``50.log`` and ``50.a.log`` the second one took the place of the first, with status 0."""
    (home / "data" / "t-0" / f"{50:020}.a.log").write_bytes(v2_batch(plain_rows(5), base_offset=50))
    status, _, err = convert(home, "data/t-0", "-o", "new", *words)
    assert status == UNREADABLE
    assert f"new/{50:020}." in err
    assert "two files of the output would become this one" in err
    assert not (home / "new").exists()


@pytest.mark.parametrize("words", [("--to", "jsonl"), ("--codec", "gzip"), ("--codec", "gzip", "--overwrite")])
def test_two_segments_never_become_one_file_by_a_link(home: Path, words: tuple[str, ...]) -> None:
    """A link among the directories of the target led the second partition to the files of the first one."""
    shutil.copytree(home / "data" / "t-0", home / "data" / "u-0")
    (home / "new" / "t-0").mkdir(parents=True)
    (home / "new" / "u-0").symlink_to("t-0")
    (home / "new" / "t-0" / f"{50:020}.log").write_bytes(b"mine")
    status, _, err = convert(home, "data", "-o", "new", *words)
    assert status == (UNREADABLE if "--overwrite" in words or "jsonl" in words else DAMAGE)
    assert (home / "new" / "t-0" / f"{50:020}.log").read_bytes() == b"mine"
    assert len(list((home / "new" / "t-0").iterdir())) == 1
    assert err.count("kdump: ") == 1


@pytest.mark.parametrize("is_last", [False, True])
def test_an_empty_segment_takes_no_name_when_renumbered(home: Path, *, is_last: bool) -> None:
    """It has the first offset of the next segment. Two of them were refused."""
    source = home / "data" / "t-0"
    empty = (900, 901) if is_last else (0,)
    for offset in empty:
        (source / f"{offset:020}.log").write_bytes(b"")
    assert convert(home, "data/t-0", "-o", "new", "--renumber", "100")[0] == CLEAN
    assert convert(home, "data/t-0", "-o", "with", "--renumber", "100", "--skip-damaged")[0] == CLEAN
    for offset in empty:
        (source / f"{offset:020}.log").unlink()
    assert convert(home, "data/t-0", "-o", "without", "--renumber", "100")[0] == CLEAN
    assert files(home / "new") == files(home / "without")
    for name in files(home / "new"):
        assert (home / "new" / name).read_bytes() == (home / "without" / name).read_bytes()


def test_the_directory_of_the_source_by_another_mount(home: Path) -> None:
    source, other = home / "data" / "t-0", home / "other"
    before = (source / f"{50:020}.log").read_bytes()
    other.mkdir()
    if subprocess.run(["mount", "--bind", str(source), str(other)], capture_output=True, check=False).returncode:
        pytest.skip("no directory can be mounted")
    try:
        target = f"other/{50:020}.log"
        status, _, err = convert(home, f"data/t-0/{NAME}", "-o", target, "--renumber", "50", "--overwrite")
    finally:
        subprocess.run(["umount", str(other)], check=True)
    assert (status, f"{target} is another segment beside the source" in err) == (USAGE, True)
    assert (source / f"{50:020}.log").read_bytes() == before


def test_only_files_are_replaced(home: Path) -> None:
    os.mkfifo(home / "pipe")
    (home / "link").symlink_to("/proc/self/fd/1")
    (home / "new" / f"{50:020}.log").mkdir(parents=True)
    for words in (
        (NAME, "-o", "pipe", "--to", "csv"),
        (NAME, "-o", "link", "--to", "csv"),
        ("data/t-0", "-o", "new", "--codec", "gzip"),
    ):
        status, out, err = convert(home, *words)
        assert (status, out) == (UNREADABLE, "")
        assert err.endswith(f"{words[2]}/{50:020}.log: is there and is no regular file\n") or err == (
            f"kdump: {words[2]}: is there and is no regular file\n"
        )
    assert (home / "pipe").is_fifo()
    assert (home / "link").is_symlink()
    assert files(home / "new") == []


def test_errors_name_the_file_that_was_asked_for(home: Path) -> None:
    (home / "file").write_bytes(b"")
    assert convert(home, NAME, "-o", "file/x.log", "--codec", "gzip")[2] == "kdump: file/x.log: Not a directory\n"


def test_damage_on_the_way_to_standard_output(home: Path) -> None:
    status, _, err = convert(home, "damaged.log", "-o", "-", "--to", "csv")
    assert status == DAMAGE
    assert "kdump repair saves what is valid" in err
    status, _, err = convert(home, "damaged.log", "-o", "-", "--to", "csv", "--skip-damaged")
    assert status == DAMAGE
    assert "kdump repair" not in err


def test_renumbering_goes_on_in_a_partition(home: Path) -> None:
    assert convert(home, "data", "-o", "new", "--renumber", "100")[0] == CLEAN
    assert [name for name in files(home / "new") if name.endswith(".log")] == [
        f"t-0/{100:020}.log",
        f"t-0/{103:020}.log",
        f"t-1/{100:020}.log",
    ]
    log = (home / "new" / "t-0" / f"{103:020}.log").read_bytes()
    assert [record.offset for record in records(log)] == [103, 104, 105]


def test_a_stream(home: Path) -> None:
    status, _, err = convert(home, "-", "-o", "new.log", "--to-magic", "1", stdin=LOG)
    assert (status, err) == (CLEAN, "")
    assert len(records((home / "new.log").read_bytes())) == 3
    status, _, err = convert(home, "-", "-o", "new/", "--to-magic", "1", stdin=LOG)
    assert status == USAGE
    assert "a stream has no name" in err


@pytest.mark.slow
def test_json_lines_through_a_pipe(home: Path) -> None:
    run = shell(f'$KDUMP convert --to jsonl {NAME} -o - | $KDUMP convert --from jsonl - -o "$PWD/again/"', home)
    assert run.returncode == CLEAN, run.stderr
    assert (home / "again" / NAME).read_bytes() == LOG


def test_csv(home: Path) -> None:
    status, out, err = convert(home, NAME, "-o", "-", "--to", "csv")
    assert (status, err) == (CLEAN, "")
    assert out.splitlines()[0].startswith("type,file,topic,partition,offset,")
    assert len(out.splitlines()) == 4
    assert convert(home, NAME, "-o", "new.csv", "--to", "csv")[0] == CLEAN
    assert (home / "new.csv").read_text() == out


@pytest.mark.parametrize("count", [2, 20_000])
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
@pytest.mark.slow
def test_records_that_are_there_twice_are_told(home: Path, form: str, count: int) -> None:
    """Those in the log that lie after offset 5 and are not above it; the large one goes the columnar way."""
    (home / "twice").mkdir()
    again = [v2_batch(plain_rows(count), base_offset=offset) for offset in (5, 5 + count, 5, 5 + 2 * count)]
    (home / "twice" / f"{5:020}.log").write_bytes(b"".join(again))
    (home / "twice" / f"{5 + 3 * count:020}.log").write_bytes(again[0])
    status, _, said = convert(home, "twice", "-o", "out", "--to", form)
    assert status == CLEAN
    what = f"{count:,} records have offsets that do not rise, first 5 after {{}}: they may be there twice"
    assert [line for line in said.splitlines() if "do not rise" in line] == [
        f"kdump: twice/{base:020}.log: {what.format(highest)} (see kdump verify)"
        for base, highest in ((5, 4 + 2 * count), (5 + 3 * count, 4 + 3 * count))
    ]


def test_csv_of_several_segments_has_one_title(home: Path) -> None:
    status, out, err = convert(home, "data", "-o", "-", "--to", "csv")
    assert (status, err) == (CLEAN, "")
    assert [line.split(",")[0] for line in out.splitlines()] == ["type", *["record"] * 9]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_exports_outside_the_range_are_not_written(home: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    status, output, said = convert(home, "data", "-o", "out", "--to", form, "--offset", "51:53", "--output", "jsonl")
    assert status == CLEAN
    assert files(home / "out") == [f"t-0/{50:020}.{form}"]
    assert said.count("nothing of it is in the range, it is not written") == 2
    records = None if form != "parquet" else 2
    assert [json.loads(line)["records"] for line in output.splitlines()] == [0, records, 0]
    assert convert(home, f"data/t-1/{7:020}.log", "-o", "one", "--to", form, "--offset", "51:53")[0] == CLEAN
    assert (home / "one").exists()


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_names_that_are_no_text(home: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    folder = os.fsencode(home) + b"/t\xff-0"
    os.mkdir(folder)
    Path(os.fsdecode(folder), NAME).write_bytes(LOG)
    status, output, err = convert(home, os.fsdecode(folder), "-o", "out", "--to", form, "--output", "jsonl")
    assert (status, err) == (CLEAN, "")
    assert json.loads(output)["topic"] == "t\N{REPLACEMENT CHARACTER}"
    if form != "parquet":
        shown = {"csv": ",t\N{REPLACEMENT CHARACTER},0,", "jsonl": '"topic":"t\N{REPLACEMENT CHARACTER}"'}
        assert shown[form] in (home / "out" / f"{NAME[:20]}.{form}").read_text()


def test_json_report(home: Path) -> None:
    status, out, _ = convert(home, NAME, "-o", "new.log", "--to-magic", "1", "--output", "jsonl")
    assert status == CLEAN
    loss, done = map(json.loads, out.splitlines())
    assert tuple(loss) == LOSS.names
    assert tuple(done) == CONVERTED.names
    assert (loss["kind"], loss["count"], loss["unit"]) == ("headers", 1, "records")
    assert (done["file"], done["target"], done["files"], done["size"], done["records"]) == (NAME, "new.log", 1, 107, 3)


def test_strict(home: Path) -> None:
    before = files(home)
    status, out, err = convert(home, NAME, "-o", "new/x.log", "--to-magic", "1", "--strict")
    assert status == DAMAGE
    assert out == f"{NAME}: 1 records lose their headers\n"
    assert err == "kdump: nothing was written: something would be lost (--strict)\n"
    assert files(home) == before
    assert not (home / "new").exists()
    assert convert(home, NAME, "-o", "new/x.log", "--to-magic", "2", "--codec", "zstd", "--strict")[0] == CLEAN


def test_zstd(home: Path) -> None:
    (home / "z.log").write_bytes(LOG + v2_batch(ROWS, base_offset=3, codec=ZSTD))
    status, out, err = convert(home, "z.log", "-o", "new.log", "--to-magic", "1")
    assert (status, out) == (DAMAGE, "")
    assert "at offset 3 would have to be compressed with zstd" in err
    assert not (home / "new.log").exists()
    status, out, _ = convert(home, "z.log", "-o", "new.log", "--to-magic", "1", "--codec", "gzip")
    assert status == CLEAN
    assert "z.log: 1 batches are recompressed: the format has no zstd\n" in out


def test_damage(home: Path) -> None:
    status, out, err = convert(home, "damaged.log", "-o", "new.log", "--to-magic", "1")
    assert (status, out) == (DAMAGE, "")
    assert f"damaged.log: damaged: KD108 batch-crc at {len(LOG)} " in err
    assert "kdump repair" in err
    assert "--skip-damaged" in err
    assert not (home / "new.log").exists()
    status, out, err = convert(
        home, "damaged.log", "-o", "new.log", "--to-magic", "1", "--skip-damaged", "--output", "jsonl"
    )
    assert status == DAMAGE
    assert f"damaged.log: left out: KD108 batch-crc at {len(LOG)} " in err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["type"] for row in rows] == ["loss", "finding", "converted"]
    assert tuple(rows[1]) == FINDING.names
    assert len(records((home / "new.log").read_bytes())) == 3


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_damage_in_exports(home: Path, form: str) -> None:
    pytest.importorskip("pyarrow")
    status, _, err = convert(home, "damaged.log", "-o", "new", "--to", form)
    assert status == DAMAGE
    assert "KD108 batch-crc" in err
    assert not (home / "new").exists()
    status, _, err = convert(home, "damaged.log", "-o", "new", "--to", form, "--skip-damaged")
    assert status == DAMAGE
    assert "left out: KD108" in err
    assert (home / "new").stat().st_size


@pytest.mark.parametrize("renumber", [(), ("--renumber", "0")])
def test_segments_outside_the_range_are_not_written(home: Path, renumber: tuple[str, ...]) -> None:
    words = ("data", "-o", "out", "--to-magic", "2", "--offset", "51:53", *renumber)
    status, output, said = convert(home, *words, "--output", "jsonl")
    assert status == CLEAN
    assert files(home / "out") == trio(f"t-0/{0 if renumber else 51 - 1:020}")
    assert said.count("nothing of it is in the range, it is not written") == 2
    assert [json.loads(line)["files"] for line in output.splitlines()] == [0, 1, 0]
    # Of a single file that is named the result is a log all the same.
    assert convert(home, f"data/t-1/{7:020}.log", "-o", "one.log", *words[3:])[0] == CLEAN
    assert (home / "one.log").read_bytes() == b""


def test_one_damaged_segment_of_a_directory(home: Path) -> None:
    (home / "data" / "t-1" / f"{7:020}.log").write_bytes(DAMAGED)
    before = files(home)
    assert convert(home, "data", "-o", "new", "--to-magic", "1")[0] == DAMAGE
    assert files(home) == before
    assert not (home / "new").exists()


def test_what_was_there_is_replaced_as_a_whole(home: Path) -> None:
    assert convert(home, NAME, "-o", "new/", "--to-magic", "1")[0] == CLEAN
    (home / "new" / f"{0:020}.txnindex").write_bytes(b"of another log")
    before = tree(home / "new")
    status, _, err = convert(home, NAME, "-o", "new/", "--to-magic", "0")
    assert (status, err) == (DAMAGE, f"kdump: new/{NAME}: is there already; --overwrite replaces it\n")
    assert tree(home / "new") == before
    assert convert(home, NAME, "-o", "new/", "--to-magic", "0", "--overwrite")[0] == CLEAN
    assert files(home / "new") == trio(NAME[:20])
    assert {entry[16] for entry in entries((home / "new" / NAME).read_bytes())} == {0}


@pytest.mark.parametrize("name", [f"{0:020}.index", f"{0:020}.timeindex", f"{0:020}.txnindex"])
def test_an_index_file_that_is_there_is_not_replaced(home: Path, name: str) -> None:
    (home / "new").mkdir()
    (home / "new" / name).write_bytes(b"mine")
    status, _, err = convert(home, NAME, "-o", "new", "--to-magic", "1")
    assert (status, err) == (DAMAGE, f"kdump: new/{name}: is there already; --overwrite replaces it\n")
    assert tree(home / "new") == {name: b"mine"}


def test_segments_that_are_split_off_replace_nothing(home: Path) -> None:
    """Their names are known only when they are written."""
    (home / "new").mkdir()
    other = home / "new" / f"{2:020}.log"
    other.write_bytes(b"mine")
    words = [NAME, "-o", "new/", "--split-bytes", "1"]
    status, _, err = convert(home, *words)
    assert (status, err) == (DAMAGE, f"kdump: new/{other.name}: is there already; --overwrite replaces it\n")
    assert tree(home / "new") == {other.name: b"mine"}
    assert convert(home, *words, "--overwrite")[0] == CLEAN
    assert other.read_bytes() != b"mine"


@pytest.mark.parametrize(("mode", "written"), [(0o600, 0o600), (0o640, 0o640), (0o666, 0o644), (0o4755, 0o644)])
def test_files_are_no_wider_than_their_source(home: Path, mode: int, written: int) -> None:
    (home / NAME).chmod(mode)
    before = os.umask(0o022)
    try:
        assert convert(home, NAME, "-o", "new/", "--to-magic", "1")[0] == CLEAN
        assert convert(home, NAME, "-o", "rows.csv", "--to", "csv")[0] == CLEAN
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o7777 for path in (home / "new").iterdir()} == {written}
    assert (home / "rows.csv").stat().st_mode & 0o7777 == written


@pytest.mark.parametrize(("source", "made"), [(0o700, 0o700), (0o750, 0o750), (0o777, 0o755), (0o555, 0o755)])
def test_new_directories_are_no_more_open_than_the_source(home: Path, source: int, made: int) -> None:
    (home / "t-0").mkdir()
    shutil.copy(home / NAME, home / "t-0" / NAME)
    os.chown(home / "t-0", -1, os.stat(home).st_gid)
    (home / "t-0").chmod(source)
    before = os.umask(0o022)
    try:
        assert convert(home, "t-0", "-o", "new/out", "--to-magic", "1")[0] == CLEAN
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o7777 for path in (home / "new", home / "new" / "out")] == [made] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
def test_files_keep_their_owner(home: Path) -> None:
    os.chown(home / NAME, 4711, 4712)
    assert convert(home, NAME, "-o", "new/", "--to-magic", "1")[0] == CLEAN
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (home / "new").iterdir()} == {(4711, 4712)}


FORMULAS = [b"=1+1", b"+1", b"-1", b"@SUM(A1)", b"\t=1", b"\r=1", b'="a","b"']
FORMULAS += [text.encode() for text in ("\n=1", "\ufeff=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20SUM", "\n")]
HARMLESS = [b"1=1", b"", b"a-b", b" =1", b"'=1", b"\xff=1", "\uff1c1".encode(), "\u00ef".encode()]


@pytest.mark.parametrize("words", [("dump", "--output", "csv", "--records"), ("convert", "--to", "csv", "-o", "-")])
@pytest.mark.parametrize("corrupt", [False, True])
def test_cells_that_a_spreadsheet_would_compute(home: Path, words: tuple[str, ...], corrupt: bool) -> None:
    """Text gets an apostrophe; numbers, as -1 of a batch without a producer, stay. The columns' way and the rows'."""
    rows = [Row(number, 0, value, value) for number, value in enumerate(FORMULAS + HARMLESS)]
    log = v2_batch(rows)
    (home / NAME).write_bytes(log + (v2_batch(rows, base_offset=50, crc=1) if corrupt else b""))

    def cells(*more: str) -> list[dict[str, str]]:
        skipped = ["--skip-damaged"] if corrupt and words[0] == "convert" else []
        run = kdump(*words, *more, *skipped, NAME, cwd=home)
        return list(csv.DictReader(io.StringIO(run.stdout.decode(), newline="")))

    plain, safe = cells(), cells("--csv-safe")
    assert len(plain) == len(safe) >= len(rows)
    for before, after in zip(plain, safe, strict=True):
        for name, value in before.items():
            is_formula = name in ("key", "value") and value[:1] in tuple("=+-@\t\r\n\ufeff＝＋－＠")
            assert after[name] == (f"'{value}" if is_formula and value else value)
    assert [row["value"] for row in safe[: len(FORMULAS)]] == [f"'{value.decode()}" for value in FORMULAS]
    assert any(row["producerId"] == "-1" for row in safe)


def test_csv_safe_goes_with_csv(home: Path) -> None:
    assert convert(home, NAME, "-o", "x.jsonl", "--to", "jsonl", "--csv-safe")[0] == USAGE
    assert kdump("dump", "--output", "jsonl", "--csv-safe", NAME, cwd=home).returncode == USAGE


@pytest.mark.parametrize("word", ["--codec=\x1b[31mx", "--\x1b]0;x\x07", "--offset=\x1b[2J", "--level=\x9b1m"])
def test_usage_errors_drive_no_terminal(home: Path, word: str) -> None:
    status, _, err = convert(home, NAME, "-o", "new", word)
    assert status == USAGE
    assert not {"\x1b", "\x07", "\x9b"} & set(err)
    # click leaves whole sequences out.
    assert "\\x" in err or "''" in err


OVER_SOURCE = {
    "itself": (NAME, NAME),
    "its directory": (NAME, "."),
    "a link": (NAME, "link.log"),
    "another name": (NAME, "hard.log"),
    "its index": (NAME, "indexed.log"),
    "a directory": ("data", "data"),
    "a directory by another way": ("data", "t/../data"),
}


@pytest.mark.parametrize(("source", "target"), OVER_SOURCE.values(), ids=OVER_SOURCE.keys())
def test_never_over_the_source(home: Path, source: str, target: str) -> None:
    (home / "t").mkdir()
    (home / "link.log").symlink_to(NAME)
    (home / "hard.log").hardlink_to(home / NAME)
    (home / f"{0:020}.index").write_bytes(b"")
    (home / "indexed.index").hardlink_to(home / f"{0:020}.index")
    before = {name: (home / name).read_bytes() for name in files(home)}
    status, _, err = convert(home, source, "-o", target, "--to-magic", "1")
    assert status == USAGE
    assert "the source" in err
    assert {name: (home / name).read_bytes() for name in files(home)} == before


def test_split_segments_do_not_replace_neighbours(home: Path) -> None:
    source = home / "data" / "t-0" / f"{0:020}.log"
    source.write_bytes(v2_batch(plain_rows(3)) + v2_batch(plain_rows(3), base_offset=50))
    before = {name: (home / name).read_bytes() for name in files(home)}
    status, _, err = convert(home, str(source), "-o", "data/t-0/new.log", "--split-bytes", "1")
    assert status == UNREADABLE
    assert "exists beside the source" in err
    assert {name: (home / name).read_bytes() for name in files(home)} == before


def test_a_running_broker(home: Path) -> None:
    (home / "live" / "t-0").mkdir(parents=True)
    with (home / "live" / ".lock").open("w") as lock:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD_LOCK, lock.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        with holder:
            status, _, err = convert(home, NAME, "-o", "live/t-0/", "--to-magic", "1")
            holder.communicate("\n")
    assert status == UNREADABLE
    assert "a broker runs on this log directory" in err
    assert not files(home / "live" / "t-0")
    assert convert(home, NAME, "-o", "live/t-0/", "--to-magic", "1")[0] == CLEAN


USAGE_ERRORS = {
    "nothing": ((), "no SRC given"),
    "no target": ((NAME, "--to-magic", "1"), "no DST given"),
    "empty target": ((NAME, "-o", "", "--to-magic", "1"), "no DST given"),
    "nothing to do": ((NAME, "-o", "x.log"), "nothing to do"),
    "magic": ((NAME, "-o", "x.log", "--to-magic", "3"), "--to-magic"),
    "zstd in old": ((NAME, "-o", "x.log", "--to-magic", "1", "--codec", "zstd"), "needs --to-magic 2"),
    "level alone": ((NAME, "-o", "x.log", "--level", "3"), "--level goes with --codec"),
    "level of snappy": ((NAME, "-o", "x.log", "--codec", "snappy", "--level", "3"), "--level goes with --codec"),
    "level too high": ((NAME, "-o", "x.log", "--codec", "gzip", "--level", "10"), "gzip has levels 1 to 9"),
    "export and format": ((NAME, "-o", "x", "--to", "csv", "--to-magic", "1"), "--to csv does not go with --to-magic"),
    "export and magic 0": ((NAME, "-o", "x", "--to", "csv", "--to-magic", "0"), "--to csv does not go with --to-magic"),
    "export and import": ((NAME, "-o", "x", "--to", "csv", "--from", "jsonl"), "--to csv does not go with --from"),
    "log to stdout": ((NAME, "-o", "-", "--to-magic", "1"), "-o - (standard output) goes with"),
    "parquet to stdout": ((NAME, "-o", "-", "--to", "parquet"), "-o - (standard output) goes with"),
    "committed stream": (("-", "-o", "x.log", "--isolation", "read_committed"), "reads its input twice"),
    "directory to file": (("data", "-o", NAME, "--to-magic", "1"), "data is a directory"),
}


@pytest.mark.parametrize(("words", "said"), USAGE_ERRORS.values(), ids=USAGE_ERRORS.keys())
def test_usage(home: Path, words: tuple[str, ...], said: str) -> None:
    before = files(home)
    status, out, err = convert(home, *words)
    assert (status, out) == (USAGE, "")
    assert said in err
    assert files(home) == before


UNREADABLE_INPUT = {
    "missing": "missing.log",
    "no segment": "notes.txt",
    "index": f"{0:020}.index",
    "directory without segments": "empty",
}


@pytest.mark.parametrize("source", UNREADABLE_INPUT.values(), ids=UNREADABLE_INPUT.keys())
@pytest.mark.parametrize("words", [("--to-magic", "1"), ("--to", "jsonl")])
def test_unreadable(home: Path, source: str, words: tuple[str, ...]) -> None:
    (home / "notes.txt").write_text("no log")
    (home / f"{0:020}.index").write_bytes(b"")
    (home / "empty").mkdir()
    status, _, err = convert(home, source, "-o", "new/", *words)
    assert status == UNREADABLE
    assert source in err
    assert not (home / "new").exists()
    if words[0] == "--to":
        assert convert(home, source, "-o", "-", *words)[0] == UNREADABLE


def test_unwritable(home: Path) -> None:
    status, _, err = convert(home, NAME, "-o", f"{NAME}/x.log", "--to-magic", "1")
    assert status == UNREADABLE
    assert "Not a directory" in err
    status, _, err = convert(home, NAME, "-o", "/dev/full/x.log", "--to-magic", "1")
    assert status == UNREADABLE


@pytest.mark.slow
def test_without_pyarrow(home: Path) -> None:
    (home / "pyarrow.py").write_text("raise ImportError")
    run = subprocess.run(
        [*KDUMP, "convert", NAME, "-o", "x.parquet", "--to", "parquet"],
        cwd=home, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(home)},
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (UNREADABLE, "")
    assert run.stderr == "kdump: --to parquet needs pyarrow: pip install pyarrow\n"


def test_times(home: Path) -> None:
    status, _, _ = convert(home, NAME, "-o", "x.log", "--time", f"{NOW + 1}..")
    assert status == CLEAN
    assert [record.offset for record in records((home / "x.log").read_bytes())] == [1]


@pytest.mark.slow
def test_interrupted(home: Path) -> None:
    """Nothing is left of what was written."""
    code = (
        "import sys, kdump.convert.output as o\n"
        "def stop(self, entries): raise KeyboardInterrupt\n"
        "o._OutputSegment.write = stop\n"
        f"sys.argv = ['kdump', 'convert', {NAME!r}, '-o', 'new/', '--to-magic', '1']\n"
        "from kdump.cli.main import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, check=False)
    assert run.returncode == 130
    assert not (home / "new").exists()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.slow
def test_killed(home: Path, name: str) -> None:
    """The same, and the one who waits sees the signal."""
    code = (
        "import os, signal, sys, kdump.convert.output as o\n"
        # Whoever runs the tests may ignore it.
        f"signal.signal(signal.{name}, signal.SIG_DFL)\n"
        f"def stop(self, entries): os.kill(os.getpid(), signal.{name})\n"
        "o._OutputSegment.write = stop\n"
        f"sys.argv = ['kdump', 'convert', {NAME!r}, '-o', 'new/', '--to-magic', '1']\n"
        "from kdump.cli.main import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (-getattr(signal, name), b"", b"")
    assert not (home / "new").exists()


def test_options_of_spark(home: Path) -> None:
    for words in (["-", "-o", "x.log"], [NAME, "-o", "-"]):
        form = ["--to", "csv"] if words[-1] == "-" else ["--to-magic", "1"]
        status, _, err = convert(home, *words, *form, "--engine", "spark")
        assert status == USAGE
        assert "--engine local only" in err
    assert convert(home, NAME, "-o", "s3://bucket/x.log", "--to-magic", "1")[0] == USAGE


@pytest.mark.slow
def test_a_reader_that_leaves_early(home: Path) -> None:
    run = shell(f'$KDUMP convert {NAME} -o "$PWD/new/" --to-magic 1 --output jsonl | true', home)
    assert run.returncode == CLEAN
    assert files(home / "new") == trio(NAME[:20])


def test_verbose(home: Path) -> None:
    status, _, err = convert(home, NAME, "-o", "x.log", "--to-magic", "1", "-v")
    engine = "kdump: engine: local, 1 process (one segment is for one process)\n"
    assert (status, err) == (CLEAN, f"{engine}kdump: {NAME}: read, 1 kinds of losses\n")
