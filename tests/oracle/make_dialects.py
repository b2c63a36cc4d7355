"""Makes ``fixtures/dialects.tar.zst``: what the real tools of older versions print for the captures of the fixtures.

Run ``python -m tests.oracle.make_dialects`` in the repository. It needs Java, Maven and the package zstandard.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from pathlib import Path

import zstandard

from tests.harness.captures import unpack
from tests.harness.dialects import ARCHIVE, GROUPS, as_captured, runs, with_goldens
from tests.oracle.javadump import JavaDump
from tests.oracle.toolchain import OLDER_RELEASES

_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_LEVEL = 19


def main() -> None:
    """Run all tools and write the archive. The same tools and captures give the same bytes."""
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as place:
        captures = unpack(Path(place) / "captures")
        for dialect in GROUPS:
            with JavaDump(OLDER_RELEASES[dialect]) as java:
                for partition in with_goldens(captures, dialect):
                    for name, names, flags in runs(captures, dialect, partition):
                        # The tools change indexes.
                        box = Path(place) / "box"
                        shutil.rmtree(box, ignore_errors=True)
                        shutil.copytree(captures.root / partition, box, ignore=shutil.ignore_patterns("golden"))
                        outcome = java.dump([str(box / file) for file in names], flags)
                        if outcome.failure == _OUT_OF_MEMORY:
                            continue
                        base = f"{dialect}/{partition}/{name}"
                        files[f"{base}.out"] = as_captured(outcome.stdout, box)
                        files[f"{base}.err"] = _without_frames(as_captured(outcome.stderr, box))
                        files[f"{base}.rc"] = f"{outcome.status}\n".encode()
    ARCHIVE.write_bytes(_packed(files))
    print(f"{len(files)} files, {sum(map(len, files.values())):,} bytes, packed {ARCHIVE.stat().st_size:,}")


def _without_frames(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"\t"))


def _packed(files: dict[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    parameters = zstandard.ZstdCompressionParameters.from_level(_LEVEL, window_log=27, enable_ldm=True)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(plain.getvalue())


if __name__ == "__main__":
    main()
