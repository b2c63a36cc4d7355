"""The options of the data sources, with the names that Kafka and Spark give them.

Source: Spark's "Structured Streaming + Kafka Integration Guide" for offsets, timestamps, subscriptions, includeHeaders,
failOnDataLoss and minPartitions; Spark's CSV and JSON sources for ``mode``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kdump.engine.arrowread import Mode
from kdump.engine.splits import SPLIT_BYTES, Wanted
from kdump.scan.selection import Range

_LATEST: Final = -1
_EARLIEST: Final = -2
_KNOWN: Final = (
    "path",
    "paths",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "subscribe",
    "subscribePattern",
    "includeHeaders",
    "failOnDataLoss",
    "mode",
    "minPartitions",
    "splitBytes",
    "deep",
)
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What was asked for; ``times`` in milliseconds."""

    paths: tuple[str, ...] = ()
    wanted: Wanted = field(default_factory=Wanted)
    times: Range = field(default_factory=Range)
    include_headers: bool = True
    fail_on_data_loss: bool = True
    mode: Mode = Mode.PERMISSIVE
    min_partitions: int = 1
    split_bytes: int = SPLIT_BYTES
    deep: bool = True
    """Of findings: decode every record."""


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a reader, names in any case.

    Raises:
        ValueError: an option that no source has, or a value that cannot be; it names the option.
    """
    known = {name.lower(): name for name in _KNOWN}
    options = {known.get(name.lower(), name): value for name, value in given.items()}
    for name in options:
        if name not in _KNOWN:
            raise ValueError(f"unknown option '{name}'; known are {', '.join(_KNOWN[2:])}")
    first, starts = _offsets(options, "startingOffsets", nothing="earliest", open_end=_EARLIEST)
    last, ends = _offsets(options, "endingOffsets", nothing="latest", open_end=_LATEST)
    topics = None
    if "subscribe" in options:
        topics = frozenset(topic.strip() for topic in options["subscribe"].split(","))
    return SourceOptions(
        paths=_paths(options),
        wanted=Wanted(topics, _pattern(options), offsets=Range(first, last), starts=starts, ends=ends),
        times=Range(_integer(options, "startingTimestamp"), _integer(options, "endingTimestamp")),
        include_headers=_boolean(options, "includeHeaders", default=True),
        fail_on_data_loss=_boolean(options, "failOnDataLoss", default=True),
        mode=_mode(options),
        min_partitions=max(1, _integer(options, "minPartitions") or 1),
        split_bytes=_size(options, "splitBytes", SPLIT_BYTES),
        deep=_boolean(options, "deep", default=True),
    )


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    if "path" in options:
        return (options["path"],)
    paths = tuple(json.loads(options.get("paths", "[]")))
    if not paths:
        raise ValueError("no path given: load() takes files, directories or globs")
    return paths


def _offsets(
    options: Mapping[str, str], name: str, *, nothing: str, open_end: int
) -> tuple[int | None, dict[tuple[str, int], int]]:
    """A bound for all partitions, and those of single ones: ``{"topic":{"0":23,"1":-2}}``."""
    text = options.get(name, nothing).strip()
    if text.lower() == nothing:
        return None, {}
    what = f'option {name}: {nothing}, an offset, or JSON like {{"topic":{{"0":23}}}} was expected, not \'{text}\''
    try:
        value = json.loads(text)
    except ValueError:
        raise ValueError(what) from None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value, {}
    if not isinstance(value, dict):
        raise ValueError(what)
    bounds: dict[tuple[str, int], int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise ValueError(what)
        for partition, offset in partitions.items():
            is_bound = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
            if not partition.isdecimal() or not (is_bound or offset == open_end):
                raise ValueError(what)
            if is_bound:
                bounds[topic, int(partition)] = offset
    return None, bounds


def _pattern(options: Mapping[str, str]) -> re.Pattern[str] | None:
    if "subscribePattern" not in options:
        return None
    if "subscribe" in options:
        raise ValueError("options subscribe and subscribePattern exclude each other")
    try:
        return re.compile(options["subscribePattern"])
    except re.error as error:
        raise ValueError(f"option subscribePattern: {error}") from None


def _mode(options: Mapping[str, str]) -> Mode:
    text = options.get("mode", Mode.PERMISSIVE.value)
    try:
        return Mode(text.upper())
    except ValueError:
        modes = ", ".join(mode.value for mode in Mode)
        raise ValueError(f"option mode: one of {modes} was expected, not '{text}'") from None


def _integer(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    try:
        return int(options[name])
    except ValueError:
        raise ValueError(f"option {name}: a whole number was expected, not '{options[name]}'") from None


def _boolean(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    text = str(options.get(name, default)).lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name}: true or false was expected, not '{text}'")
    return text == "true"


def _size(options: Mapping[str, str], name: str, default: int) -> int:
    if name not in options:
        return default
    match = _SIZE.fullmatch(options[name].strip())
    if match is None or not int(match[1]):
        raise ValueError(f"option {name}: a size like 134217728 or 128m was expected, not '{options[name]}'")
    return int(match[1]) * _FACTORS[match[2].lower()]
