"""Help, manual and README say the same: options, exit statuses, codes."""

from __future__ import annotations

import re
import tomllib

import click
import pytest
from click.testing import CliRunner

from kdump import __version__
from kdump.cli import exit_status
from kdump.cli.command import Command
from kdump.cli.main import cli
from kdump.codes import Codes
from kdump.log.context import FileContext
from kdump.rows import columns, filetables, tables
from kdump.rows.arrow import KAFKA_SOURCE, arrow_schema
from kdump.rows.formatted import FormatLines
from kdump.spark import options
from kdump.spark.pipeline import command_parser
from kdump.spark.readrecords import Mode
from tests.harness import ROOT

OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
ROFF_REQUEST = re.compile(r"^\.(?:B|BR|BI|I|IR|IP|SH|SS|TH|RB|RI)\b ?", re.MULTILINE)

PIPELINE = set(re.findall(r"--[a-z][a-z-]*", command_parser().format_help()))
"""Options of ``python -m kdump.spark.pipeline``."""


def command_of(name: str) -> click.Command:
    context = click.Context(cli)
    if name == "kdump":
        return cli
    command = cli.get_command(context, name.removeprefix("kdump-"))
    assert command is not None
    return command


SMALL = {"explain", "man", "completion", "help"}
"""Commands that kdump(1) describes."""
NAMES = ["kdump", *(f"kdump-{name}" for name in cli.list_commands(click.Context(cli)) if name not in SMALL)]
SPARK = "kdump-spark"
PAGES = {**dict.fromkeys(NAMES, 1), SPARK: 7, "kdump-startup": 7}
"""Names and sections of the manual."""


def declared_options(name: str) -> set[str]:
    command = command_of(name)
    context = click.Context(command, **command.context_settings)
    return {
        spelling
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option) and not parameter.hidden
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }


def page(name: str) -> str:
    return (ROOT / "man" / f"{name}.{PAGES[name]}").read_text()


def manual(name: str) -> str:
    """The page without its markup, section headings in capitals on lines of their own."""
    text = page(name)
    text = re.sub(r'^\.\\".*\n', "", text, flags=re.MULTILINE)
    text = re.sub(r"\\f[BIRP]|\\&", "", text.replace("\\-", "-").replace("\\e", "\\"))
    return ROFF_REQUEST.sub("", text.replace('"', ""))


def section(name: str, title: str) -> str:
    body = re.search(rf'^\.SH "?{title}"?\n(.*?)(?=^\.SH|\Z)', page(name), flags=re.MULTILINE | re.DOTALL)
    assert body is not None, f"{name}: no section {title}"
    return body[1]


def help_text(name: str) -> str:
    command = [] if name == "kdump" else [name.removeprefix("kdump-")]
    result = CliRunner().invoke(cli, [*command, "--help"], prog_name="kdump")
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", NAMES[1:])
def test_brief_help(name: str) -> None:
    command = command_of(name)
    assert isinstance(command, Command)
    result = CliRunner().invoke(cli, [name.removeprefix("kdump-"), "-h"], prog_name="kdump")
    assert result.exit_code == 0
    table = result.output.partition("\nOptions:\n")[2].partition("\n\n")[0]
    rows = [OPTION.findall(row) for row in re.findall(r"^  (-\S.*?)(?:  |$)", table, flags=re.MULTILINE)]
    assert len(rows) == len(command.most_used) < 16
    assert all(any(name in row for row in rows) for name in command.most_used)
    options = [each for each in command.get_params(click.Context(command)) if isinstance(each, click.Option)]
    count = sum(not each.hidden for each in options)
    assert f"kdump {name.removeprefix('kdump-')} --help shows all {count} options." in result.output
    assert "Examples:" in result.output


def test_brief_help_of_a_command_with_few_options() -> None:
    brief, full = (CliRunner().invoke(cli, ["completion", option], prog_name="kdump") for option in ("-h", "--help"))
    assert brief.exit_code == 0
    assert brief.output == full.output


