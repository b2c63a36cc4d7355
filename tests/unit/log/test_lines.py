"""Lines of a text are those that a split of the whole text gives, wherever the blocks end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, KdumpError
from kdump.log import lines
from kdump.log.source import MemorySource


@given(text=st.text("a\n", max_size=40), block=st.integers(1, 9), left=st.integers(0, 12))
def test_lines(text: str, block: int, left: int) -> None:
    data = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK", block)
        assert list(lines.lines_of(MemorySource("", data))) == data.split(b"\n")
        end = max(0, len(data) - left)
        assert list(lines.lines_of(MemorySource("", data), end)) == data[:end].split(b"\n")


def test_a_line_that_does_not_end() -> None:
    """A sparse file of any size would come into memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK", 4)
        good = [b"a" * 10, b"b" * 10, b""]
        assert list(lines.lines_of(MemorySource("", b"\n".join(good)), longest=10)) == good
        with pytest.raises(KdumpError) as caught:
            list(lines.lines_of(MemorySource("f", b"ab\n" + bytes(100)), longest=10))
    assert (caught.value.code, caught.value.path, caught.value.position) == (Codes.FILE_SIZE, "f", 12)


@pytest.mark.parametrize("text", [b"%s", b"%s\n", b"a\n%s", b"a\n%s\nb"])
def test_a_line_that_is_too_long(text: bytes) -> None:
    """Wherever it is in the block that is read."""
    assert b"x" * 10 in list(lines.lines_of(MemorySource("", text % (b"x" * 10)), longest=10))
    with pytest.raises(KdumpError, match="a line has more than 10 bytes"):
        list(lines.lines_of(MemorySource("", text % (b"x" * 11)), longest=10))
