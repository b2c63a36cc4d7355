"""Whether a file is still the one that was read."""

from __future__ import annotations

import os
from typing import NamedTuple, Self

from kdump.codes import Codes, KdumpError


class FileFingerprint(NamedTuple):
    """What changes when a file is written to or replaced. ``modified`` is in ns."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of_log(cls, path: str) -> Self:
        """The fingerprint of a log, which may be missing. Raises KdumpError UNREADABLE."""
        return cls.of(path) if os.path.lexists(path) else cls(-1, -1, 0, 0)

    @property
    def is_there(self) -> bool:
        """There is a file."""
        return self.inode >= 0

    @classmethod
    def of(cls, path: str) -> Self:
        """The fingerprint of the file that ``path`` leads to now. Raises KdumpError MISSING or UNREADABLE."""
        try:
            status = os.stat(path)
        except FileNotFoundError as error:
            raise KdumpError(Codes.MISSING, "no such file or directory", path=path) from error
        except OSError as error:
            raise KdumpError(Codes.UNREADABLE, error.strerror or str(error), path=path) from error
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def check(self, path: str) -> None:
        """Raises KdumpError CHANGED_WHILE_READ where ``path`` has another fingerprint now."""
        try:
            now = FileFingerprint.of_log(path) if not self.is_there else FileFingerprint.of(path)
        except KdumpError:
            now = None
        if now != self:
            what = "is gone" if now is None else "was replaced" if now[:2] != self[:2] else "was written to"
            raise KdumpError(Codes.CHANGED_WHILE_READ, f"{what} while it was read; nothing is written", path=path)
