"""The options of the data sources, with the names that Kafka and Spark give them.

Source: Spark's "Structured Streaming + Kafka Integration Guide" for offsets, timestamps, subscriptions, includeHeaders,
failOnDataLoss and minPartitions; Spark's CSV and JSON sources for ``mode``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from kdump.codes import ignore_error
from kdump.inputs import Input, inputs_of, paths_with_tier
from kdump.log.tiers import Tier
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.registry import NONE, plain_decoder
from kdump.reading.selection import Range, compiled
from kdump.schemas.topic import with_schemas
from kdump.spark.positions import UNLIMITED, Budget
from kdump.spark.readrecords import Mode
from kdump.tasks.logs import TASK_BYTES, Wanted
from kdump.worlds import World, log_formats, world_of_format

LATEST: Final = -1
EARLIEST: Final = -2
"""As in the JSON of startingOffsets."""
PATHS: Final = ("path", "paths")
"""How Spark hands over what ``load()`` is given."""
KNOWN: Final = (
    *PATHS,
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
    "decode",
    "keyDecoder",
    "valueDecoder",
    "schemas",
    "deep",
    "logFormat",
    "tier",
    "keyRing",
)
KAFKA_CLIENT: Final = "kafka."
"""How options of Spark's Kafka source for its clients begin."""
PROVIDER: Final = "provider"
"""A property that every table of a catalog has."""
OPTION: Final = "option."
STREAM_ONLY: Final = ("maxBytesPerTrigger", "maxOffsetsPerTrigger")
NO_STREAM: Final = ("endingOffsets", "endingTimestamp", "deep", "logFormat", "tier", "keyRing")
_SIZE: Final = re.compile(r"(\d{1,19})\s*([kmgt]?)b?", re.IGNORECASE)
_PARTITION: Final = re.compile(r"\d{1,10}")
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What was asked for of a reader or a stream; ``times`` in milliseconds."""

    paths: tuple[str, ...] = ()
    wanted: Wanted = field(default_factory=Wanted)
    times: Range = field(default_factory=Range)
    fail_on_data_loss: bool = True
    mode: Mode = Mode.PERMISSIVE
    min_partitions: int = 1
    task_bytes: int = TASK_BYTES
    decoding: DecoderChoice = field(default_factory=DecoderChoice)
    deep: bool = True
    """Of findings: decode every record."""
    world: World | None = None
    """Rows have the columns of its logs; None: those of today's."""
    starting: int = EARLIEST
    """Of a stream: where partitions begin, EARLIEST, LATEST or an offset."""
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of a stream: where single ones begin."""
    limits: Budget = UNLIMITED
    """Of a stream: how much it takes at a time."""


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a reader, names in any case.

    Raises:
        ValueError: an option that no source has, or a value that cannot be; it names the option.
    """
    return _source_options(_named(given, KNOWN))


def parse_stream_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of ``readStream``. ValueError as ``parse_options``."""
    known = tuple(name for name in KNOWN if name not in NO_STREAM) + STREAM_ONLY
    options = _named(given, known)
    starting, starts = _offsets(options, "startingOffsets", {"earliest": EARLIEST, "latest": LATEST})
    options.pop("startingOffsets", None)
    max_bytes = _size(options, "maxBytesPerTrigger", 0) or None
    max_offsets = _positive(options, "maxOffsetsPerTrigger")
    limits = Budget(max_bytes, max_offsets)
    return replace(_source_options(options), starting=starting, starts=starts, limits=limits)


def schema_options(given: Mapping[str, str]) -> tuple[bool, bool, World | None]:
    """What changes the schema, of readers and streams: headers are included, contents decoded, the world of the logs.

    ValueError as ``parse_options``.
    """
    options = _named(given, KNOWN + STREAM_ONLY)
    return _boolean(options, "includeHeaders", default=True), _decoding(options).is_made, _world(options)


def _named(given: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The options by their names in ``names``, without what the catalog and Spark's Kafka source add."""
    known = {name.lower(): name for name in names}
    options = {}
    for name, value in without_table_properties(given).items():
        if name.lower() in known:
            options[known[name.lower()]] = value
        elif not name.lower().startswith(KAFKA_CLIENT):
            # Spark gives all names in lower case to a source in Python, so the nearest one shows what was typed.
            near = get_close_matches(name.lower(), known, 1)
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(names[len(PATHS) :])}"
            raise ValueError(f"unknown option '{name}'; {hint}")
    return options


def without_table_properties(given: Mapping[str, str]) -> Mapping[str, str]:
    """The options alone. For CREATE TABLE the catalog adds its properties, the user's, and each option a second time.

    Source: Spark's V1Table.addV2TableProperties.
    """
    if not is_catalog_table(given):
        return given
    names = {name.removeprefix(OPTION) for name in given if name.startswith(OPTION)}
    return {name: value for name, value in given.items() if name in names or name in PATHS}


def is_catalog_table(given: Mapping[str, str]) -> bool:
    """Spark makes a table of a catalog (CREATE TABLE) from these."""
    return PROVIDER in given


def ignored_options(given: Mapping[str, str]) -> list[str]:
    """The names of options for Kafka's clients, which have nothing to do here."""
    return sorted(name for name in without_table_properties(given) if name.lower().startswith(KAFKA_CLIENT))


