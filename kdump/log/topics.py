"""The partitions of some topics among what PATHs name: ``--topic``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.log import files
from kdump.log.names import parse_partition_directory, partition_of_file
from kdump.log.partition import partition_directories
from kdump.log.paths import OtherFile, PathDirectory, resolve

_MOST_NAMED: Final = 8


def fits(topic: str, patterns: Collection[str]) -> bool:
    """Whether a topic has one of these names, or fits a pattern (``*``, ``?``, ``[...]``)."""
    return topic in patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


class TopicChoice:
    """The topics that a user names, and which of them were met.

    Args:
        patterns: names or patterns, see ``fits``.
    """

    def __init__(self, patterns: Collection[str]) -> None:
        self._patterns = patterns
        self._met: set[str] = set()

    def takes(self, topic: str | None) -> bool:
        """Whether a topic is wanted; None is none."""
        if topic is not None:
            self._met.add(topic)
        return topic is not None and fits(topic, self._patterns)

    def unmatched(self) -> Iterator[KdumpError]:
        """NO_SEGMENTS for each pattern that no topic fits so far."""
        there = sorted(self._met)
        others = len(there) - _MOST_NAMED
        named = ", ".join(there[:_MOST_NAMED]) + (f" and {others} others" if others > 0 else "")
        for pattern in self._patterns:
            if not any(fits(topic, (pattern,)) for topic in there):
                what = f"there are partitions of {named}" if there else "there are no partitions"
                yield KdumpError(Codes.NO_SEGMENTS, f"--topic {pattern}: no partition is of such a topic; {what}")


def paths_of_topics(
    paths: Iterable[str], patterns: Collection[str], on_error: Callable[[KdumpError], None]
) -> Iterator[str]:
    """The partition directories of some topics.

    Of a log directory these are the ones in it. A partition directory, or a file in one, is kept if it is of such a
    topic. A path where nothing is stays: who opens it says that it is missing.

    Args:
        paths: as ``files.strip_credentials`` gave them.
        patterns: names or patterns, see ``fits``.
        on_error: takes what is wrong with a directory, and NO_SEGMENTS for a pattern that nothing fits.
    """
    choice = TopicChoice(patterns)
    for path in paths:
        try:
            yield from _chosen(path, choice, on_error)
        except KdumpError as error:
            on_error(error.located(path))
    for unmatched in choice.unmatched():
        on_error(unmatched)


def _chosen(path: str, choice: TopicChoice, on_error: Callable[[KdumpError], None]) -> Iterator[str]:
    found = resolve(path)
    is_directory = isinstance(found, PathDirectory)
    if isinstance(found, PathDirectory) and not found.is_partition(entries := files.listing(path)):
        yield from partition_directories(entries, choice.takes, on_error)
        return
    is_missing = isinstance(found, OtherFile) and not files.exists(path)
    if is_missing or choice.takes(_topic(path, is_directory=is_directory)):
        yield path


def _topic(path: str, *, is_directory: bool) -> str | None:
    """The topic of a partition directory, or of a file in one."""
    if is_directory:
        parsed = parse_partition_directory(os.path.basename(files.absolute(path.rstrip("/"))))
    else:
        parsed = partition_of_file(path)
    return None if parsed is None else parsed[0]
