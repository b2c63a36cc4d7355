"""UTF-8 as the JVM decodes it (docs/spec/dump-output.md#54-utf-8-decoding), and text as a spreadsheet takes it."""

from __future__ import annotations

import re
from typing import Final

FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\ufeff", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a text begins with that a spreadsheet takes for a formula (OWASP, CSV injection).

With the line feed, the byte order mark and the wide forms of the first four, which some spreadsheets pass over or
take as those.
"""
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(data: bytes) -> str:
    """``new String(bytes, UTF_8)``: malformed input becomes U+FFFD, as many as Java makes.

    Python makes the same number, except for encoded surrogates: one U+FFFD in Java, up to three in Python.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")
