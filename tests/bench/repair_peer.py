"""The peer of ``kdump repair``: reads a file in blocks, digests it once, and perhaps copies it durably.

``python -m tests.bench.repair_peer FILE [COPY]``
"""

from __future__ import annotations

import hashlib
import os
import sys

_BLOCK = 1 << 20


def main(path: str, copy: str | None) -> None:
    """Print the SHA-256."""
    digest = hashlib.sha256()
    block = memoryview(bytearray(_BLOCK))
    target = None if copy is None else os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(block):
            digest.update(block[:count])
            if target is not None:
                os.write(target, block[:count])
    if target is not None:
        os.fsync(target)
        os.close(target)
    print(digest.hexdigest())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
