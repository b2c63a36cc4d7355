"""Every command line of the manual, the README and the help runs as it is typed, but for the names of machines.

A line runs in a small world of its own page, through bash: what it calls besides kdump is there too, or stands for it.
Lines that need a cluster, a store or a broker are parsed by the command line instead.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kdump.cli.main import cli
from tests.harness import ROOT
from tests.harness.archives import unpack_cases
from tests.harness.batches import NOW, v2_batch
from tests.harness.blocks import blocks
from tests.harness.cli_runs import CLEAN, DAMAGE, INTERRUPTED, KDUMP
from tests.harness.decoder_logs import commit
from tests.harness.fast_reference import Row

CONTEXT = click.Context(cli, **cli.context_settings)
COMMANDS = {name: cli.get_command(CONTEXT, name) for name in cli.list_commands(CONTEXT)}
PAGES = sorted((ROOT / "man").iterdir())

PLACEHOLDERS = {
    r"\bX\.log\b": "00000000000000000000.log",
    r"(?<= )\.(?= [|>])": "segments",
    r"(?<![\w.])/(?=(?:archive|backup|data|mnt|tmp|var)/)": "",
}
"""What a reader puts in the place of names in the examples: a number, where one is, what is below the root."""

ELSEWHERE = re.compile(r"s3://|--master|--engine spark|--metadata|kdump serve")
"""Lines that need what is not there, such as a cluster, or that never end: they are parsed only."""

STATUSES = {
    "--follow": INTERRUPTED,
    "--log-start-offset 5 ": CLEAN,
    "--log-start-offset": DAMAGE,
    # The logs here end before these offsets: what was flushed once is lost.
    "--recovery-point": DAMAGE,
    "kdump dump --explain 7628 fixtures": DAMAGE,
    "kdump repair fixtures": DAMAGE,
    "kdump verify fixtures": DAMAGE,
}
"""The first of these that a line contains says how it ends; else with 0."""

NO_COMMANDS = frozenset(
    {
        *("adds", "also", "an", "and", "answers", "asks", "calls", "can", "cannot", "checks", "compares"),
        *("compresses", "continues", "cuts", "decodes", "did", "differs", "distinguishes", "does", "ends"),
        *("escapes", "fetches", "finds", "first", "follows", "for", "gathers", "gets", "has", "it", "keeps", "knows"),
        *("lists", "loads", "looks", "makes", "models", "modifies", "names", "need", "needs", "never", "often"),
        *("opens", "predicts", "prepares", "printed", "prints", "promises", "puts", "reads", "recognizes"),
        *("refuses", "removes", "replaces", "reports", "says", "scans", "shows", "starts", "still"),
        *("takes", "tells", "trusts", "uses", "waits", "with", "writes"),
    }
)
"""Words that follow the name of the program in a sentence."""


def plain(page: str) -> str:
    """A page of the manual without the markup of its letters."""
    page = re.sub(
        r"\\f[BIRP]|\\&", "", page.replace("\\-", "-").replace("\\(aq", "'").replace("\\(ha", "^").replace("\\e", "\\")
    )
    return re.sub(
        r"^\.(?:B|BR|BI|I|IR|RB|RI)\b ?(.*)$", lambda match: match[1].replace('"', ""), page, flags=re.MULTILINE
    )


def whole_lines(block: str) -> Iterator[str]:
    """The lines of a block that call kdump, without prompts and remarks; a line that ends with a pipe goes on."""
    for line in re.sub(r"\|\n +", "| ", block).splitlines():
        typed = re.sub(r"^(?:\$|- run:|Example:) ", "", line.strip())
        if re.match(r"kdump |[^#]*\| kdump ", typed):
            yield re.sub(r"\s# .*", "", typed).rstrip()


def of_manual(page: str) -> list[str]:
    return [
        line
        for block in re.findall(r"^\.EX\n(.*?)^\.EE", plain(page), re.MULTILINE | re.DOTALL)
        for line in whole_lines(block)
    ]


def of_readme() -> list[str]:
    """The blocks with names of other machines; tests/docs/test_blocks.py runs the others."""
    examples = (block.text for block in blocks(ROOT / "README.md") if block.is_example)
    return [line for text in examples for line in whole_lines(text)]


def of_help(name: str) -> list[str]:
    """The examples after the options; what each does stands after two blanks or, in a long line, one."""
    command = cli if name == "kdump" else COMMANDS[name]
    assert command is not None
    return [re.split(r"\s{2,}|(?<=-) (?=a )|(?<=tombstones) ", line)[0] for line in whole_lines(command.epilog or "")]


SOURCES = {
    **{page.name: of_manual(page.read_text()) for page in PAGES},
    "README.md": of_readme(),
    **{f"{name} --help": of_help(name) for name in ["kdump", *COMMANDS]},
}


ROWS = [Row(number, number, struct.pack(">q", number), b"value") for number in range(3)]


def partition(directory: Path) -> None:
    """Two segments of two batches; index files of so small segments are empty."""
    directory.mkdir()
    for base in (0, 6):
        data = b"".join(v2_batch(ROWS, base_offset=offset, base_timestamp=NOW + offset) for offset in (base, base + 3))
        (directory / f"{base:020}.log").write_bytes(data)
        (directory / f"{base:020}.index").write_bytes(b"")
        (directory / f"{base:020}.timeindex").write_bytes(struct.pack(">qi", NOW + 5, 5) if not base else b"")
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples are about, each as good as it must be for its lines to end as they should."""
    root = tmp_path_factory.mktemp("world")
    orders = root / "orders-0"
    partition(orders)
    logs = ["var/lib/kafka", "data/kafka", "backup/kafka", "segments"]
    names = ["orders-3", "users-0", "t-0", "a-b-1", "my.topic_a-12", "backup/orders-0"]
    for name in [*(f"{log}/orders-0" for log in logs), *names]:
        shutil.copytree(orders, root / name)
    for log in logs:
        (root / log / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
        (root / log / ".kafka_cleanshutdown").write_text("")
    for number in (7, 12):
        folder = root / f"__consumer_offsets-{number}"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(v2_batch([commit("billing")]))
    metadata = unpack_cases("metadata", tmp_path_factory.mktemp("metadata"))
    shutil.copytree(metadata / "cluster" / "n1" / "__cluster_metadata-0", root / "__cluster_metadata-0")
    shutil.copytree(ROOT / "fixtures" / "schemas" / "_schemas-0", root / "_schemas-0")
    zookeeper = unpack_cases("zookeeper", tmp_path_factory.mktemp("zookeeper"))
    shutil.copytree(zookeeper / "3.9.1" / "data", root / "var" / "lib" / "zookeeper")
    for suffix in ("log", "index", "timeindex"):
        shutil.copy(orders / f"{0:020}.{suffix}", root)
        shutil.copy(orders / f"{0:020}.{suffix}", root / f"0.{suffix}")
    compressed = subprocess.run(["gzip", "-c", root / "0.log"], capture_output=True, check=True).stdout
    (root / f"{0:020}.log.zst").write_bytes(compressed)
    rows = [*KDUMP, "dump", "--output", "jsonl", "--records", f"{0:020}.log"]
    with (root / "rows.jsonl").open("wb") as file:
        subprocess.run(rows, cwd=root, stdout=file, check=True)
    manifest = [*KDUMP, "verify", "--manifest", "orders.manifest", "orders-0"]
    subprocess.run(manifest, cwd=root, check=True, stdout=subprocess.DEVNULL)
    (root / "fixtures").symlink_to(ROOT / "fixtures")
    (root / "mnt" / "other").mkdir(parents=True)
    (root / "tmp").mkdir()
    return root


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of the examples: kdump is this one, ssh is at home, and a file of zstd is one of gzip."""
    folder = tmp_path_factory.mktemp("tools")
    scripts = {
        "kdump": f'exec {shlex.join(KDUMP)} "$@"',
        "ssh": 'shift; exec "$@"',
        "mail": "cat > /dev/null",
        "zstd": 'exec gzip "$@"',
        "zstdcat": 'exec gzip -dc "$@"',
    }
    if shutil.which("jq") is None:
        scripts["jq"] = "cat > /dev/null"
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


def expected(line: str) -> int:
    return next((status for part, status in STATUSES.items() if part in line), CLEAN)


def parse(line: str) -> None:
    """click.UsageError for a line that the command line does not take."""
    program, name, *words = shlex.split(re.split(r" [|>]", line)[0])
    assert program == "kdump"
    command = cli.get_command(CONTEXT, name)
    assert command is not None, line
    command.make_context(name, words, parent=CONTEXT)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.slow
def test_commands_run(source: str, world: Path, tools: Path, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    shutil.copytree(world, folder, symlinks=True)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PAGER": "cat"}
    wrong = []
    for line in SOURCES[source]:
        if ELSEWHERE.search(line):
            parse(line)
            continue
        typed = line
        for placeholder, name in PLACEHOLDERS.items():
            typed = re.sub(placeholder, name, typed)
        if "--follow" in typed:
            typed = f"timeout --preserve-status -s INT 5 {typed}"
        (folder / "old").mkdir(exist_ok=True)
        run = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {typed}"],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=120,
            check=False,
        )
        if run.returncode != expected(line):
            wrong.append(f"{line}\nended with {run.returncode}: {run.stderr.decode()[-500:]}")
    assert not wrong, "\n".join(wrong)


def test_there_are_commands_everywhere() -> None:
    assert all(SOURCES.values())
    assert sum(map(len, SOURCES.values())) > 100


def test_usage_errors_are_seen() -> None:
    with pytest.raises(click.UsageError):
        parse("kdump verify --no-such-option s3://bucket/orders-0")


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_commands_that_are_named_exist(path: Path) -> None:
    """In sentences too: after the name of the program stands a command, an option, or a word of the sentence."""
    text = plain(path.read_text())
    named = set(re.findall(r"(?<![\w./'-])kdump (?!-)([a-z]+)\b(?![\w./-])", text))
    assert named - COMMANDS.keys() <= NO_COMMANDS
    for name, option in re.findall(r"(?<![\w./'-])kdump ([a-z]+) (--[a-z-]+)", text):
        command = COMMANDS[name]
        assert command is not None
        spellings = {
            word for parameter in command.get_params(CONTEXT) for word in (*parameter.opts, *parameter.secondary_opts)
        }
        assert option in spellings, f"{name} {option}"


def test_examples_of_code() -> None:
    """The examples in Python name no command that does not exist, and are Python."""
    for path in (ROOT / "examples").glob("*.py"):
        compile(path.read_text(), path, "exec")
        named = set(re.findall(r"(?<![\w./'-])kdump ([a-z]+)", path.read_text()))
        assert named <= COMMANDS.keys()
