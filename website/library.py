"""The page of the Python reference: every public name of ``kdump``, with its docstring."""

from __future__ import annotations

from inspect import isfunction

import kdump
from kdump import testing

URI = "reference/python.md"
_LEFT_OUT = {"__version__", "testing"}


def page() -> str:
    """The Markdown of the page; mkdocstrings puts the docstrings in."""
    lines = ["# Python reference", "", "[The library](../library.md) explains how these fit together.", ""]
    for path in names():
        lines += [f"::: {path}", ""]
    return "\n".join(lines)


def names() -> list[str]:
    """The public names, with those of ``kdump.testing`` last."""
    public = [f"kdump.{name}" for name in kdump.__all__ if name not in _LEFT_OUT]
    own = [name for name, value in vars(testing).items() if isfunction(value) and value.__module__ == testing.__name__]
    return [*public, *(f"kdump.testing.{name}" for name in own if not name.startswith("_"))]
