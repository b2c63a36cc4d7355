"""Values of options: ranges, points in time, regular expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kdump.log.names import parse_partition_directory
from kdump.reading.selection import HeaderFilter, Range, compiled
from kdump.reading.timerange import ClockRange, moment, time_range

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_LISTEN: Final = re.compile(r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")


class OffsetRange(click.ParamType[Range]):
    """``A:B``: offsets from A up to but not including B; either may be left out. ``A`` alone is one offset."""

    name = "A:B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Range:
        """Usage error for anything else."""
        if re.fullmatch(r"-?\d{1,1024}", str(value)):
            return Range(int(str(value)), int(str(value)) + 1)
        match = re.fullmatch(r"(-?\d{1,1024})?:(-?\d{1,1024})?", str(value))
        if match is None:
            self.fail(f"'{value}' is not A:B (either may be left out), nor one offset{_colon(str(value))}", param, ctx)
        return _noted(Range(*(None if bound is None else int(bound) for bound in match.groups())), value, ctx)


def _colon(text: str) -> str:
    """What somebody meant who wrote a range in another way; empty: nobody knows."""
    match = re.fullmatch(r"(\d*)(?:-|\.\.|,|\.\.\.)(\d*)", text)
    return "" if match is None else f"; {match[1]}:{match[2]} is such a range"


class FilePosition(click.ParamType[int]):
    """A position in a file, bytes; also as kdump prints it: ``7,628``."""

    name = "position"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Usage error for anything else."""
        if re.fullmatch(r"\d{1,3}(,\d{3})+|\d{1,20}", str(value)) is None:
            self.fail(f"'{value}' is no position in a file: a number of bytes from its start", param, ctx)
        return int(str(value).replace(",", ""))


class TimeRange(click.ParamType[Range]):
    """``T1..T2``: ms since 1970, ISO 8601 (UTC unless it says otherwise), ``-1h`` (ago; s m h d w) or ``now``.

    Args:
        takes_clock: ``12:21`` is taken too: on the day of the other bound, else the value is a ClockRange.
    """

    name = "T1..T2"

    def __init__(self, *, takes_clock: bool = False) -> None:
        self._takes_clock = takes_clock

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Range:
        """Usage error for anything else."""
        try:
            found = time_range(str(value), takes_clock=self._takes_clock)
        except ValueError as error:
            return self.fail(str(error), param, ctx)
        return found if isinstance(found, ClockRange) else _noted(found, value, ctx)


class TimeBound(click.ParamType[str]):
    """One bound of a ``TimeRange``. The value stays text, as a time of day needs the other bound."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Usage error for anything else."""
        text = str(value)
        if ".." in text or not text:
            self.fail(f"'{text}' is not one time (--time takes T1..T2)", param, ctx)
        TimeRange(takes_clock=True).convert(f"{text}..", param, ctx)
        return text


def _noted(given: Range, value: object, ctx: click.Context | None) -> Range:
    """Warn of a range whose bounds are the wrong way round. It is empty, which is no error, but hardly meant."""
    is_backwards = given.first is not None and given.end is not None and given.first > given.end
    if is_backwards and not (ctx and ctx.resilient_parsing):
        click.echo(f"kdump: {value} ends before it begins: nothing is in it", err=True)
    return given


