"""POSIX ACLs of files: linux/posix_acl_xattr.h."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import Final

import pytest

USER_OF_FILE: Final = 1
GROUP_OF_FILE: Final = 4
NAMED: Final = {"user": 2, "group": 8}
MASK: Final = 0x10
OTHERS: Final = 0x20
_VERSION: Final = 2
_NO_ID: Final = 0xFFFFFFFF
_STRANGER: Final = 6666


def set_acl(path: Path, *entries: tuple[int, int], is_default: bool = False) -> None:
    """Give a file an ACL, as (tag, permissions) in any order; a named user or group is 6666.

    ``is_default``: files that are made in that directory get it. The test is skipped where there are no ACLs.
    """
    packed = [
        struct.pack("<HHI", tag, permissions, _STRANGER if tag in NAMED.values() else _NO_ID)
        for tag, permissions in sorted(entries)
    ]
    kind = "default" if is_default else "access"
    try:
        os.setxattr(path, f"system.posix_acl_{kind}", struct.pack("<I", _VERSION) + b"".join(packed))
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip("a file system without ACLs")
