"""Values of options: ranges, points in time, regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from kdump.log.names import parse_partition_directory
from kdump.reading.selection import HeaderFilter, Range, compiled
from kdump.reading.timerange import ClockRange, moment, time_range

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_LISTEN: Final = re.compile(r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")


T = TypeVar("T")


class Parsed(click.ParamType[T]):
    """A value that a function makes of the text of an option.

    Args:
        name: what stands for the value in the help.
        parse: makes it. A ValueError of it is a usage error with its message.
    """

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """What is no text was made before."""
        if not isinstance(value, str):
            made: T = value
            return made
        try:
            return self._parse(value)
        except ValueError as error:
            return self.fail(str(error), param, ctx)


def _offsets(text: str) -> Range:
    if re.fullmatch(r"-?\d{1,1024}", text):
        return Range(int(text), int(text) + 1)
    match = re.fullmatch(r"(-?\d{1,1024})?:(-?\d{1,1024})?", text)
    if match is None:
        raise ValueError(f"'{text}' is not A:B (either may be left out), nor one offset{_colon(text)}")
    return _noted(Range(*(None if bound is None else int(bound) for bound in match.groups())), text)


def _colon(text: str) -> str:
    """What somebody meant who wrote a range in another way; empty: nobody knows."""
    match = re.fullmatch(r"(\d*)(?:-|\.\.|,|\.\.\.)(\d*)", text)
    return "" if match is None else f"; {match[1]}:{match[2]} is such a range"


OFFSETS: Final = Parsed("A:B", _offsets)
"""``A:B``: offsets from A up to but not including B; either may be left out. ``A`` alone is one offset."""


def _position(text: str) -> int:
    if re.fullmatch(r"\d{1,3}(,\d{3})+|\d{1,20}", text) is None:
        raise ValueError(f"'{text}' is no position in a file: a number of bytes from its start")
    return int(text.replace(",", ""))


POSITION: Final = Parsed("position", _position)
"""A position in a file, bytes; also as kdump prints it: ``7,628``."""


def _times(text: str, *, takes_clock: bool = False) -> Range:
    found = time_range(text, takes_clock=takes_clock)
    return found if isinstance(found, ClockRange) else _noted(found, text)


TIMES: Final = Parsed("T1..T2", _times)
"""``T1..T2``: ms since 1970, ISO 8601 (UTC unless it says otherwise), ``-1h`` (ago; s m h d w) or ``now``."""
CLOCK_TIMES: Final = Parsed("T1..T2", partial(_times, takes_clock=True))
"""The same, and ``12:21``: on the day of the other bound, else the value is a ClockRange."""


def _time_bound(text: str) -> str:
    if ".." in text or not text:
        raise ValueError(f"'{text}' is not one time (--time takes T1..T2)")
    _times(f"{text}..", takes_clock=True)
    return text


TIME_BOUND: Final = Parsed("TIME", _time_bound)
"""One bound of CLOCK_TIMES. The value stays text, as a time of day needs the other bound."""


def _noted(given: Range, text: str) -> Range:
    """Warn of a range whose bounds are the wrong way round. It is empty, which is no error, but hardly meant."""
    is_backwards = given.first is not None and given.end is not None and given.first > given.end
    context = click.get_current_context(silent=True)
    if is_backwards and not (context and context.resilient_parsing):
        click.echo(f"kdump: {text} ends before it begins: nothing is in it", err=True)
    return given


def _moment(text: str) -> int:
    found = moment(text)
    if found is None:
        raise ValueError("the time is empty")
    return found


MOMENT: Final = Parsed("TIME", _moment)
"""A point in time as in ``T1..T2``, as ms since 1970."""
NOW: Final = 2**63 - 1
"""``--at now``: everything counts, whatever its time."""
MOMENT_OR_NOW: Final = Parsed("TIME", lambda text: NOW if text == "now" else _moment(text))


def _listen(text: str) -> tuple[str, int]:
    match = _LISTEN.fullmatch(text)
    if match is None or int(match["port"]) > 0xFFFF:
        raise ValueError(f"'{text}' is not HOST:PORT")
    return match["six"] or match["host"], int(match["port"])


LISTEN: Final = Parsed("HOST:PORT", _listen)
"""``HOST:PORT``; ``[::1]:9092`` for IPv6. Port 0 takes a free one."""


def _until_offset(text: str) -> tuple[tuple[str, int], int]:
    name, _, offset = text.rpartition("=")
    partition = parse_partition_directory(name)
    if partition is None or not re.fullmatch(r"\d{1,18}", offset):
        raise ValueError(f"'{text}' is not TOPIC-N=OFFSET, such as orders-0=1000")
    return partition, int(offset)


UNTIL_OFFSET: Final = Parsed("TOPIC-N=OFFSET", _until_offset)


def _user(text: str) -> tuple[str, str]:
    user, _, file = text.partition(":")
    if not user or not file:
        raise ValueError(f"'{text}' is not USER:PASSWORDFILE")
    return user, file


USER: Final = Parsed("USER:PASSWORDFILE", _user)


def _setting(text: str) -> tuple[str, str]:
    name, equals, setting = text.partition("=")
    if not equals or not name:
        raise ValueError(f"'{text}' is not of the form K=V")
    return name, setting


SETTING: Final = Parsed("setting", _setting)
"""``K=V``."""


class OutputFormat(click.Choice[str]):
    """One of the formats of ``--output``. A near miss is answered with what was meant."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Usage error for anything else."""
        if value == "json" and "jsonl" in self.choices:
            self.fail("'json' is called jsonl: one JSON object per line", param, ctx)
        writes = ctx is not None and any("-o" in each.opts for each in ctx.command.params)
        if writes and str(value) not in self.choices and re.search(r"[./]", str(value)):
            self.fail(f"'{value}' is no format; -o names the file or directory to write", param, ctx)
        return super().convert(value, param, ctx)


