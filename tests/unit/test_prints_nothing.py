"""The library prints nothing: only the command line writes to standard output and standard error.

What a module below ``cli`` has to say it gives back, hands to a callback, or logs under the name ``kdump``.
"""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kdump

ROOT = Path(kdump.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] != "cli")
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


CALLS = {"print", "os.write(1", "os.write(2", "traceback.print_exc", "traceback.print_exception"}
WORDS = ("print", "os.write", *STREAMS)
"""A module without any of them is not looked into further."""
MAY_PRINT = {"spark/worker.py", "spark/pipeline.py"}
"""One stands in for ``traceback.print_exc`` of Spark's own worker, which it lets print all but one exception. The other
is a command of its own, for spark-submit."""


def prints(text: str) -> Iterator[str]:
    """What in a module writes to the streams of the process, or could."""
    if not any(word in text for word in WORDS):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in CALLS or (node.args and f"{name}({ast.unparse(node.args[0])}" in CALLS):
                yield ast.unparse(node)
        elif isinstance(node, ast.Attribute):
            if node.attr in STREAMS and ast.unparse(node.value) == "sys":
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            yield from (alias.name for alias in node.names if alias.name in STREAMS)


def test_no_module_below_the_command_line_prints() -> None:
    found = {str(path.relative_to(ROOT)): list(prints(path.read_text())) for path in MODULES}
    assert {name for name, calls in found.items() if calls} == MAY_PRINT, found


@pytest.mark.parametrize(
    "text",
    [
        "print('x')",
        "import sys\nprint('x', file=sys.stderr)",
        "import sys\nsys.stderr.write('x')",
        "from sys import stdout",
        "import os\nos.write(2, b'x')",
        "import traceback\ntraceback.print_exc()",
    ],
)
def test_what_prints_is_found(text: str) -> None:
    assert list(prints(text))


def test_what_does_not_print_is_not() -> None:
    assert not list(prints("import sys, os\nconsole.print('x')\nos.write(fd, b'x')\nsys.executable\nnode.stdout"))


def test_a_warning_shows_on_stderr_where_nobody_set_up_logging() -> None:
    """As in a worker of Spark."""
    code = 'import logging; logging.getLogger("kdump").warning("kdump: %s", "gone")'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"kdump: gone\n")


@pytest.mark.parametrize(("verbose", "shown"), [(False, ["gone"]), (True, ["gone", "here"])])
def test_the_command_line_shows_what_kdump_logs_and_nothing_of_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verbose: bool, shown: list[str]
) -> None:
    from kdump.cli.console import Console

    notes: list[str] = []
    console = Console()
    monkeypatch.setattr(console, "note", notes.append)
    loggers = logging.getLogger(), logging.getLogger("kdump")
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    try:
        for logger in loggers:
            logger.handlers = []
        console.show_log(verbose=verbose)
        logging.getLogger("kdump").warning("kdump: %s", "gone")
        logging.getLogger("kdump").info("kdump: here")
        logging.getLogger("py4j").warning("noise")
    finally:
        for logger, (handlers, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.level = handlers, level
    assert notes == shown
    assert capsys.readouterr().err == ""