class Moment(click.ParamType[int]):
    """A point in time as in ``T1..T2``, given back in ms since 1970."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Usage error for anything else."""
        try:
            found = moment(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if found is None:
            self.fail("the time is empty", param, ctx)
        return found


class ListenParam(click.ParamType[tuple[str, int]]):
    """``HOST:PORT``; ``[::1]:9092`` for IPv6. Port 0 takes a free one."""

    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Usage error for anything else."""
        match = _LISTEN.fullmatch(str(value))
        if match is None or int(match["port"]) > 0xFFFF:
            self.fail(f"'{value}' is not HOST:PORT", param, ctx)
        return match["six"] or match["host"], int(match["port"])


class UntilOffsetParam(click.ParamType[tuple[tuple[str, int], int]]):
    """``TOPIC-N=OFFSET``."""

    name = "TOPIC-N=OFFSET"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], int]:
        """Usage error for anything else."""
        name, _, offset = str(value).rpartition("=")
        partition = parse_partition_directory(name)
        if partition is None or not re.fullmatch(r"\d{1,18}", offset):
            self.fail(f"'{value}' is not TOPIC-N=OFFSET, such as orders-0=1000", param, ctx)
        return partition, int(offset)


class UserParam(click.ParamType[tuple[str, str]]):
    """``USER:PASSWORDFILE``."""

    name = "USER:PASSWORDFILE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Usage error for anything else."""
        user, _, file = str(value).partition(":")
        if not user or not file:
            self.fail(f"'{value}' is not USER:PASSWORDFILE", param, ctx)
        return user, file


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


class BytesPattern(click.ParamType[re.Pattern[bytes]]):
    """A regular expression that is searched for in bytes."""

    name = "RE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[bytes]:
        """Usage error for what does not compile."""
        try:
            return compile_pattern(str(value))
        except ValueError as error:
            return self.fail(f"'{value}' is no regular expression: {error}", param, ctx)


class HeaderParam(click.ParamType[HeaderFilter]):
    """``K`` or ``K=RE``: a header with that key, and a value in which the expression is found."""

    name = "K[=RE]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> HeaderFilter:
        """Usage error for what does not compile."""
        key, equals, pattern = str(value).partition("=")
        try:
            return HeaderFilter(_to_bytes(key), compile_pattern(pattern) if equals else None)
        except ValueError as error:
            return self.fail(f"'{pattern}' is no regular expression: {error}", param, ctx)


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """The expression over bytes; its text stands for its UTF-8 encoding. Raises ValueError for none."""
    return compiled(_to_bytes(text))


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


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


class WhatIfParam(click.ParamType[WhatIf]):
    """``codec``, ``magic``, ``compaction``, or ``retention=LIMIT[,LIMIT...]``."""

    name = "QUESTION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> WhatIf:
        """Usage error for anything else."""
        if isinstance(value, WhatIf):
            return value
        question, equals, limits = str(value).partition("=")
        if question not in _QUESTIONS:
            self.fail(f"'{value}' is none of {', '.join(_QUESTIONS[:-1])}, retention=7d, retention=10GB", param, ctx)
        if question != "retention":
            return WhatIf(question) if not equals else self.fail(f"{question} takes no value", param, ctx)
        if not equals:
            return WhatIf(question)
        found: dict[str, int] = {}
        for limit in limits.split(","):
            match = _LIMIT.fullmatch(limit.strip())
            unit = match[3].lower() if match else ""
            if match is None or (unit not in _LIMIT_UNITS and unit not in _SIZES):
                self.fail(f"'{limit}' is no time (7d, 12h, 600000ms) and no size (10GB, 512MiB)", param, ctx)
            is_time = unit in _LIMIT_UNITS
            kind = ("local_" if match[1] else "") + ("milliseconds" if is_time else "size")
            if kind in found:
                self.fail(f"'{limits}' limits the {'time' if is_time else 'size'} twice", param, ctx)
            found[kind] = int(match[2]) * (_LIMIT_UNITS if is_time else _SIZES)[unit]
        return WhatIf(question, **found)


class HistoryOf(NamedTuple):
    """Whose history is asked for: ``kind`` is ``topic``, ``partition``, ``broker``, ``group`` or ``subject``."""

    kind: str
    name: str


class HistoryParam(click.ParamType[HistoryOf]):
    """``topic=NAME``, ``partition=NAME-0``, ``broker=ID``, ``group=NAME`` or ``subject=NAME``."""

    name = "OF"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> HistoryOf:
        """Usage error for anything else."""
        if isinstance(value, HistoryOf):
            return value
        kind, equals, name = str(value).partition("=")
        if kind not in ("topic", "partition", "broker", "group", "subject") or not equals or not name:
            self.fail(
                f"'{value}' is none of topic=NAME, partition=NAME-0, broker=ID, group=NAME, subject=NAME", param, ctx
            )
        if kind == "broker" and not name.isdecimal():
            self.fail(f"'{name}' is no broker id", param, ctx)
        return HistoryOf(kind, name)


class ZxidParam(click.ParamType[int]):
    """The zxid of a transaction: ``0x`` and hexadecimal digits, or decimal."""

    name = "Z"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Usage error for anything else."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"0[xX]([0-9a-fA-F]{1,16})|([0-9]{1,19})", str(value))
        if match is None:
            self.fail(f"'{value}' is no zxid: 0x and hexadecimal digits, or a decimal number", param, ctx)
        return int(match[1], 16) if match[1] else int(match[2])


NOW: Final = 2**63 - 1
"""``--at now``: everything counts, whatever its time."""


class AtMoment(Moment):
    """A point in time, or ``now``."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Usage error for anything else."""
        return NOW if value == "now" else super().convert(value, param, ctx)


_MASTERS: Final = re.compile(r"local$|local\[.+\]$|local-cluster\[.+\]$|yarn$|(?:spark|k8s|sc)://.")


class MasterParam(click.ParamType[str]):
    """The URL of a cluster. Its beginning is checked, as Spark answers a wrong one with a stack trace."""

    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same."""
        if _MASTERS.match(str(value)) is None:
            self.fail(f"'{value}' is none of local[N], spark://..., yarn, k8s://..., sc://...", param, ctx)
        return str(value)


class SettingParam(click.ParamType[tuple[str, str]]):
    """``K=V``."""

    name = "setting"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """(K, V)."""
        name, equals, setting = str(value).partition("=")
        if not equals or not name:
            self.fail(f"'{value}' is not of the form K=V", param, ctx)
        return name, setting
