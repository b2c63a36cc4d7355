"""What several commands do with what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from kdump.log.files import strip_credentials
from kdump.log.names import is_uri
from kdump.log.paths import expanded

if TYPE_CHECKING:
    from kdump.codes import KdumpError


def named_paths(paths: Iterable[str], topics: Sequence[str], on_error: Callable[[KdumpError], None]) -> tuple[str, ...]:
    """What a command works on: what fits the patterns in URIs, and of log directories the partitions of ``topics``.

    ``paths``: as ``files.strip_credentials`` gave them. A shell replaces patterns of this machine's files itself.
    """
    found = [one for path in paths for one in (expanded(path, on_error) if is_uri(path) else [path])]
    if topics:
        from kdump.log.topics import paths_of_topics

        found = list(map(strip_credentials, paths_of_topics(found, topics, on_error)))
    return tuple(found)


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
        click.echo(f"kdump: {option} needs pyarrow: pip install 'kafka-kdump[parquet]'", err=True)
        return False
    return True
