"""The files of a partition directory or a log directory.

Source: docs/spec/formats.md#5-directories-and-names; the order is that of the offsets in the names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from kdump.codes import Codes, KdumpError, OnError, ignore_error
from kdump.log import files
from kdump.log.named import ListingEntry, check_link
from kdump.log.names import (
    LOG_DIRECTORY_MARKERS,
    LOG_DIRECTORY_TEXT_FILES,
    META_PROPERTIES,
    SIBLING_TEXT_FILES,
    Kind,
    no_partition_name,
    parse_file_name,
    parse_partition_directory,
)
from kdump.log.opening import read_whole
from kdump.worlds import world_of_store

_OF_TODAY: Final = frozenset({Kind.LOG})
_LOG_KINDS: Final = _OF_TODAY | {Kind.WORLD_LOG}
_ALL_KINDS: Final = frozenset(Kind)
_SIBLING_ORDER = {kind: order for order, kind in enumerate(Kind)}


def is_log_directory(entries: Iterable[ListingEntry]) -> bool:
    """Whether a listing is that of a log directory, which is never a partition, whatever files somebody put there.

    It holds partition directories, or links in place of them, or a file that a broker makes in no partition.

    Source: docs/spec/formats.md#5-directories-and-names.
    """
    return any(entry.name in LOG_DIRECTORY_MARKERS or _is_partition_directory(entry) for entry in entries)


def log_directory_above(path: str) -> str | None:
    """The log directory that ``path`` is, or is in at any depth, even if nothing is there; None if it lies in none.

    What proves it is one of ``LOG_DIRECTORY_MARKERS``: partition directories lie in directories for copies, too.
    """
    path = os.path.realpath(path)
    while True:
        if any(os.path.lexists(os.path.join(path, name)) for name in LOG_DIRECTORY_MARKERS):
            return path
        above = os.path.dirname(path)
        if above == path:
            return None
        path = above


def topic_directories(log_directory: str, topic: str) -> tuple[str, ...]:
    """The partition directories of a topic in a log directory, sorted; none where it cannot be listed.

    Thousands of partitions ask: a log directory that has not changed is not searched again.
    """
    return _topic_directories(log_directory, topic, files.file_state(log_directory))


@lru_cache(maxsize=16)
def _topic_directories(log_directory: str, topic: str, state: files.FileState | None) -> tuple[str, ...]:
    try:
        entries = files.listing(log_directory)
    except KdumpError:
        return ()
    named = [(parse_partition_directory(entry.name), entry) for entry in entries if entry.is_directory]
    return tuple(sorted(entry.path for name, entry in named if name is not None and name[0] == topic))


def files_by_partition(
    directory: str, on_error: OnError, *, all_files: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """The directory, or every partition of a log directory, each with the names of its segment files in offset order.

    Logs of other worlds are among them. Files with a state suffix (``.deleted``, ``.swap``, ...) are left out: they are
    dumped when named. Of the folders only those called ``<topic>-<n>`` are entered. What has a segment's name and is no
    file (a broken link, a pipe) is given back too: opening it says what is wrong. A folder is listed when the one
    before is done, as a broker may change it meanwhile.

    Args:
        directory: the path, which starts every path given back.
        on_error: takes NO_SEGMENTS for the directory, UNREADABLE for it or a partition in it, LINK_OUTSIDE for a
            partition that is a link to elsewhere, and NOT_A_SEGMENT_FILE for a log of no partition; the others follow.
        all_files: the siblings of the .log files too.
    """
    top = _entries(directory, on_error)
    if top is None:
        return
    found = False
    folders = [directory]
    if is_log_directory(top):
        folders = [path for _, path in sorted(_partitions(top))]
        for error in not_read(top):
            found = True
            on_error(error)
    for folder in folders:
        entries = top if folder == directory else _entries_unless_gone(folder, on_error)
        names = _segment_names(entries or [], _ALL_KINDS if all_files else _LOG_KINDS)
        found |= entries is None or bool(names)
        yield folder, names
    if not found:
        on_error(no_segments(directory, top))


def not_read(entries: list[ListingEntry]) -> Iterator[KdumpError]:
    """The errors for what is not read in a log directory: links in place of partitions, and logs of no partition.

    ``entries``: its listing.
    """
    yield from partitions_elsewhere(entries)
    paths = {entry.name: entry.path for entry in entries}
    for name in _segment_names(entries, _LOG_KINDS):
        message = "lies in a log directory beside the partitions, and belongs to none of them; name it to read it"
        yield KdumpError(Codes.NOT_A_SEGMENT_FILE, message, path=paths[name])


def partition_directories(
    entries: list[ListingEntry], is_wanted: Callable[[tuple[str, int]], bool], on_error: OnError
) -> Iterator[str]:
    """The partition directories in the listing of a log directory, in the order in which a dump takes them.

    Args:
        entries: the listing.
        is_wanted: whether a partition is, by topic and number.
        on_error: takes LINK_OUTSIDE for a partition that is a link to elsewhere.
    """
    wanted = [entry for entry in entries if (name := parse_partition_directory(entry.name)) and is_wanted(name)]
    for error in partitions_elsewhere(wanted):
        on_error(error)
    yield from (path for _, path in sorted(_partitions(wanted)))


def _has_logs(folder: ListingEntry) -> bool:
    try:
        return bool(_segment_names(files.listing(folder.path), _LOG_KINDS))
    except KdumpError:
        return False


def no_segments(directory: str, entries: list[ListingEntry]) -> KdumpError:
    """The error NO_SEGMENTS for a directory, which says what it is instead. ``entries``: its listing."""
    names = {entry.name for entry in entries}
    partitions = sum(1 for _ in _partitions(entries))
    own_name = parse_partition_directory(os.path.basename(files.absolute(directory)))
    if is_log_directory(entries) or names & LOG_DIRECTORY_TEXT_FILES:
        owner = _owner(directory) if META_PROPERTIES in names else ""
        if not partitions:
            what = f"an empty log directory{owner}, with 0 partitions"
        else:
            which = "1 partition" if partitions == 1 else f"{partitions:,} partitions"
            what = f"a log directory{owner} with {which}, but without a .log file"
    elif own_name is not None or any(name in SIBLING_TEXT_FILES or parse_file_name(name) for name in names):
        held = f"; it holds {len(names):,} other {'file' if len(names) == 1 else 'files'}" if names else "; it is empty"
        what = f"a partition directory without a .log file{held}"
    elif not names:
        what = "an empty directory" if world_of_store(directory) is None else "a bucket without segments"
    else:
        what = "neither a partition directory nor a log directory of Kafka"
        inside = sorted(
            entry.name
            for entry in entries
            if entry.is_directory and files.exists(os.path.join(entry.path, META_PROPERTIES))
        )
        if inside:
            what += f"; log directories in it: {', '.join(inside)}"
        misnamed = next((entry.name for entry in entries if entry.is_directory and _has_logs(entry)), None)
        if misnamed is not None:
            what += f"; {misnamed} is passed over: {no_partition_name(misnamed)}; name it to read it"
    return KdumpError(Codes.NO_SEGMENTS, f"no segment files: {what}", path=directory)


def _owner(directory: str) -> str:
    """The broker of a log directory, according to its meta.properties."""
    from kdump.format.checkpoint import parse_meta_properties

    try:
        node_id = parse_meta_properties(read_whole(os.path.join(directory, META_PROPERTIES))).node_id
    except KdumpError:
        return ""
    return "" if node_id is None else f" of broker {node_id}"


def _entries(folder: str, on_error: OnError) -> list[ListingEntry] | None:
    try:
        return files.listing(folder)
    except KdumpError as error:
        on_error(error)
        return None


def _entries_unless_gone(folder: str, on_error: OnError) -> list[ListingEntry] | None:
    """The listing of a folder. A folder that was removed since its name was listed is empty."""
    try:
        return files.listing(folder)
    except KdumpError as error:
        if not files.exists(folder):
            return []
        on_error(error)
        return None


def has_gone(path: str, error: KdumpError) -> bool:
    """``error`` says that a listed file is missing: a broker deleted it meanwhile. A broken link is something else."""
    return error.code is Codes.MISSING and not files.exists(path)


def _partitions(entries: list[ListingEntry]) -> Iterator[tuple[tuple[str, int], str]]:
    for entry in entries:
        parsed = parse_partition_directory(entry.name)
        if parsed is not None and entry.is_directory:
            yield parsed, entry.path


def _is_partition_directory(entry: ListingEntry) -> bool:
    """Also a link to a directory, as a broker takes it for a partition."""
    return parse_partition_directory(entry.name) is not None and (entry.is_directory or os.path.isdir(entry.path))


def partitions_elsewhere(entries: list[ListingEntry]) -> Iterator[KdumpError]:
    """The error for links in place of partition directories, which are not followed."""
    for entry in entries:
        if not entry.is_directory and _is_partition_directory(entry):
            try:
                check_link(entry.path)
            except KdumpError as error:
                yield error


def _segment_names(entries: list[ListingEntry], kinds: frozenset[Kind]) -> list[str]:
    chosen = []
    for entry in entries:
        parsed = parse_file_name(entry.name)
        if parsed is None or parsed.state or parsed.kind not in kinds:
            continue
        if entry.is_directory:
            continue
        chosen.append(entry.name)
    return sorted(chosen, key=_offset_order)


def _offset_order(name: str) -> tuple[bool, int, int, str]:
    """The sort key of a name. A name without a number comes last: it is an error of that file only."""
    parsed = parse_file_name(name)
    base_offset = None if parsed is None else parsed.base_offset
    return base_offset is None, base_offset or 0, 0 if parsed is None else _SIBLING_ORDER[parsed.kind], name


def segments_around(path: str, missing: Sequence[str] = ()) -> list[str]:
    """The .log files in the directory of ``path``, including itself, in offset order.

    ``missing``: paths of other logs that are gone, to be listed with them.
    """
    directory, name = os.path.split(path)
    entries = _entries(directory or ".", ignore_error) or []
    names = _segment_names(entries, _OF_TODAY)
    if missing:
        names = sorted({*names, *map(os.path.basename, missing)}, key=_offset_order)
    # The path itself, unchanged: joined again it may be another text (t-0//N.log).
    return [path if other == name else os.path.join(directory, other) for other in names] if name in names else [path]


def segments_after(path: str) -> list[str]:
    """The logs in the directory of ``path`` with higher base offsets, in offset order: of the same world.

    ``path`` itself may be gone by now. A file with a state suffix, or without an offset in its name, has none after it.
    """
    own = parse_file_name(path)
    if own is None or own.state or own.base_offset is None:
        return []
    directory = os.path.dirname(path)
    later = [
        entry
        for entry in _entries(directory or ".", ignore_error) or []
        if (other := parse_file_name(entry.name))
        and other.base_offset is not None
        and other.base_offset > own.base_offset
    ]
    kinds = frozenset({own.kind}) & _LOG_KINDS or _OF_TODAY
    return [os.path.join(directory, name) for name in _segment_names(later, kinds)]
