"""UTF-8 as the JVM decodes it (shared/spec/dump-output.md section 5.4)."""

from __future__ import annotations

import re
from typing import Final

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(data: bytes) -> str:
    """``new String(bytes, UTF_8)``: U+FFFD for malformed input, as many as Java makes.

    Python counts alike but for encoded surrogates, which are one U+FFFD in Java and up to three in Python.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")
