"""Amounts in few characters: bytes, spans of time, percentages, bars, sparklines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_SPANS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))
_SPARKS: Final = " ▁▂▃▄▅▆▇█"
_BAR: Final = "█▏▎▍▌▋▊▉"


def bytes_text(count: float) -> str:
    """``1.5 MiB``, of whole bytes ``12 B``."""
    number, unit = _scaled(count)
    return f"{number} {unit}B"


def short_bytes(count: float) -> str:
    """``1.5M``, for headings that say that these are bytes."""
    number, unit = _scaled(count)
    return number + unit[:1]


def _scaled(count: float) -> tuple[str, str]:
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return (f"{count:.1f}" if unit and count < 99.95 else f"{count:.0f}"), _UNITS[unit]


def span_text(milliseconds: int, units: int = 2) -> str:
    """``2 d 3 h``: in the largest units."""
    parts: list[str] = []
    for unit, length in _SPANS:
        count, milliseconds = divmod(milliseconds, length)
        if count:
            parts.append(f"{count:,} {unit}")
        if len(parts) == units or (parts and not count):
            break
    return " ".join(parts) or "0 ms"


def time_text(milliseconds: int) -> str:
    """UTC to the millisecond; the number itself where that is no time."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03}" if milliseconds >= 0 else str(milliseconds)


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 batch``, ``1,200 batches``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first ``most`` names, and how many there are besides: ``a, b and 3 more``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def percent(part: float, whole: float) -> str:
    """``12 %``. It says 0 % or 100 % only where that is exact."""
    if not whole:
        return ""
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "<0.1 %"
    if 99.9 < share < 100:
        return ">99.9 %"
    return f"{share:.0f} %" if share in (0, 100) or 10 <= share <= 90 else f"{share:.1f} %"


def bar(share: float, width: int) -> str:
    """A horizontal bar of up to ``width`` characters, in eighths of them. It is empty only for 0."""
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return _BAR[0] * whole + (_BAR[rest] if rest else "")


def sparkline(values: Sequence[int]) -> str:
    """One character for each value, the largest one full height. A blank stands only for 0."""
    most = max(values, default=0)
    return "".join(_SPARKS[-(-value * (len(_SPARKS) - 1) // most) if most else 0] for value in values)
