"""Which file a PATH stands for, by kdump's own rules for names (shared/design.md, "Command line")."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kdump.log.names import Kind, parse_file_name
from kdump.log.source import STDIN, is_stream


@dataclass(frozen=True, slots=True)
class Target:
    """One file to dump: where it is, what kind, and its base offset (None: the name has none).

    ``unnamed``: a stream, whose base offset can only be that of its first batch. ``may_be_missing``: the Java tool
    takes a missing transaction index for an empty one.
    """

    path: str
    kind: Kind
    base_offset: int | None
    unnamed: bool = False
    may_be_missing: bool = False

    @property
    def file_name(self) -> str:
        """Last component of the path."""
        return PurePosixPath(self.path).name


def target_by_path(path: str) -> Target | None:
    """The file a PATH stands for, by kdump's own rules for names (inner suffixes, tiered storage, streams).

    None for a file that is no segment file. A path that does not exist is taken by its name.
    """
    if path == STDIN or is_stream(path):
        return Target(path, Kind.LOG, None, unnamed=True)
    name = parse_file_name(path)
    return None if name is None else Target(path, name.kind, name.base_offset)
