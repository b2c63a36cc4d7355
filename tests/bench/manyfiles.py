"""Log directories of many small files: ``python -m tests.bench.manyfiles DIR PARTITIONS SEGMENTS``.

The segments of one partition are written once; the others are hard links to them, so that 20,000 segments cost the
disk a few directories.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import Final

from tests.oracle.crafting import Fields, Header, batch_of

_BATCHES: Final = 10
_RECORDS: Final = 10
_START: Final = 1_700_000_000_000
_META_PROPERTIES: Final = "version=1\nbroker.id=1\nnode.id=1\ncluster.id=3Db5QLSqSZieL3rJBUUegA\n"


def _segment(base_offset: int) -> bytes:
    batches = []
    for number in range(_BATCHES):
        offset = base_offset + number * _RECORDS
        time = _START + offset
        records = [Fields(delta, key=b"k%d" % delta, value=b"v" * 40) for delta in range(_RECORDS)]
        batches.append(batch_of(records, Header(offset, base_timestamp=time, max_timestamp=time)))
    return b"".join(batches)


def write_partition(folder: Path, segments: int) -> int:
    """A partition of ``segments`` whole segments with their indexes in a new directory; its log end offset."""
    folder.mkdir(parents=True)
    each = _BATCHES * _RECORDS
    for number in range(segments):
        first = number * each
        last = first + each - 1
        data = _segment(first)
        name = folder / f"{first:020d}"
        name.with_suffix(".log").write_bytes(data)
        name.with_suffix(".index").write_bytes(b"")
        # The last batch has the largest timestamp; its first record has it, too.
        entry = struct.pack(">qi", _START + last - _RECORDS + 1, last - first)
        name.with_suffix(".timeindex").write_bytes(entry)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return segments * each


def write_log_directory(directory: Path, partitions: int, segments: int) -> None:
    """A new log directory of a stopped broker: ``partitions`` of ``segments`` each."""
    template = directory / "topic-0"
    end = write_partition(template, segments)
    names = sorted(entry.name for entry in template.iterdir())
    for number in range(1, partitions):
        folder = directory / f"topic-{number}"
        folder.mkdir()
        for name in names:
            os.link(template / name, folder / name)
    (directory / "meta.properties").write_text(_META_PROPERTIES)
    for checkpoint, offset in (("recovery-point", end), ("replication", end), ("log-start", 0)):
        lines = "".join(f"topic {number} {offset}\n" for number in range(partitions) if offset)
        count = partitions if offset else 0
        (directory / f"{checkpoint}-offset-checkpoint").write_text(f"0\n{count}\n{lines}")
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


if __name__ == "__main__":
    write_log_directory(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
