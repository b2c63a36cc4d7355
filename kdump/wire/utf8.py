"""UTF-8 as the JVM decodes it (docs/spec/dump-output.md#54-utf-8-decoding)."""

from __future__ import annotations

import re
from typing import Final

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(data: bytes) -> str:
    """``new String(bytes, UTF_8)``: malformed input becomes U+FFFD, as many as Java makes.

    Python makes the same number, except for encoded surrogates: one U+FFFD in Java, up to three in Python.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")
