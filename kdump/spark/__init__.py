"""Kafka segments in Spark: ``register(spark)``, then ``spark.read.format("kafka-segment").load(path)``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.spark.sessions import session
    from kdump.spark.sources import register

__all__ = ["register", "session"]

_HOMES = {"register": "kdump.spark.sources", "session": "kdump.spark.sessions"}


def __getattr__(name: str) -> object:
    """Import each from its home: a worker that unpickles a task needs neither."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kdump.spark' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
