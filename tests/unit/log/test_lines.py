"""Lines of a text are those that a split of the whole text gives, wherever the blocks end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