class OpenTransactionsParam(click.Choice[str]):
    """What becomes of open transactions: one word for all, or ``PRODUCER=WORD`` for each producer id, with commas."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Usage error for anything else."""
        if re.fullmatch(r"\d{1,19}=(keep|abort|commit)(,\d{1,19}=(keep|abort|commit))*", str(value)):
            return str(value)
        return super().convert(value, param, ctx)


class ByParam(click.ParamType[str]):
    """What ``stats --by`` groups by: one of the kinds, or ``header:NAME``."""

    name = "WHAT"
    kinds = (
        *("segment", "partition", "topic", "producer", "codec", "magic", "leader-epoch", "minute", "hour", "day"),
        *("key", "schema"),
    )

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Usage error for anything else."""
        text = str(value)
        if text not in self.kinds and not re.fullmatch("header:.+", text, re.DOTALL):
            self.fail(f"'{text}' is none of {', '.join(self.kinds)}, header:NAME", param, ctx)
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The kinds."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(kind) for kind in (*self.kinds, "header:") if kind.startswith(incomplete)]


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """The expression over bytes; its text stands for its UTF-8 encoding. Raises ValueError for none."""
    try:
        return compiled(_to_bytes(text))
    except ValueError as error:
        raise ValueError(f"'{text}' is no regular expression: {error}") from None


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


PATTERN: Final = Parsed("RE", compile_pattern)
"""A regular expression that is searched for in bytes."""


def _header(text: str) -> HeaderFilter:
    key, equals, pattern = text.partition("=")
    return HeaderFilter(_to_bytes(key), compile_pattern(pattern) if equals else None)


HEADER: Final = Parsed("K[=RE]", _header)
"""``K`` or ``K=RE``: a header with that key, and a value in which the expression is found."""


_QUESTIONS: Final = ("codec", "magic", "compaction", "retention")
_LIMIT_UNITS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_SIZES: Final = {
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "tb": 1_000_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_LIMIT: Final = re.compile(r"(local:)?(\d{1,19})([a-z]+)", re.IGNORECASE)


class WhatIf(NamedTuple):
    """A question; the others are the limits of ``retention``, in ms and bytes."""

    question: str
    milliseconds: int | None = None
    size: int | None = None
    local_milliseconds: int | None = None
    local_size: int | None = None


def _what_if(text: str) -> WhatIf:
    question, equals, limits = text.partition("=")
    if question not in _QUESTIONS:
        raise ValueError(f"'{text}' is none of {', '.join(_QUESTIONS[:-1])}, retention=7d, retention=10GB")
    if not equals:
        return WhatIf(question)
    if question != "retention":
        raise ValueError(f"{question} takes no value")
    found: dict[str, int] = {}
    for limit in limits.split(","):
        match = _LIMIT.fullmatch(limit.strip())
        unit = match[3].lower() if match else ""
        if match is None or (unit not in _LIMIT_UNITS and unit not in _SIZES):
            raise ValueError(f"'{limit}' is no time (7d, 12h, 600000ms) and no size (10GB, 512MiB)")
        is_time = unit in _LIMIT_UNITS
        kind = ("local_" if match[1] else "") + ("milliseconds" if is_time else "size")
        if kind in found:
            raise ValueError(f"'{limits}' limits the {'time' if is_time else 'size'} twice")
        found[kind] = int(match[2]) * (_LIMIT_UNITS if is_time else _SIZES)[unit]
    return WhatIf(question, **found)


WHAT_IF: Final = Parsed("QUESTION", _what_if)
"""``codec``, ``magic``, ``compaction``, or ``retention=LIMIT[,LIMIT...]``."""


class HistoryOf(NamedTuple):
    """Whose history is asked for: ``kind`` is ``topic``, ``partition``, ``broker``, ``group`` or ``subject``."""

    kind: str
    name: str


def _history(text: str) -> HistoryOf:
    kind, _, name = text.partition("=")
    if kind not in ("topic", "partition", "broker", "group", "subject") or not name:
        raise ValueError(f"'{text}' is none of topic=NAME, partition=NAME-0, broker=ID, group=NAME, subject=NAME")
    if kind == "broker" and not name.isdecimal():
        raise ValueError(f"'{name}' is no broker id")
    return HistoryOf(kind, name)


HISTORY: Final = Parsed("OF", _history)
"""``topic=NAME``, ``partition=NAME-0``, ``broker=ID``, ``group=NAME`` or ``subject=NAME``."""


def _zxid(text: str) -> int:
    match = re.fullmatch(r"0[xX]([0-9a-fA-F]{1,16})|([0-9]{1,19})", text)
    if match is None:
        raise ValueError(f"'{text}' is no zxid: 0x and hexadecimal digits, or a decimal number")
    return int(match[1], 16) if match[1] else int(match[2])


ZXID: Final = Parsed("Z", _zxid)
"""The zxid of a transaction: ``0x`` and hexadecimal digits, or decimal."""
_MASTERS: Final = re.compile(r"local$|local\[.+\]$|local-cluster\[.+\]$|yarn$|(?:spark|k8s|sc)://.")


def _master(text: str) -> str:
    if _MASTERS.match(text) is None:
        raise ValueError(f"'{text}' is none of local[N], spark://..., yarn, k8s://..., sc://...")
    return text


MASTER: Final = Parsed("URL", _master)
"""The URL of a cluster. Its beginning is checked, as Spark answers a wrong one with a stack trace."""
