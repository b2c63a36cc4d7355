"""Where the Python processes that kdump starts look for modules."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ENVIRONMENT = threading.Lock()


@contextmanager
def only_own_modules() -> Iterator[None]:
    """Pythons that start meanwhile take modules from the working directory only if this process takes them there.

    ``python -c`` and ``python -m`` look there first. It may be a directory of logs, where others put what they like.
    The environment of this process is afterwards what it was.
    """
    with _ENVIRONMENT:
        before = os.environ.get("PYTHONSAFEPATH")
        if not _is_own(os.curdir):
            os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield
        finally:
            os.environ.pop("PYTHONSAFEPATH", None)
            if before is not None:
                os.environ["PYTHONSAFEPATH"] = before


def _is_own(directory: str) -> bool:
    """This process takes modules from there."""
    with suppress(FileNotFoundError):
        return os.path.realpath(directory, strict=True) in map(os.path.realpath, sys.path)
    return False
