"""What users of the library give, as the values that the readers take. A wrong one is a ValueError."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, TypeVar

from kdump.codes import raise_error
from kdump.inputs import Input, inputs_of, log_paths
from kdump.log.days import days_of_logs
from kdump.payloads.choice import DecoderChoice
from kdump.reading import timerange
from kdump.reading.selection import HeaderFilter, Range, compiled

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
"""Segment files, partition and log directories, URIs of them, patterns, or ``-`` for standard input; one or many."""
Time: TypeAlias = "datetime | int | str | None"
"""A datetime (without a time zone: UTC), milliseconds since 1970, or a text as options take it: ISO 8601, ``-1h``, now.

None: no bound.
"""
Times: TypeAlias = "tuple[Time, Time] | str | None"
"""``(start, end)``, end not included; or a text as ``--time`` takes it."""
Pattern: TypeAlias = "str | bytes | re.Pattern[bytes]"
"""A regular expression that is searched for in bytes; a text stands for its UTF-8."""
Headers: TypeAlias = "str | Iterable[str] | Mapping[str, Pattern | None]"
"""``K`` or ``K=RE``, one or many; or a mapping of K to RE, or to None for any value."""
Decode: TypeAlias = "Literal['auto'] | Mapping[str, str] | None"
"""``auto``: Kafka's internal topics, by their directories. Or names of decoders, of ``key`` and ``value``."""

_Bound = TypeVar("_Bound")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MILLISECOND: Final = datetime.resolution * 1000


def paths_of(paths: Paths) -> tuple[str, ...]:
    """The paths as texts."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ValueError("no path is given")
    return tuple(os.fspath(path) for path in given)


def named_inputs(paths: Paths, *, with_patterns: bool = False) -> list[Input]:
    """What the paths mean, each once. ``with_patterns``: see ``inputs_of``."""
    return inputs_of(dict.fromkeys(paths_of(paths)), raise_error, with_patterns=with_patterns)


def offset_range(offsets: tuple[int | None, int | None] | None) -> Range:
    """``(first, end)``; the end is not included."""
    return Range() if offsets is None else Range(*pair(offsets, "offsets"))


def time_range(time: Times, paths: Sequence[str]) -> Range:
    """The range of times. Those of a day are on that of the logs in ``paths``, which then are looked at."""
    if time is None:
        return Range()
    if not isinstance(time, str):
        return Range(*map(milliseconds, pair(time, "time")))
    found = timerange.time_range(time, takes_clock=True)
    if not isinstance(found, timerange.ClockRange):
        return found
    days = days_of_logs(log_paths(inputs_of(paths, raise_error, with_patterns=True)))
    if days is None or days[0] != days[1]:
        tell = "no log tells one" if days is None else f"the logs are of {days[0]} to {days[1]} (UTC)"
        raise ValueError(f"time {time!r} has no day, and {tell}")
    return found.on(days[1])


def milliseconds(time: Time) -> int | None:
    """Milliseconds since 1970. ValueError for anything that is no time."""
    if time is None:
        return None
    if isinstance(time, str):
        return timerange.moment(time)
    if not isinstance(time, datetime):
        try:
            # Numbers of numpy, too.
            return operator.index(time)
        except TypeError:
            raise ValueError(f"a time is a datetime or milliseconds since 1970, not {time!r}") from None
    moment = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    # Not through a float, which would lose milliseconds of far dates.
    return (moment - _EPOCH) // _MILLISECOND


def pattern(given: Pattern) -> re.Pattern[bytes]:
    """The compiled expression."""
    try:
        if isinstance(given, re.Pattern):
            return given
        return compiled(given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given)
    except ValueError as error:
        raise ValueError(f"{given!r} is no regular expression: {error}") from None


def header_filters(headers: Headers | None) -> tuple[HeaderFilter, ...]:
    """One filter for each header."""
    if headers is None:
        return ()
    if isinstance(headers, Mapping):
        return tuple(_header(key, value) for key, value in headers.items())
    given = [headers] if isinstance(headers, str) else headers
    return tuple(
        _header(key, value if equals else None) for key, equals, value in (one.partition("=") for one in given)
    )


def decoder_choice(decode: Decode) -> DecoderChoice:
    """The decoders of keys and values. Raises KdumpError where one cannot be loaded."""
    if decode is None:
        return DecoderChoice()
    if isinstance(decode, str):
        if decode != "auto":
            raise ValueError(f"decode is 'auto' or names decoders of 'key' and 'value', not {decode!r}")
        return DecoderChoice(by_topic=True)
    unknown = decode.keys() - {"key", "value"}
    if unknown:
        raise ValueError(f"only 'key' and 'value' are decoded, not {sorted(unknown)}")
    from kdump.payloads.registry import names, plain_decoder

    for name in decode.values():
        try:
            plain_decoder(name)
        except KeyError:
            raise ValueError(f"no decoder {name!r} (known: {', '.join(names())})") from None
    return DecoderChoice(key=decode.get("key"), value=decode.get("value"))


def check_choice(value: object, name: str, allowed: Sequence[str]) -> None:
    """The value of an argument must be one of ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is one of {', '.join(allowed)}, not {value!r}")


def pair(given: tuple[_Bound, _Bound], name: str) -> tuple[_Bound, _Bound]:
    """The two bounds of a range."""
    try:
        first, end = given
    except (TypeError, ValueError):
        raise ValueError(f"{name} is a pair (first, end) of which either may be None, not {given!r}") from None
    return first, end


def _header(key: str, value: Pattern | None) -> HeaderFilter:
    return HeaderFilter(key.encode("utf-8", "surrogateescape"), None if value is None else pattern(value))