def _source_options(options: Mapping[str, str]) -> SourceOptions:
    first, starts = _bounds(options, "startingOffsets", {"earliest": EARLIEST})
    last, ends = _bounds(options, "endingOffsets", {"latest": LATEST})
    topics = None
    if "subscribe" in options:
        topics = frozenset(topic.strip() for topic in options["subscribe"].split(","))
    return SourceOptions(
        paths=_paths(options),
        wanted=Wanted(topics, _pattern(options), offsets=Range(first, last), starts=starts, ends=ends),
        times=Range(_integer(options, "startingTimestamp"), _integer(options, "endingTimestamp")),
        fail_on_data_loss=_boolean(options, "failOnDataLoss", default=True),
        mode=_mode(options),
        min_partitions=_positive(options, "minPartitions") or 1,
        task_bytes=_size(options, "splitBytes", TASK_BYTES),
        decoding=_with_schemas(_decoding(options), _paths(options)),
        deep=_boolean(options, "deep", default=True),
        world=_world(options),
    )


def _world(options: Mapping[str, str]) -> World | None:
    given = options.get("logFormat")
    found = world_of_format(given)
    if given is not None and found is None:
        raise ValueError(f"option logFormat: {' or '.join(log_formats())} was expected, not '{given}'")
    return found


def _decoding(options: Mapping[str, str]) -> DecoderChoice:
    decode = options.get("decode")
    if decode is not None and decode.lower() != "auto":
        raise ValueError(f"option decode: auto was expected, not '{decode}'")
    for name in ("keyDecoder", "valueDecoder"):
        try:
            plain_decoder(options.get(name, NONE))
        except KeyError:
            raise ValueError(f"option {name}: there is no decoder '{options[name]}'") from None
    own = options.get("keyDecoder"), options.get("valueDecoder")
    schemas = options.get("schemas")
    return DecoderChoice(None, decode is not None, *own, None if schemas is None else (schemas,))


def _with_schemas(choice: DecoderChoice, paths: tuple[str, ...]) -> DecoderChoice:
    """The decoders, which know where the schemas are. KdumpError where those that are named cannot be read."""
    named = None if choice.schemas is None else choice.schemas[0]

    def inputs() -> Iterator[Input]:
        yield from inputs_of(paths, ignore_error, with_patterns=True)

    return with_schemas(choice, named, inputs())


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    paths: object = None
    if "path" in options:
        # The catalog writes a path of CREATE TABLE as file:/...
        paths = [re.sub("^file:(//)?(?=/)", "", options["path"])]
    else:
        given = options.get("paths", "[]")
        with suppress(ValueError):
            paths = json.loads(given)
        if not (isinstance(paths, list) and all(isinstance(path, str) for path in paths)):
            raise ValueError(f"option paths: a JSON array of paths is expected, not '{given}'; load() takes a list")
    if not all(paths) or not paths:
        raise ValueError(
            "no path given: load() takes files, directories or globs; CREATE TABLE takes OPTIONS (path '...') and no "
            "columns"
        )
    return paths_with_tier(paths, Tier(options.get("tier"), _keys(options)))


def _keys(options: Mapping[str, str]) -> dict[str, str]:
    """Files with keys by their ids: ``{"key-1":"/etc/keys/1.pem"}``. The value is not shown: it might be a key."""
    keys: object = None
    with suppress(ValueError):
        keys = json.loads(options.get("keyRing", "{}"))
    if not isinstance(keys, dict) or not all(isinstance(file, str) for file in keys.values()):
        raise ValueError("option keyRing: a JSON object is expected, with the files of keys by their ids")
    return keys


def _offsets(options: Mapping[str, str], name: str, words: Mapping[str, int]) -> tuple[int, dict[tuple[str, int], int]]:
    """Where all partitions begin or end, and single ones: ``{"topic":{"0":23,"1":-2}}``.

    ``words`` stand for numbers below 0, the first one where nothing is asked for.
    """
    text = options.get(name, next(iter(words))).strip()
    if text.lower() in words:
        return words[text.lower()], {}
    expected = f'{", ".join(words)}, an offset, or JSON like {{"topic":{{"0":23}}}}'
    what = f"option {name}: {expected} was expected, not '{text}'"
    try:
        value = json.loads(text)
    except ValueError:
        raise ValueError(what) from None
    if _is_offset(value):
        return value, {}
    if not isinstance(value, dict):
        raise ValueError(what)
    bounds: dict[tuple[str, int], int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise ValueError(what)
        for partition, offset in partitions.items():
            if not _PARTITION.fullmatch(partition) or not (_is_offset(offset) or offset in words.values()):
                raise ValueError(what)
            bounds[topic, int(partition)] = offset
    return next(iter(words.values())), bounds


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _bounds(
    options: Mapping[str, str], name: str, words: Mapping[str, int]
) -> tuple[int | None, dict[tuple[str, int], int]]:
    """Offsets as bounds: for all partitions, and for single ones. A word (``earliest``, ``latest``) is no bound."""
    every, single = _offsets(options, name, words)
    return None if every < 0 else every, {own: offset for own, offset in single.items() if offset >= 0}


def _pattern(options: Mapping[str, str]) -> re.Pattern[str] | None:
    if "subscribePattern" not in options:
        return None
    if "subscribe" in options:
        raise ValueError("options subscribe and subscribePattern exclude each other")
    try:
        return compiled(options["subscribePattern"])
    except ValueError as error:
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


def _positive(options: Mapping[str, str], name: str) -> int | None:
    value = _integer(options, name)
    if value is not None and value < 1:
        raise ValueError(f"option {name}: a number from 1 on was expected, not '{value}'")
    return value


def _boolean(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    text = str(options.get(name, default)).lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name}: true or false was expected, not '{text}'")
    return text == "true"


def _size(options: Mapping[str, str], name: str, default: int) -> int:
    if name not in options:
        return default
    try:
        return parse_size(options[name])
    except ValueError as error:
        raise ValueError(f"option {name}: {error}") from None


def parse_size(text: str) -> int:
    """Bytes, at least 1. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or not int(match[1]):
        raise ValueError(f"a size like 134217728 or 128m was expected, not '{text}'")
    return int(match[1]) * _FACTORS[match[2].lower()]
