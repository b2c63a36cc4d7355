"""Whether a broker holds a log directory's ``.lock``.

Kafka takes a POSIX record lock (fcntl), not flock. Asking for it changes nothing. On network file systems the answer
of the kernel may be wrong; then, and where there is no lock file, nobody is taken to hold it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

from kdump.log.names import is_uri

LOCK_FILE: Final = ".lock"
# struct flock of Linux: type, whence, start, length, process id.
_FLOCK: Final = struct.Struct("hhqqi4x")


def is_held(log_directory: str) -> bool:
    """A process holds the lock of the log directory: a broker runs on it. False for a URI: stores have no locks."""
    if is_uri(log_directory):
        return False
    try:
        descriptor = os.open(os.path.join(log_directory, LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(kind != fcntl.F_UNLCK)
