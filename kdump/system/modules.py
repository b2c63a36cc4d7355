"""Where the Python processes that kdump starts look for modules."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def keep_to_own_modules() -> None:
    """Let Pythons that this process starts take modules from the working directory only if this one takes them there.

    ``python -c`` and ``python -m`` look there first. It may be a directory of logs, where others put what they like.
    """
    with suppress(FileNotFoundError):
        if os.getcwd() in map(os.path.realpath, sys.path):
            return
    os.environ["PYTHONSAFEPATH"] = "1"
