"""kdump: a forensic tool for Kafka log segments.

``findings(path)`` yields each ``Finding`` of a segment, a partition or a log directory; ``payloads.decode(topic, key,
value)`` reads a record of one of Kafka's internal topics; every error that kdump raises on purpose is a ``KdumpError``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump import payloads
    from kdump.codes import Finding, KdumpError
    from kdump.verify.run import findings

__version__ = "0.1.0"
__all__ = ["Finding", "KdumpError", "__version__", "findings", "payloads"]

_HOMES = {"Finding": "kdump.codes", "KdumpError": "kdump.codes", "findings": "kdump.verify.run"}


def __getattr__(name: str) -> object:
    """Import what the library offers when it is asked for: the command line starts without it."""
    if name == "payloads":
        return importlib.import_module("kdump.payloads")
    if name not in _HOMES:
        raise AttributeError(f"module 'kdump' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
