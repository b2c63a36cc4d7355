"""``Double.toString`` of JDK 17, which does not always find the shortest digits (JDK 19 and later do).

Source: docs/spec/decoders.md#2-json-text. The digits are those of Steele and White's free-format method, with the
limits that the JDK sets it; tests/oracle compares them.
"""

from __future__ import annotations

import math
import struct
from typing import Final

_FRACTION_BITS: Final = 52
_BIAS: Final = 1023
_LEAST_PLAIN, _MOST_PLAIN = -3, 8
"""Numbers from 10^-3 up to 10^7 are written without exponent."""
_SMALLEST_LONG, _LARGEST_LONG = -21, 62
"""Binary exponents between which the JDK looks whether a number is an integer."""


def double_string(value: float) -> str:
    """``Double.toString(value)``."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = _digits(abs(value))
    if 0 < exponent < _MOST_PLAIN:
        digits = digits.ljust(exponent, "0")
        return f"{sign}{digits[:exponent]}.{digits[exponent:] or '0'}"
    if _LEAST_PLAIN < exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _digits(value: float) -> tuple[str, int]:
    """The digits and the exponent: the number is 0.DIGITS times ten to the exponent."""
    bits = int.from_bytes(struct.pack(">d", value), "big")
    exponent, fraction = bits >> _FRACTION_BITS, bits & (1 << _FRACTION_BITS) - 1
    if exponent:
        fraction |= 1 << _FRACTION_BITS
        significant = _FRACTION_BITS + 1
    else:
        significant = fraction.bit_length()
        exponent = significant - _FRACTION_BITS
        fraction <<= _FRACTION_BITS + 1 - significant
    exponent -= _BIAS
    zeros = (fraction & -fraction).bit_length() - 1
    used_bits = _FRACTION_BITS + 1 - zeros
    after_point = max(0, used_bits - exponent - 1)
    if not after_point and _SMALLEST_LONG <= exponent <= _LARGEST_LONG:
        return _integer_digits(int(value), exponent - significant - 1 if exponent > significant else 0)
    return _fraction_digits(fraction >> zeros, used_bits, exponent, significant, after_point)


def _integer_digits(value: int, spare_bits: int) -> tuple[str, int]:
    """The digits of an integer below 2^63, without the last ones that its bits do not determine."""
    spare = len(str(1 << spare_bits)) - 1
    if spare:
        unit = 10**spare
        value = value // unit + (value % unit >= unit // 2)
    digits = str(value)
    return digits.rstrip("0"), len(digits) + spare


def _fraction_digits(
    fraction: int, used_bits: int, exponent: int, significant: int, after_point: int
) -> tuple[str, int]:
    """The digits of any other number. ``fraction``: its ``used_bits`` bits; the first stands for 2^exponent."""
    ten = _estimated_exponent(fraction, used_bits, exponent)
    five_b, five_s = max(0, -ten), max(0, ten)
    two_b = five_b + after_point + exponent
    two_s = five_s + after_point
    two_m = two_b - significant
    two_b -= used_bits - 1
    common = min(two_b, two_s)
    two_b, two_s, two_m = two_b - common, two_s - common, two_m - common
    if used_bits == 1:
        # The next smaller number is only half as far away from a power of two.
        two_m -= 1
    if two_m < 0:
        two_b, two_s, two_m = two_b - two_m, two_s - two_m, 0
    # The number is b/s, half the distance to the next one m/s.
    b = fraction * 5**five_b << two_b
    s = 5**five_s << two_s
    m = 5**five_b << two_m
    ten_s = s * 10
    width = max(used_bits + two_b + _five_bits(five_b), two_s + 1 + _five_bits(five_s + 1)) + 1
    is_narrow = width <= 64
    digits: list[int] = []

    def step() -> tuple[bool, bool]:
        nonlocal b, m
        digit, rest = divmod(b, s)
        digits.append(digit)
        b, m = rest * 10, m * 10
        if not is_narrow:
            return b < m, b + m >= ten_s
        # In int or long arithmetic: a tie does not count as reached, and the distance may overflow.
        m = _wrapped(m, width)
        if m <= 0:
            return True, True
        return b < m, _wrapped(b + m, width) > ten_s

    low, high = step()
    if digits == [0] and not high:
        digits.clear()
        ten -= 1
    if not _LEAST_PLAIN <= ten < _MOST_PLAIN:
        low = high = False
    while not (low or high):
        low, high = step()
    if high and (not low or b * 2 > ten_s or (b * 2 == ten_s and digits[-1] & 1)):
        return _rounded_up(digits, ten + 1)
    return "".join(map(str, digits)), ten + 1


def _rounded_up(digits: list[int], exponent: int) -> tuple[str, int]:
    number = "".join(map(str, digits))
    up = str(int(number) + 1).rjust(len(number), "0")
    if len(up) > len(number):
        return "1" + "0" * (len(number) - 1), exponent + 1
    return up, exponent


def _wrapped(number: int, width: int) -> int:
    """The value as Java's int (for a width up to 32) or long."""
    bits = 32 if width <= 32 else 64
    half = 1 << bits - 1
    return (number + half) % (2 * half) - half


def _five_bits(power: int) -> int:
    """Bits of 5^power as the JDK counts them: from its table up to 26, roughly above."""
    if not power:
        return 0
    return (5**power).bit_length() if power < 27 else power * 3


def _estimated_exponent(fraction: int, used_bits: int, exponent: int) -> int:
    """The decimal exponent, or one more, from the first terms of the logarithm's series."""
    mantissa = fraction / (1 << used_bits - 1)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
