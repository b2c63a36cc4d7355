"""``--follow``: a log or a partition while it grows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from kdump.codes import Codes, KdumpError
from kdump.dump.targets import Follow, Target, target_of
from kdump.inputs import Input, PathDirectory, Stream, file_by_name
from kdump.log import files
from kdump.log.names import Kind
from kdump.log.partition import segments_after
from kdump.worlds import World


def followed(found: Input, on_wait: Callable[[str], None]) -> Iterator[Target]:
    """The segments of ``found``, a log or a partition directory. The newest is read as it grows.

    When a segment is rolled, the next one follows. It ends only where the newest segment cannot be read any more.

    Raises:
        KdumpError: there is no such segment or partition, or ``found`` is a log directory or another kind of file.
    """
    for segment, is_newest in _growing(found):
        log = None if isinstance(found, Stream) else file_by_name(segment)
        if log is None or log.kind not in (Kind.LOG, Kind.WORLD_LOG):
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "only a log or a partition can be followed", path=segment)
        target = target_of(log)
        # One more may have been made since they were listed.
        if is_newest and not segments_after(segment):
            target = replace(target, follow=Follow(partial(_has_successor, segment), on_wait))
        yield target


def _growing(found: Input) -> Iterator[tuple[str, bool]]:
    """The segments that are there, then those that are made while the newest one is read; each with whether it is that.

    The directory is not listed for each of them.
    """
    path = found.path
    if not files.exists(path):
        raise KdumpError(Codes.MISSING, "no such file or directory", path=path)
    if not isinstance(found, PathDirectory):
        pending = [path]
    else:
        errors: list[KdumpError] = []
        pending = []
        of_worlds: dict[World, list[str]] = {}
        for log in found.files(errors.append):
            (pending if log.world is None else of_worlds.setdefault(log.world, [])).append(log.path)
        if errors:
            raise errors[0]
        world, others = next(iter(of_worlds.items()), (None, []))
        if pending and world is not None:
            message = f"has logs of {world.title} and of today: name the one to follow"
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, message, path=path)
        pending = pending or others
        if len({os.path.dirname(segment) for segment in pending}) > 1:
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "a log directory: one partition can be followed", path=path)
    while pending:
        *others, newest = pending
        for segment in others:
            yield segment, False
        yield newest, True
        pending = segments_after(newest)


def _has_successor(segment: str) -> bool:
    return bool(segments_after(segment))
