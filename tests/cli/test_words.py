"""What people type first works, or is answered with something that works: the tables of ``kdump.cli.words``."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import click
import pytest

from kdump.cli.command import Command
from kdump.cli.main import cli
from kdump.cli.words import COMMANDS, OPTIONS, option_names, own_answer
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, DAMAGED_BATCH, NAME, UNREADABLE, USAGE, kdump, on_a_terminal

VALUES = {
    **{"N": "1", "TIME": "now", "A:B": "1:2", "A:": "1:", ":B": ":2", "T1..T2": "1..2", "T1..": "1..", "..T2": "..2"},
    **{"POSITION": "0", "BYTES": "1", "HOST:PORT": "127.0.0.1:0", "USER:PASSWORDFILE": "u:f", "STRING": "%k"},
    **{"NAME-0=B": "orders-0=5", "LOGDIR/NAME-0": "orders-0"},
}
"""What a placeholder of an answer may be."""
NAMES = [name for name in cli.list_commands(click.Context(cli)) if name not in ("help", "man", "completion")]


WHOLE = {
    **{name: ["PATH"] for name in NAMES},
    "repair": ["PATH", "PATH -o DIR"],
    "restore": ["PATH", "PATH -o LOGDIR --topic t --topic-id i"],
    "explain": ["PATH 0"],
    "convert": ["SRC --to jsonl -o DST"],
}
"""The least command lines, with which an option can be tried."""


def _is_line(answer: str) -> bool:
    return answer.startswith("kdump ")


def check(words: list[str]) -> None:
    """Raises where such a command line is a usage error."""
    words = [VALUES.get(word, word) for word in words]
    with cli.make_context("kdump", list(words)) as root:
        command = cli.get_command(root, words[0])
        assert isinstance(command, Command)
        with command.make_context(words[0], words[1:], parent=root) as context:
            command.arguments(context.params).check()


@pytest.mark.parametrize("line", sorted({one for row in COMMANDS + OPTIONS for one in row.answers if _is_line(one)}))
def test_command_lines_work(line: str, tmp_path: Path) -> None:
    words = shlex.split(line)[1:]
    if words[0] in ("--version", "--help", "man", "completion") or "help" in words:
        assert kdump(*words, cwd=tmp_path).returncode == CLEAN
    elif "{}" not in words:
        check(words)


@pytest.mark.parametrize("command", NAMES)
def test_answers_for_a_command_work(command: str) -> None:
    root = click.Context(cli)
    found = cli.get_command(root, command)
    assert found is not None
    for row in OPTIONS:
        answer = own_answer(row, command, option_names(found))
        if answer is None:
            assert any(_is_line(one) for one in row.answers)
        elif _is_line(answer):
            check(shlex.split(answer)[1:])
        elif answer != "--output":
            check_option(command, shlex.split(answer))


def check_option(command: str, option: list[str]) -> None:
    """Raises where no command line can have that option."""
    failures = []
    for line in WHOLE[command]:
        try:
            check([command, *line.split(), *option])
        except click.UsageError as error:
            failures.append(error.format_message())
        else:
            return
    raise AssertionError(f"{command} {option}: {failures}")


def test_a_word_has_one_meaning() -> None:
    for rows in (COMMANDS, OPTIONS):
        counts = Counter(word for row in rows for word in row.typed.split())
        assert [word for word, count in counts.items() if count > 1] == []
    real = set(cli.list_commands(click.Context(cli)))
    assert not real & {word for row in COMMANDS for word in row.typed.split()}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """orders-0 is clean, orders-1 is damaged."""
    for name, data in (("orders-0", BATCH), ("orders-1", BATCH + DAMAGED_BATCH)):
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(data)
    return tmp_path


def last_line(run_stderr: bytes) -> str:
    return run_stderr.decode().strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("head orders-0", "No such command 'head'. Use: kdump dump --records --limit 10 PATH"),
        ("grep x orders-0", "No such command 'grep'. Use: kdump dump --value RE PATH, or: kdump dump --key RE PATH"),
        ("help fsck", "No such command 'fsck'. Use: kdump verify PATH"),
        ("VERIFY orders-0", "No such command 'VERIFY'. Use: kdump verify"),
        ("vrify orders-0", "No such command 'vrify'. Did you mean 'kdump verify'?"),
        ("xyzzy", "No such command 'xyzzy'."),
        # Meaning comes before spelling: --csv-safe is near.
        ("dump --csv orders-0", "No such option '--csv'. Use: kdump dump --output csv PATH"),
        ("convert --csv orders-0", "No such option '--csv'. Use: kdump convert SRC --to csv -o DST"),
        ("verify --salvage orders-0", "No such option '--salvage'. Use: kdump repair --salvage"),
        ("stats --threads 4 orders-0", "No such option '--threads'. Use: --jobs N"),
        ("dump --threads 4 orders-0", "No such option '--threads'. Use: kdump verify --jobs N PATH"),
        ("dump --print_data_log orders-0", "No such option '--print_data_log'. Use: --print-data-log"),
        ("verify --JSON orders-0", "No such option '--JSON'. Use: --json"),
        ("verify -json orders-0", "No such option '-json'. Use: --json"),
        ("dump -output csv orders-0", "No such option '-output'. Use: --output"),
        ("--json verify orders-0", "No such option '--json'. It follows the command: kdump dump --json"),
        ("dump --resnc orders-0", "No such option '--resnc'. Did you mean '--resync'?"),
        ("dump --verif orders-0", "No such option '--verif'. Did you mean '--verify-index-only'?"),
        ("verify --format json orders-0", "No such option '--format'. Use: --output text|jsonl|junit|sarif|github"),
        (
            "dump --offset 5-10 orders-0",
            "Invalid value for '--offset': '5-10' is not A:B (either may be left out), nor one offset; "
            "5:10 is such a range",
        ),
        ("verify -V", "No such option '-V'. Use: kdump --version"),
        ("dump --xyzzy orders-0", "No such option '--xyzzy'."),
        ("dump -f csv orders-0", "there is no file 'csv'. Use: kdump dump --output csv PATH"),
        ("dump json orders-0", "there is no file 'json'. Use: kdump dump --output jsonl PATH"),
        (
            "dump --format json orders-0",
            "--format: 'json' has no field, such as %k. Use: kdump dump --output jsonl PATH",
        ),
        (
            "dump --format 100%% orders-0",
            "--format: '100%%' has no field, such as %k. "
            "Other outputs are --output jsonl, csv, table, arrow and parquet",
        ),
        (
            "dump --format junit orders-0",
            "--format: 'junit' has no field, such as %k. Use: kdump verify --output junit PATH",
        ),
        (
            "convert orders-0 out.parquet",
            "Got unexpected extra argument (out.parquet). "
            "The result is named by -o: kdump convert SRC --to parquet -o DST",
        ),
        (
            "dump --topic orders",
            "no PATH given: a segment, a partition directory or a log directory; log.dirs in server.properties names "
            "those (kdump dump --help)",
        ),
        (
            "repair --dry-run --in-place orders-0",
            "--dry-run is the default: kdump prints the plan and changes nothing, as long as --in-place is not given",
        ),
        ("dump --since 1..2 orders-0", "Invalid value for '--since': '1..2' is not one time (--time takes T1..T2)"),
        ("dump --since 1 --time ..2 orders-0", "--since does not go with --time"),
    ],
)
def test_hints(logs: Path, line: str, message: str) -> None:
    run = kdump(*line.split(), cwd=logs)
    assert (run.returncode, run.stdout) == (USAGE, b"")
    assert last_line(run.stderr) == f"Error: {message}"


def test_a_file_with_the_name_of_an_output_is_a_file(logs: Path) -> None:
    (logs / "csv").mkdir()
    (logs / "csv" / NAME).write_bytes(BATCH)
    assert kdump("dump", "csv", cwd=logs).returncode == CLEAN


@pytest.mark.parametrize(
    "line", ["dump orders-0", "verify .", "stats .", "diff orders-0 orders-1", "repair orders-1", "restore ."]
)
def test_json(logs: Path, line: str) -> None:
    command, *paths = line.split()
    short, long = (kdump(command, *option, *paths, cwd=logs) for option in (("--json",), ("--output", "jsonl")))
    assert short.stdout == long.stdout != b""
    assert short.returncode == long.returncode
    assert all(one.startswith(b'{"type"') for one in short.stdout.splitlines())


def test_the_last_output_counts(logs: Path) -> None:
    assert kdump("verify", "--json", "--output", "text", ".", cwd=logs).stdout.startswith(b"./orders-0")
    assert kdump("verify", "--output", "text", "--json", ".", cwd=logs).stdout.startswith(b"{")


def test_quiet(logs: Path) -> None:
    clean = kdump("verify", "-q", "orders-0/" + NAME, cwd=logs)
    assert (clean.returncode, clean.stdout.count(b"\n")) == (CLEAN, 3)
    assert clean.stdout.endswith(b"\n1 segment: 2 warnings\n")
    damaged = kdump("verify", "--quiet", ".", cwd=logs)
    whole = kdump("verify", ".", cwd=logs)
    assert damaged.returncode == whole.returncode == DAMAGE
    findings = [line for line in whole.stdout.splitlines() if re.search(rb" KD\d{3} ", line)]
    assert damaged.stdout.splitlines() == [*findings, b"2 segments: 1 error, 4 warnings"]


def test_since_and_until(logs: Path) -> None:
    shown = ("dump", "--output", "jsonl", "--records", "orders-0")
    for since, until in ((None, "1000"), ("1000", None), ("1000", "2000"), ("0", "-1d")):
        options = [*(("--since", since) if since else ()), *(("--until", until) if until else ())]
        both = kdump(*shown, *options, cwd=logs)
        assert both.stdout == kdump(*shown, "--time", f"{since or ''}..{until or ''}", cwd=logs).stdout
        assert both.returncode == CLEAN


def test_limit_and_dry_run(logs: Path) -> None:
    assert kdump("dump", "--json", "--records", "--limit", "2", "orders-0", cwd=logs).stdout.count(b"\n") == 2
    assert kdump("repair", "--dry-run", "orders-1", cwd=logs).stdout == kdump("repair", "orders-1", cwd=logs).stdout
    assert kdump("restore", "--dry-run", ".", cwd=logs).stdout == kdump("restore", ".", cwd=logs).stdout != b""


def test_nothing_on_a_terminal(logs: Path) -> None:
    page = on_a_terminal(cwd=logs).decode().replace("\r\n", "\n")
    assert len(page.splitlines()) < 24
    for line in re.findall(r"kdump ((?:verify|stats|dump|repair|convert) .*?)(?:   .*)?$", page, re.MULTILINE):
        check(shlex.split(line))
    assert "kdump verify PATH" in page
    assert b"Usage:" in kdump(cwd=logs).stdout + kdump(cwd=logs).stderr


def test_partition_is_a_filter(logs: Path) -> None:
    assert kdump("dump", "--partition", "0", ".", cwd=logs).stdout == kdump("dump", "./orders-0", cwd=logs).stdout
    run = kdump("verify", "--topic", "orders", "--partition", "7", ".", cwd=logs)
    assert (run.returncode, b"--partition 7: no partition has this number; there are 0, 1" in run.stderr) == (
        UNREADABLE,
        True,
    )