def test_defaults_and_ranges_in_the_help() -> None:
    for name in NAMES[1:]:
        text = " ".join(help_text(name).split())
        assert "<=x" not in text
        assert "x>=" not in text
        defaults = [
            option.default
            for option in command_of(name).params
            if isinstance(option, click.Option) and isinstance(option.default, str) and option.show_default is True
        ]
        assert all(f"[default: {default}]" in text for default in defaults)
    assert "[default: 128 MiB]" in help_text("kdump-verify")
    assert "[default: auto: on a terminal without NO_COLOR]" in " ".join(help_text("kdump-verify").split())


@pytest.mark.parametrize("name", PAGES)
def test_every_option_that_is_mentioned_exists(name: str) -> None:
    # A page may point to options of another command; calls of others' tools, over several lines, do not count.
    known = set().union(PIPELINE, *map(declared_options, NAMES))
    text = re.sub(r"(?:kafka-[\w-]+\.sh|spark-submit|venv-pack) -(?:.*\\\n)*.*", "", manual(name))
    mentioned = {option for option in OPTION.findall(text) if option.startswith("--")}
    assert mentioned <= known


def test_options_of_the_pipeline() -> None:
    assert PIPELINE - {"--help"} <= set(OPTION.findall(manual("kdump-spark")))


