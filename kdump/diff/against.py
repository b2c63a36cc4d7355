"""A copy and its files against what a manifest says of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kdump.codes import Codes, Finding, KdumpError, OnError
from kdump.diff.comparison import CopyDifference, DifferenceKind
from kdump.diff.copies import LoadedCopy
from kdump.diff.manifest import RANGE_OFFSETS, CopyManifest, ListedFile, ListedPartition, files_below, ranges_of
from kdump.diff.places import CopyPlace
from kdump.kafka.image.names import TopicNames
from kdump.log import files
from kdump.log.content import Content, sha256


class FileDifference(NamedTuple):
    """A file that is not what a manifest says. ``root``: the PATH; ``finding``: with where it is, or should be."""

    root: str
    finding: Finding


def roots_of(manifest: CopyManifest, paths: Sequence[str]) -> dict[str, str] | None:
    """For each PATH the one that the manifest was made of: of that name, or the only one, or in the same order.

    None: they are another number.
    """
    roots = manifest.roots
    if set(roots) == set(paths):
        return {path: path for path in paths}
    if len(roots) == 1:
        return dict.fromkeys(paths, roots[0])
    return dict(zip(paths, roots, strict=True)) if len(roots) == len(paths) else None


def listed_for(place: CopyPlace, root: str | None, listed: Sequence[ListedPartition]) -> Sequence[ListedPartition]:
    """What a manifest says of a copy: of what was at its place, else of that of its node, else of each.

    Args:
        place: the copy.
        root: the PATH of the manifest that stands for the PATH of the copy; None: nobody knows.
        listed: what the manifest says of the partition, one for each copy that it was made of.
    """
    if len(listed) > 1 and root is not None:
        own = below(place.log or place.directory, place.path)
        places = [(one, below(one.copy.directory, root)) for one in listed]
        there = [one for one, where in places if where == own] or [one for one, where in places if where is not None]
        if there:
            return there
    return [one for one in listed if one.copy.node is not None and one.copy.node == place.node] or listed


def against(listed: ListedPartition, number: int, copy: LoadedCopy, own: int) -> Iterator[CopyDifference]:
    """What a copy has otherwise than a manifest says.

    Args:
        listed: the partition in the manifest.
        number: of the manifest among the copies.
        copy: the copy.
        own: its number.

    Raises:
        KdumpError: a log cannot be read.
    """
    topic_id, listed_id = copy.place.topic_id, listed.copy.topic_id
    if topic_id is not None and listed_id is not None and topic_id != listed_id:
        names, directory = TopicNames([]), copy.place.directory
        now, then = names.text(topic_id, directory), names.text(listed_id, directory)
        message = f"the topic id is {now}, and the manifest has {then}"
        yield CopyDifference(DifferenceKind.TOPIC_ID, None, None, (number, own), message)
        return
    first, end = max(listed.copy.log_start, copy.log_start), min(listed.copy.log_end, copy.log_end)
    if copy.log_start > listed.copy.log_start:
        message = f"this copy starts at {copy.log_start}, in the manifest at {listed.copy.log_start}"
        yield CopyDifference(DifferenceKind.RETENTION, listed.copy.log_start, copy.log_start - 1, (own,), message)
    if copy.log_end < listed.copy.log_end:
        message = f"this copy ends at {copy.log_end}, in the manifest at {listed.copy.log_end}"
        yield CopyDifference(DifferenceKind.LAG, copy.log_end, listed.copy.log_end - 1, (own,), message)
    if copy.log_end > listed.copy.log_end:
        message = f"the manifest ends at {listed.copy.log_end}, this copy at {copy.log_end}"
        yield CopyDifference(DifferenceKind.LAG, listed.copy.log_end, copy.log_end - 1, (number,), message)
    # Of a large partition these are many.
    known = {one.first // RANGE_OFFSETS: number for number, one in enumerate(listed.ranges)}
    found = {one.first // RANGE_OFFSETS: one for one in ranges_of(copy, listed.copy.log_start, listed.copy.log_end)}
    for place in sorted(known.keys() | found.keys()):
        ours, theirs = listed.ranges[known[place]] if place in known else None, found.get(place)
        span = [one for one in (ours, theirs) if one is not None]
        lowest, highest = min(one.first for one in span), max(one.last for one in span)
        # What is gone from one end of a range cannot be told from what was changed in it.
        if lowest < first or highest >= end or (ours is not None and theirs is not None and ours == theirs):
            continue
        held = [f"{'nothing' if one is None else f'{one.records:,} records'}" for one in (ours, theirs)]
        message = f"not what the manifest says of these offsets ({held[0]} there, {held[1]} here)"
        yield CopyDifference(DifferenceKind.CHANGED, lowest, highest, (number, own), message)


def changed_files(manifest: CopyManifest, root: str, directory: str, on_error: OnError) -> Iterator[FileDifference]:
    """The files of a PATH that are not what a manifest says of them.

    Args:
        manifest: what it says.
        root: a PATH that it was made of.
        directory: that PATH now.
        on_error: takes what cannot be read.

    Raises:
        KdumpError: the PATH cannot be listed.
    """
    # A file may be listed twice, and be only one of them now.
    listed: dict[str, list[ListedFile]] = {}
    for one in manifest.files:
        if (place := below(one.path, root)) is not None:
            listed.setdefault(place, []).append(one)
    present = {below(path, directory) or "": path for path in files_below(directory, [manifest.path])}
    for name in sorted(listed.keys() | present.keys()):
        path, code = present.get(name, os.path.join(directory, name)), Codes.MANIFEST_FILE
        message: str | None = "the file is gone"
        if name not in listed:
            code, message = Codes.MANIFEST_NEW_FILE, "the manifest does not know this file"
        elif name in present:
            try:
                message = next(filter(None, (_change(one, path) for one in dict.fromkeys(listed[name]))), None)
            except KdumpError as error:
                on_error(error.located(path))
                continue
        if message is not None:
            yield FileDifference(directory, Finding(code, message, 0, path=path))


def _change(listed: ListedFile, path: str) -> str | None:
    """How a file was changed; None where it was not. Raises KdumpError."""
    size = files.size(path)
    if size == listed.size or listed.size < 0:
        return None if sha256(Content.of_file(path, size)) == listed.sha256 else "the file has other bytes"
    if size > listed.size and sha256(Content.of_file(path, listed.size)) == listed.sha256:
        more = size - listed.size
        appended = "1 byte was" if more == 1 else f"{more:,} bytes were"
        return f"{appended} appended to the file; its first {listed.size:,} are the same"
    return f"the file has {size:,} bytes, in the manifest {listed.size:,}"


def below(path: str, root: str) -> str | None:
    """The path from a directory on, empty for the directory itself; None: it is not in it."""
    if path.rstrip("/") == root.rstrip("/"):
        return ""
    above = root.rstrip("/") + "/"
    return path.removeprefix(above) if path.startswith(above) else None
