"""JSON that somebody else may have written."""

from __future__ import annotations

import pytest

from kdump.wire.jsontext import read_json


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[" * 100_000, b"[" + b"[]," * 300_000 + b"1]", b'["\xff",' + b"0," * 400_000 + b"1]", b'{"a":1}{'],
    ids=range(6),
)
def test_what_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json says many things
        read_json(data)


def test_many_values_are_read_where_they_take_the_bytes() -> None:
    assert len(read_json(b"[" + b"12345678901,\n" * 300_000 + b"1]")) == 300_001
    assert read_json(b'{"a": ["\xff", 1]}') == {"a": ["\udcff", 1]}
    assert read_json(b"[1]", parse_int=str) == ["1"]
