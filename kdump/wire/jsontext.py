"""JSON of files that somebody else may have written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

_FREE_VALUES: Final = 1 << 17
_BYTES_OF_A_VALUE: Final = 12


def read_json(data: bytes, parse_int: Callable[[str], int] | None = None) -> Any:
    """What JSON says, if it holds no more values than its size explains.

    An empty list of 3 bytes becomes an object of 64, so few bytes would become gigabytes. 131,072 values may be there
    in any case, and one more for each 12 bytes.

    Args:
        data: UTF-8; bytes that are none become lone surrogates.
        parse_int: makes an integer of its digits.

    Raises:
        ValueError: it is no JSON, too deep, or has too many values.
    """
    # Each value but the first follows a comma, or begins a list or an object.
    if 1 + sum(map(data.count, (b",", b"[", b"{"))) > _FREE_VALUES + len(data) // _BYTES_OF_A_VALUE:
        raise ValueError(f"{len(data):,} bytes of JSON hold more values than kdump writes")
    try:
        return json.loads(data.decode("utf-8", "surrogateescape"), parse_int=parse_int)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deep") from error
