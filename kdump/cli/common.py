"""What several commands do with what they are given."""

from __future__ import annotations

from collections.abc import Callable

import click


def show_log(note: Callable[[str], None], *, verbose: bool) -> None:
    """Let ``note`` take what kdump itself logs: warnings, with ``verbose`` more. What others log is not shown.

    py4j would show the traceback of an interrupt. The messages begin with the program's name, for processes without a
    command line.
    """
    import logging

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(record.getMessage().removeprefix("kdump: "))

    logging.getLogger().addHandler(logging.NullHandler())
    log = logging.getLogger("kdump")
    log.handlers[:] = [Notes(logging.INFO if verbose else logging.WARNING)]
    log.setLevel(log.handlers[0].level)


def has_pyarrow(option: str) -> bool:
    """Whether pyarrow is installed, which ``option`` needs. If not, report which extra has it."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        click.echo(f"kdump: {option} needs pyarrow: pip install pyarrow", err=True)
        return False
    return True
