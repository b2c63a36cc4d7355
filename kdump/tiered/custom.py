"""The custom metadata that Aiven's plugin adds to a remote segment.

Source: docs/spec/tiered.md#6-custom-metadata.
"""

from __future__ import annotations

from typing import Final

from kdump.codes import Codes, DamageError
from kdump.wire.cursor import Cursor
from kdump.wire.varint import read_varlong

_REMOTE_SIZE, _OBJECT_PREFIX, _OBJECT_KEY = range(3)
_TEXTS: Final = {_OBJECT_PREFIX: "objectPrefix", _OBJECT_KEY: "objectKey"}


def parse_custom_metadata(data: bytes | None) -> dict[str, int | str]:
    """``remoteSize`` (bytes of all objects), ``objectPrefix`` and ``objectKey``, those that are there.

    Nothing where another plugin wrote it. Fields of other numbers are passed over.
    """
    found: dict[str, int | str] = {}
    if not data:
        return found
    cursor = Cursor(data, code=Codes.DECODER)
    try:
        for _ in range(cursor.unsigned_varint()):
            tag, size = cursor.unsigned_varint(), cursor.unsigned_varint()
            value = Cursor(cursor.take(size), code=Codes.DECODER)
            if tag == _REMOTE_SIZE:
                found["remoteSize"] = read_varlong(value.buffer, 0, size)[0]
            elif tag in _TEXTS:
                found[_TEXTS[tag]] = bytes(value.take(value.unsigned_varint() - 1)).decode()
    except (DamageError, ValueError):
        return {}
    return found
