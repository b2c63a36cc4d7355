"""How Java writes and reads texts: the parts of the compatible output that come from the JDK and not from Kafka.

Source: docs/spec/dump-output.md#3-per-file-dispatch, docs/spec/dump-output.md#10-end-of-run-reports,
docs/spec/decoders.md#2-json-text.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from typing import Final

_DECIMAL: Final = re.compile(r"[+-]?\d+")
_MOST_DIGITS: Final = 100
"""Python reads a few thousand digits at most, Java any number of leading zeros."""
_BASIC_PLANE: Final = "\uffff"
_SLASHES: Final = re.compile(r"/{2,}")


def parse_long(text: str) -> int | None:
    """``Long.parseLong``: None where Java throws NumberFormatException. Any script's digits count, as in Java."""
    return _parse_integer(text, 64)


def parse_int(text: str) -> int | None:
    """``Integer.parseInt``: None where Java throws NumberFormatException. Any script's digits count, as in Java."""
    return _parse_integer(text, 32)


def _parse_integer(text: str, bits: int) -> int | None:
    if not _DECIMAL.fullmatch(text) or max(text) > _BASIC_PLANE:
        return None
    if len(text) > _MOST_DIGITS:
        sign = text[0] if text[0] in "+-" else ""
        text = sign + (text.lstrip("+-").lstrip("0") or "0")
        if len(text) > _MOST_DIGITS:
            return None
    value = int(text)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def normalize_path(path: str) -> str:
    """``new File(path).getPath()``: single slashes, none at the end."""
    path = _SLASHES.sub("/", path)
    return path.rstrip("/") if len(path) > 1 else path


def split_commas(text: str) -> list[str]:
    """``text.split(",")``: empty parts inside are kept, trailing ones dropped. The empty text is one empty part."""
    if not text:
        return [""]
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def hash_map_order(keys: Iterable[str], *, asked_again: bool = False) -> list[str]:
    """The order of keys in a ``java.util.HashMap`` into which ``computeIfAbsent`` put them, in this order.

    That method puts a new key at the head of its bucket. It doubles the table only when it is already over-full, and
    then also where it finds the key (docs/spec/dump-output.md#10-end-of-run-reports). ``asked_again``: it was called
    for a key that was there, once all of them were.
    """
    distinct = list(dict.fromkeys(keys))
    size_at_last_call = len(distinct) if asked_again else len(distinct) - 1
    capacity = 16
    while size_at_last_call > capacity * 3 // 4:
        capacity *= 2
    newest_first = distinct[::-1]
    return sorted(newest_first, key=lambda key: _spread_hash(key) & capacity - 1)


def hash_map_order_of(keys: Iterable[str], capacity: int) -> list[str]:
    """The order in which a ``java.util.HashMap`` gives back keys that ``put`` put in, in this order.

    ``capacity``: buckets that it began with, a power of two. It grows when more than three quarters are filled.
    """
    distinct = list(dict.fromkeys(keys))
    return [distinct[number] for number in hash_map_places(distinct, len(distinct), capacity)]


def hash_map_places(keys: Iterable[str], count: int, capacity: int) -> array[int]:
    """The same order of ``count`` different keys as their numbers, counted from 0: of a million keys 8 MB."""
    while count > capacity * 3 // 4:
        capacity *= 2
    ordered = sorted((_spread_hash(key) & capacity - 1) << 32 | number for number, key in enumerate(keys))
    return array("Q", (place & 0xFFFF_FFFF for place in ordered))


def hash_map_size(wanted: int) -> int:
    """The buckets of ``new HashMap<>(wanted)``: the next power of two."""
    return 1 << max(wanted - 1, 0).bit_length()


def string_hash(text: str) -> int:
    """``text.hashCode()``, an int32."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = 31 * value + (high << 8 | low) & 0xFFFF_FFFF
    return value - (value >> 31 << 32)


def _spread_hash(text: str) -> int:
    value = string_hash(text) & 0xFFFF_FFFF
    return value ^ value >> 16


_JSON_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(char): "\\" + escape for char, escape in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}


def json_string(text: str) -> str:
    """A JSON string as Jackson writes it: quotes, backslash and characters below 0x20 are escaped."""
    return f'"{text.translate(_JSON_ESCAPES)}"'
