"""Values of JSON lines and fields of CSV by the standard library: what the columns of ``fast`` have to equal."""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode, b64encode


def json_value(data: bytes | None) -> object:
    """What a value of bytes is in a row; the reference of both outputs."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def csv_field(value: object) -> object:
    return dumps(value) if isinstance(value, dict | list) else value


def csv_cell(value: object) -> str:
    """What a reader of CSV gets of a value of JSON lines."""
    return value if isinstance(value, str) else "" if value is None else dumps(value)


def csv_line(fields: list[object]) -> str:
    """Quoted as with both line ends in the terminator: Python before 3.13 otherwise leaves a lone CR unquoted."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(fields)
    return out.getvalue().removesuffix("\r\n") + "\n"


def bytes_of(value: object) -> bytes | None:
    """The bytes that a JSON value of the type BYTES stands for."""
    if isinstance(value, dict):
        assert list(value) == ["base64"]
        return b64decode(value["base64"], validate=True)
    assert value is None or isinstance(value, str)
    return None if value is None else value.encode()
