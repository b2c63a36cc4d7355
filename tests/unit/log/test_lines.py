"""Lines of a text are those that a split of the whole text gives, wherever the blocks end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, KdumpError
from kdump.log import lines
from kdump.log.memory import MemorySource


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
        patch.setattr(lines, "MOST_IN_A_LINE", 10)
        good = [b"a" * 10, b"b" * 10, b""]
        assert list(lines.lines_of(MemorySource("", b"\n".join(good)))) == good
        with pytest.raises(KdumpError) as caught:
            list(lines.lines_of(MemorySource("f", b"ab\n" + bytes(100))))
    assert (caught.value.code, caught.value.path, caught.value.position) == (Codes.FILE_SIZE, "f", 12)