def test_options_in_the_readme_exist() -> None:
    table = re.findall(r"`(--[\w-]+)", (ROOT / "README.md").read_text())
    assert table
    assert set(table) <= set().union(*map(declared_options, NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_exit_statuses(name: str) -> None:
    statuses = {value for value in vars(exit_status).values() if type(value) is int}
    assert set(map(int, re.findall(r"^\.B (\d+)$", section(name, "EXIT STATUS"), flags=re.MULTILINE))) == statuses


def test_exit_statuses_in_help_and_readme() -> None:
    statuses = {str(value) for value in vars(exit_status).values() if type(value) is int}
    sentence = " ".join(help_text("kdump").split()).partition("Exit status:")[2].partition("Options:")[0]
    assert set(re.findall(r"\d+", sentence)) == statuses
    readme = (ROOT / "README.md").read_text().partition("## Exit status")[2].partition("##")[0]
    assert set(re.findall(r"^\| (\d+) \|", readme, flags=re.MULTILINE)) == statuses


def test_catalogue_of_codes() -> None:
    text = section("kdump", "CODES").replace("\\-", "-")
    listed = re.findall(r"^\.B (KD\d+) (\S+)$", text, flags=re.MULTILINE)
    assert listed == [(entry.value.code, entry.value.name) for entry in Codes]
    severity = dict(re.findall(r"^\.B (KD\d+) \S+\n(?:(?!\.).*\n)*?.*\[(\w+)\]$", text, flags=re.MULTILINE))
    assert severity.items() <= {entry.value.code: entry.value.severity.value for entry in Codes}.items()
    assert len({code for code, _ in listed}) == len({name for _, name in listed}) == len(listed)


TABLES = [
    tables.BATCH,
    tables.RECORD,
    filetables.INDEX,
    filetables.TIME_INDEX,
    filetables.TXN_INDEX,
    filetables.PRODUCER,
    filetables.CHECKPOINT,
    filetables.EPOCH,
    filetables.FINDING,
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.type)
def test_columns(table: columns.Table) -> None:
    text = section("kdump-dump", "OUTPUT FORMATS").partition(f".TP\n.B {table.type}\n")[2]
    listed = re.split(r"^\.(?:TP|SS)|\.$|;", text, flags=re.MULTILINE)[0]
    if table is tables.RECORD:
        listed = re.split(r"^With$", text, flags=re.MULTILINE)[0]
    listed = re.sub(r"\([^()]*\)", "", ROFF_REQUEST.sub("", listed))
    assert tuple(re.findall(r"\w+", listed)) == table.names[len(columns.FILE) :]


def test_columns_of_properties() -> None:
    assert "\n.B property\nname, value;" in section("kdump-dump", "OUTPUT FORMATS")
    assert filetables.PROPERTY.names == ("type", "file", "name", "value")


def test_keys_of_statistics() -> None:
    text = section("kdump-stats", "OUTPUT FORMATS").partition('.SS "JSON lines"')[2].partition(".SS")[0]
    tags = re.findall(r"^\.TP\n\.BR? (.*)$", text, flags=re.MULTILINE)
    assert tuple(re.findall(r"\w+", " ".join(tags))) == filetables.STATS.names


def test_verbs_and_escapes() -> None:
    def is_known(template: str) -> bool:
        try:
            FormatLines(template, FileContext("", None, None))
        except ValueError:
            return False
        return True

    text = section("kdump-dump", "FORMAT STRINGS")
    verbs = {chr(code) for code in range(33, 127) if is_known("%" + chr(code))}
    assert set(re.findall(r"%(\S)", text)) == verbs
    assert set(re.findall(r"%(\S)", help_text("kdump-dump"))) <= verbs
    escapes = {chr(code) for code in range(33, 127) if is_known("\\" + chr(code))}
    assert set(re.findall(r"\\e(\\e|[a-z0-9])", text)) - {"x"} == {"\\e" if char == "\\" else char for char in escapes}
    assert [is_known(template) for template in (r"\xFf", r"\xF", "%", "\\")] == [True, False, False, False]


@pytest.mark.parametrize("name", PAGES)
def test_pages_belong_to_this_version(name: str) -> None:
    heading = page(name).partition(".TH ")[2].partition("\n")[0]
    assert heading.startswith(f"{name.upper()} {PAGES[name]} ")
    assert f'"kdump {__version__}"' in heading


def test_no_other_pages_and_all_are_installed() -> None:
    names = {path.name for path in (ROOT / "man").iterdir()}
    assert names == {f"{name}.{number}" for name, number in PAGES.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    installed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert installed == {f"man/{name}": f"share/man/man{name[-1]}/{name}" for name in names}


def test_pages_that_are_pointed_to_exist() -> None:
    for name in PAGES:
        pointed = re.findall(r"\b(kdump[\w-]*) \((\d)\)", page(name).replace("\\-", "-"))
        assert {(other, int(number)) for other, number in pointed} <= PAGES.items()


def test_options_of_the_data_sources() -> None:
    tags = re.findall(r"^\.TP\n(\.BR? .*)$", section(SPARK, "OPTIONS"), flags=re.MULTILINE)
    listed = [name for tag in tags for name in re.findall(r"\w+", tag.partition(" ")[2])]
    assert listed == [name for name in options.KNOWN if name not in options.PATHS]
    streams = section(SPARK, "READING STREAMS").partition(".SS Options")[2].partition(".SS")[0]
    assert set(options.STREAM_ONLY) <= set(re.findall(r"\w+", streams))
    assert {mode.value for mode in Mode} == set(re.findall(r"^\.TP\n\.B (\w+)$", section(SPARK, "MODES"), re.MULTILINE))


def test_columns_of_the_data_sources() -> None:
    text = section(SPARK, "COLUMNS")
    first = re.findall(
        r"\w+", re.sub(r"\([^()]*\)", "", text.partition("Records begin with")[2].partition(": exactly")[0])
    )
    names = [name for name in first if name not in ("BR", "and")]
    assert names == arrow_schema(tables.RECORD).names[: len(names)] == list(KAFKA_SOURCE)
    findings = text.partition("Findings have")[2].partition(".PP")[0]
    assert tuple(name for name in re.findall(r"\w+", findings) if name not in ("BR", "and")) == filetables.FINDING.names


def test_set_up_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    dump, tests = [line for line in lines if line.startswith("python3 -m venv")]
    for command in (dump, tests):
        assert "pip install" in command
    capture = ROOT / dump.split()[-1]
    assert capture.is_relative_to(ROOT / "fixtures" / "segments")
    assert capture.read_bytes()[16] == 2
    assert tests.endswith('-m pytest -q -n auto --dist worksteal -m "not slow and not spark"')


def test_changelog_names_the_version() -> None:
    assert f"{__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", (ROOT / page).read_text()):
        assert (ROOT / target).exists(), target
