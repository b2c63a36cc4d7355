"""Java's replacement of malformed UTF-8, for whole blocks of text.

Source: docs/spec/dump-output.md#54-utf-8-decoding (``new String(bytes, UTF_8)``).
"""

from __future__ import annotations

import re
from typing import Final

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()
# An encoded surrogate is one malformed unit to Java, each of its bytes one to Python. 0xED never continues a
# sequence, so a match always is where a decoder begins anew.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def replace_malformed(text: bytes) -> bytes:
    """``text`` as Java decodes and prints it: malformed units become U+FFFD.

    Malformed input never swallows an ASCII byte. So the result is the same whether fields between ASCII separators
    are treated one by one or together.
    """
    try:
        text.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, text).decode(errors="replace").encode()
    return text
