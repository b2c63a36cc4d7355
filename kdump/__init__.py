"""kdump: a forensic tool for Kafka log segments, as a library.

The names in ``__all__`` are all of it; docs/library.md explains them. Every other module of kdump may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump import testing
    from kdump.codes import DamageError, KdumpError
    from kdump.library.answerrows import AnswerRow as Row
    from kdump.library.answerrows import ClusterState, Differences
    from kdump.library.answers import (
        cluster_state,
        differences,
        figures,
        group_offsets,
        repair_plan,
        start_prediction,
    )
    from kdump.library.logfindings import LogFinding as Finding
    from kdump.library.logfindings import findings
    from kdump.library.opened import OpenedLog, OpenedSegment
    from kdump.library.opened import open_log as open
    from kdump.library.records import LogBatch as Batch
    from kdump.library.records import LogRecord as Record
    from kdump.library.scans import Scan, scan
    from kdump.payloads import decode
    from kdump.serve.run import serving

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "ClusterState",
    "DamageError",
    "Differences",
    "Finding",
    "KdumpError",
    "OpenedLog",
    "OpenedSegment",
    "Record",
    "Row",
    "Scan",
    "__version__",
    "cluster_state",
    "decode",
    "differences",
    "figures",
    "findings",
    "group_offsets",
    "open",
    "repair_plan",
    "scan",
    "serving",
    "start_prediction",
    "testing",
]

_HOMES = {
    "Batch": ("kdump.library.records", "LogBatch"),
    "ClusterState": ("kdump.library.answerrows", "ClusterState"),
    "cluster_state": ("kdump.library.answers", "cluster_state"),
    "Differences": ("kdump.library.answerrows", "Differences"),
    "differences": ("kdump.library.answers", "differences"),
    "DamageError": ("kdump.codes", "DamageError"),
    "Finding": ("kdump.library.logfindings", "LogFinding"),
    "figures": ("kdump.library.answers", "figures"),
    "group_offsets": ("kdump.library.answers", "group_offsets"),
    "repair_plan": ("kdump.library.answers", "repair_plan"),
    "start_prediction": ("kdump.library.answers", "start_prediction"),
    "KdumpError": ("kdump.codes", "KdumpError"),
    "OpenedLog": ("kdump.library.opened", "OpenedLog"),
    "OpenedSegment": ("kdump.library.opened", "OpenedSegment"),
    "open": ("kdump.library.opened", "open_log"),
    "Record": ("kdump.library.records", "LogRecord"),
    "Row": ("kdump.library.answerrows", "AnswerRow"),
    "Scan": ("kdump.library.scans", "Scan"),
    "decode": ("kdump.payloads", "decode"),
    "findings": ("kdump.library.logfindings", "findings"),
    "serving": ("kdump.serve.run", "serving"),
    "scan": ("kdump.library.scans", "scan"),
}
"""Where each name comes from, and its name there: no two classes of kdump have the same name."""


def __getattr__(name: str) -> object:
    """Import what the library offers when it is asked for: the command line starts without it."""
    if name == "testing":
        return import_module("kdump.testing")
    if name not in _HOMES:
        raise AttributeError(f"module 'kdump' has no attribute '{name}'")
    home, inner = _HOMES[name]
    value = globals()[name] = getattr(import_module(home), inner)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
