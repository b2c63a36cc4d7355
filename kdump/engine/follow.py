"""``--follow``: a log or a partition as it grows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from kdump.codes import KdumpError
from kdump.log.partition import segment_files, segments_behind
from kdump.scan.target import Follow, Target, target_by_path


def followed(path: str, on_error: Callable[[KdumpError], None], on_wait: Callable[[], None]) -> Iterator[Target]:
    """The segments of ``path``, a .log file or a partition directory, the newest to be read as it grows.

    When a segment is rolled what follows it comes next. Never ends by itself, but for a directory without segments.
    """
    pending = list(segment_files(path, on_error)) if os.path.isdir(path) else [path]
    while pending:
        segment = pending.pop(0)
        target = target_by_path(segment)
        if target is None:
            continue
        if not pending:
            target = replace(target, follow=Follow(partial(_has_successor, segment), on_wait))
        yield target
        if not pending:
            pending = segments_behind(segment)


def _has_successor(segment: str) -> bool:
    return bool(segments_behind(segment))
