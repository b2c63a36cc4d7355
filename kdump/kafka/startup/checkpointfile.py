"""A checkpoint file as a broker reads it: a version, a count, an entry a line.

Source: docs/spec/startup.md#rule-1-the-leader-epoch-checkpoint (CheckpointFile).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from kdump.kafka.startup.errors import ILLEGAL_ARGUMENT, KAFKA_STORAGE, StartFailureError
from kdump.payloads.java import parse_int

_VERSION: Final = 0
_MOST_QUOTED: Final = 60
"""Characters of a line."""
_JAVA_WHITE_SPACE: Final = re.compile(r"[ \t\n\x0b\f\r]+")


def checkpoint_words(name: str, data: bytes, words_of_line: Sequence[str]) -> Iterator[list[str]]:
    """The words of each entry, in file order; what is wrong with a line is met when it is its turn.

    Args:
        name: of the file, for messages.
        data: what it holds.
        words_of_line: what each entry consists of, for messages too.

    Raises:
        StartFailureError: the file is refused.
    """
    try:
        lines = [line.decode() for line in data.splitlines()]
    except UnicodeDecodeError:
        raise _refused(name, "it is not UTF-8") from None
    if lines and parse_int(lines[0]) != _VERSION:
        raise _refused(name, f"its version is {quoted(lines[0])}")
    if len(lines) < 2:
        return
    count = parse_int(lines[1])
    if count is None:
        raise _refused(name, f"its count of entries is {quoted(lines[1])}")
    if count < 0:
        # A list is made for so many.
        raise StartFailureError(ILLEGAL_ARGUMENT, f"{name} counts {count} entries")
    found = 0
    for line in lines[2:]:
        words = _JAVA_WHITE_SPACE.split(line)
        while words and not words[-1]:
            words.pop()
        if len(words) != len(words_of_line):
            raise _refused(
                name, f"the line {quoted(line)} is no {', '.join(words_of_line[:-1])} and {words_of_line[-1]}"
            )
        found += 1
        yield words
    if found != count:
        raise _refused(name, f"it has {found} entries and counts {count}")


def quoted(line: str) -> str:
    """A line for a message, shortened."""
    return repr(line) if len(line) <= _MOST_QUOTED else f"{line[:_MOST_QUOTED]!r}..."


def _refused(name: str, message: str) -> StartFailureError:
    return StartFailureError(KAFKA_STORAGE, f"{name} is refused: {message}", is_io=True)
