"""Values that somebody else chose, at every entry: numbers beyond Kafka's types, odd names, odd JSON. No exception."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kdump import scan
from kdump.cli.main import cli
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, NAME, UNREADABLE, USAGE

LARGEST = 2**63 - 1
NUMBERS = (
    *map(str, (-1, LARGEST, LARGEST + 1, -LARGEST - 2)),
    *("9" * 5000, "\u0663" * 20, "1e400", "nan"),
)
LOG = b"".join(v2_batch(plain_rows(3), base_offset=3 * number) for number in range(3))
COMMANDS = (
    "dump",
    "dump --all-files",
    "dump --output jsonl --records --isolation read_committed",
    "verify",
    "verify --startup",
    "stats",
    "repair",
    "repair --salvage -o OUT",
    "convert -o OUT --codec gzip",
    "convert -o OUT --renumber 5",
    "convert -o OUT --to jsonl",
)
ON_LINES = ("dump", "dump --output jsonl", "dump --output table")
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).write_bytes(LOG)
    return tmp_path


_RUNS = count(1)


def check(command: str, *words: str) -> int:
    """Run it in this process; gives its exit status. No exception leaves it, as main() would call it internal."""
    words = (*command.replace("OUT", f"out-{next(_RUNS)}").split(), *words)
    result = CliRunner().invoke(cli, list(words), standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        return USAGE
    assert result.exception is None, ([word[:60] for word in words], result.exception)
    status = result.return_value or CLEAN
    assert status in (CLEAN, DAMAGE, USAGE, UNREADABLE)
    return int(status)


# --- Options ---


def options_with_values() -> Iterator[tuple[str, str]]:
    """(command, option) of those that take a value that is neither a path nor one of a few."""
    for command in ("dump", "verify", "stats", "repair", "convert"):
        found = cli.get_command(click.Context(cli), command)
        assert found is not None
        for option in found.params:
            is_free = not isinstance(option.type, click.Path | click.Choice)
            if isinstance(option, click.Option) and not option.is_flag and is_free:
                yield command, option.opts[-1]


WITH = {"convert": "-o OUT --codec gzip", "verify": "--startup"}


@pytest.mark.parametrize(
    ("command", "option"),
    [
        pytest.param(*pair, marks=[pytest.mark.slow] if number % 8 else [])
        for number, pair in enumerate(options_with_values())
        if pair[1] not in ("--master", "--pager", "--conf", "--executors")
    ],
)
def test_numbers_in_options(home: Path, command: str, option: str) -> None:
    for value in NUMBERS:
        for text in (value, f"{value}:", f"-{value.strip('-')}h", f"retention={value}d"):
            check(f"{command} {WITH.get(command, '')}", option, text, NAME)


@pytest.mark.parametrize("command", ["dump", "dump --output jsonl", "convert -o OUT", "convert -o - --to jsonl"])
@pytest.mark.slow
def test_numbers_in_ranges(home: Path, command: str) -> None:
    for value in NUMBERS:
        for text in (f"{value}:", f":{value}", f"{value}:{value}"):
            check(command, "--offset", text, NAME)
        for text in (f"{value}..", f"..{value}", f"-{value.strip('-')}w..", "0001-01-01T00:00:00+23:59..9999-12-31"):
            check(command, "--time", text, NAME)


@pytest.mark.parametrize("command", [*COMMANDS, "verify --startup --unclean", "repair --salvage --correct", "diff"])
@pytest.mark.parametrize("first", [LARGEST - 3, LARGEST - 2, LARGEST - 1, LARGEST])
@pytest.mark.slow
def test_damage_at_the_largest_offset(home: Path, first: int, command: str) -> None:
    """A good batch, one with a wrong CRC, the good one again, and junk. Some of them end beyond the largest offset."""
    good = v2_batch(plain_rows(3), base_offset=first)
    for copy in ("a", "b"):
        (home / copy / "orders-0").mkdir(parents=True)
        log = home / copy / "orders-0" / f"{LARGEST - 3:020}.log"
        log.write_bytes(good + good[:-1] + bytes([good[-1] ^ 1]) + good + copy.encode() * 20)
    paths = {"diff": ("a", "b"), "dump": (str(log),)}.get(command.split(maxsplit=1)[0], ("a",))
    assert check(command, *paths) == (CLEAN if command == "repair --salvage -o OUT" else DAMAGE)


@pytest.mark.parametrize("options", ["", "--to-magic 1", "--to-magic 0", "--codec zstd", "--split-bytes 100"])
def test_renumber_ends_at_the_largest_offset(home: Path, options: str) -> None:
    convert = f"convert {options} -o OUT/"
    # The end offset is one too.
    assert check(convert, "--renumber", str(LARGEST - 9), NAME) == CLEAN
    assert check(convert, "--renumber", str(LARGEST - 8), NAME) == DAMAGE
    assert check(convert, "--renumber", str(LARGEST), NAME) == DAMAGE
    assert check(convert, "--renumber", str(LARGEST + 1), NAME) == USAGE
    # Of what was refused nothing is left.
    assert {path.parent for path in home.rglob("*.log")} == {home, next(home.rglob("out-*"))}


def test_renumber_of_several_segments(home: Path) -> None:
    (home / "t-0").mkdir()
    (home / "t-0" / NAME).write_bytes(LOG)
    (home / "t-0" / f"{9:020}.log").write_bytes(b"")
    # The second one would begin after the largest offset.
    assert check("convert -o OUT", "--renumber", str(LARGEST - 8), "t-0") == DAMAGE
    assert check("convert -o OUT", "--renumber", str(LARGEST - 9), "t-0") == CLEAN


# --- Names ---

STEMS = (
    "9" * 20,
    str(LARGEST),
    f"{LARGEST:020}",
    str(LARGEST + 1),
    "-1",
    str(-LARGEST - 1),
    "9" * 200,
    "+5",
    "\u0663" * 20,
    f"{'9' * 20}-{'A' * 22}",
    "x",
    "1e5",
)


@pytest.mark.parametrize("stem", STEMS, ids=ascii)
@pytest.mark.slow
def test_names_of_files(home: Path, stem: str) -> None:
    folder = home / "logs" / "t-0"
    folder.mkdir(parents=True)
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        (folder / f"{stem}{suffix}").write_bytes(LOG if suffix == ".log" else b"")
    for command in COMMANDS:
        for path in ("logs", "logs/t-0", f"logs/t-0/{stem}.log", f"logs/t-0/{stem}.index"):
            check(command, path)


@pytest.mark.parametrize(
    "name", [f"t-{2**31}", f"t-{'9' * 200}", "t--1", "t-\u0663", "-0", "t-", "\udcff-0"], ids=ascii
)
@pytest.mark.slow
def test_names_of_directories(home: Path, name: str) -> None:
    folder = home / "logs" / name
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(LOG)
    (home / "logs" / "meta.properties").write_text("version=1\nnode.id=1\n")
    (home / "logs" / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    for command, path in product(COMMANDS, ("logs", f"logs/{name}")):
        check(command, path)


@pytest.mark.parametrize("path", [f"{'9' * 5000}.log", f"t-{'9' * 5000}/{NAME}"], ids=["file", "directory"])
def test_names_that_cannot_be(home: Path, path: str) -> None:
    for command in COMMANDS:
        assert check(command, path) != CLEAN
    assert check("dump --files", path) != USAGE


# --- Expressions ---


@pytest.mark.parametrize("expression", ["a{4294967295}", "(" * 3000 + ")" * 3000, "(", "\udcff("], ids=range(4))
@pytest.mark.parametrize("option", ["--key", "--value", "--header"])
def test_expressions_that_do_not_compile(home: Path, option: str, expression: str) -> None:
    given = f"a={expression}" if option == "--header" else expression
    assert check(f"dump --output jsonl --records {option}", given, NAME) == USAGE
    with pytest.raises(ValueError, match="no regular expression"):
        scan(NAME, keys=expression)


# --- Text files ---

LINE_NUMBERS = ("-1", str(LARGEST + 1), "9" * 5000)
LINES = tuple(
    [f"0\n1\nt 0 {value}\n" for value in LINE_NUMBERS]
    + [f"0\n1\n{value} {value}\n" for value in LINE_NUMBERS]
    + [f"0\n{value}\nt 0 1\n" for value in LINE_NUMBERS]
    + [f"{value}\n1\nt 0 1\n" for value in LINE_NUMBERS]
    + [f"version={value}\nnode.id={value}\ncluster.id=\\uD800\n" for value in LINE_NUMBERS]
    + [f"version: {value}\ntopic_id: {'x' * 100_000}\n" for value in LINE_NUMBERS]
)
JSON = (
    DEEP,
    '{"a":' * 50_000 + "1" + "}" * 50_000,
    *(
        f'{{"version":0,"data_version":1,"brokerEpoch":1,"leaderId":1,"x":{value},"\\udfff":1}}'
        for value in ("[" * 300 + "]" * 300, "[" * 700 + "]" * 700, '"\\ud800"', "[1e400]")
    ),
    *("NaN", "Infinity", "1e400", "9" * 5000, "null", "[]", "{}", '""', "true", '"\\ud800"', "\x00"),
    *(
        f'{{"version":{first},"data_version":{first},"brokerEpoch":{value},"leaderId":{value},"leaderEpoch":{value}}}'
        for first in ("0", "1")
        for value in ("NaN", "[]", "null", "9" * 30, DEEP)
    ),
)


@pytest.mark.parametrize(
    ("place", "contents"),
    [
        *((f"t-0/{name}", LINES) for name in ("leader-epoch-checkpoint", "partition.metadata")),
        ("t-0/quorum-state", JSON),
        (".kafka_cleanshutdown", JSON),
        *((name, LINES) for name in ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint")),
        *((name, LINES) for name in ("log-start-offset-checkpoint", "replication-offset-checkpoint")),
        ("meta.properties", LINES),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.slow
def test_contents_of_text_files(home: Path, place: str, contents: tuple[str, ...]) -> None:
    path = home / "logs" / place
    (home / "logs" / "t-0").mkdir(parents=True)
    (home / "logs" / "t-0" / NAME).write_bytes(LOG)
    for text in contents:
        path.write_text(text)
        for command in ("verify", "verify --startup", "repair"):
            check(command, "logs")
        for command in ON_LINES:
            check(command, f"logs/{place}")


# --- JSON lines ---

MEMBERS = (
    *("type", "offset", "timestamp", "timestampType", "key", "value", "headers", "keySize", "sequence", "producerId"),
    *("producerEpoch", "partitionLeaderEpoch", "isTransactional", "isControl", "txnState", "magic", "compression"),
    *("batchBaseOffset", "position", "file", "unknown"),
)
VALUES = (
    *(
        DEEP,
        "NaN",
        "1e400",
        "1.5",
        "9" * 5000,
        "true",
        "[]",
        "null",
    ),
    *map(str, (LARGEST, LARGEST + 1, -LARGEST - 2, 2**31)),
    *('""', '"\\ud800"', "[null]", '[["k",1]]', "[[null,null]]", '{"base64":1}', '{"base64":"!"}'),
)


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.slow
def test_json_lines(home: Path, member: str) -> None:
    for number, value in enumerate(VALUES):
        lines = []
        for offset in (5, 6, 7):
            others = {"offset": offset, "timestamp": 1, "key": "k", "value": "v"}
            others.pop(member, None)
            lines.append(f'{json.dumps(others)[:-1]}, "{member}": {value}}}\n')
        Path("x.jsonl").write_text("".join(lines))
        check("convert --from jsonl --to-magic 1 -o", "old.log", "x.jsonl")
        check("convert --from jsonl -o", "OUT/", "--renumber", str(LARGEST - 1), "x.jsonl")
        log = f"new-{number}.log"
        if check(f"convert --from jsonl -o {log}", "x.jsonl") == CLEAN:
            for command in ("verify", "dump --output jsonl --records", "stats"):
                check(command, log)


@pytest.mark.slow
def test_json_lines_as_deep_as_the_parser_goes(home: Path) -> None:
    for depth in range(910, 1000, 5):
        nested = "[" * depth + "]" * depth
        for member in ("type", "position", "key"):
            line = f'{{"{member}": {nested}}}\n'
            Path("x.jsonl").write_text(line * 2)
            assert check("convert --from jsonl -o d.log", "x.jsonl") == DAMAGE


def test_json_lines_with_far_timestamps(home: Path) -> None:
    far = (-LARGEST - 1, -1, 0, 1, LARGEST)
    for first, second in product(far, far):
        rows = ({"offset": 0, "timestamp": first}, {"offset": 1, "timestamp": second})
        Path("x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        check("convert --from jsonl -o", f"far-{first}-{second}.log", "x.jsonl")
