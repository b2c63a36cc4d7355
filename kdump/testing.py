"""Segments for tests: of consumers, of backup tools, of parsers. Written by the code of ``kdump convert --from jsonl``.

``write_segment`` writes a log with its index files, as a broker would have them. ``flip_bit`` and ``truncate`` damage
files.
"""

from __future__ import annotations

import json
import os
import struct
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from kdump.codes import Codes
from kdump.convert.conversion import Conversion
from kdump.convert.jsonlog import JsonLog
from kdump.convert.offsetmap import OffsetMap
from kdump.convert.run import Outputs
from kdump.convert.segment import SegmentJob, convert_segment
from kdump.format import control
from kdump.format.batch import CODEC_NAMES, MAGIC
from kdump.library.records import LogRecord
from kdump.log.names import Kind
from kdump.log.source import MemorySource, Source
from kdump.rows.columns import snake_case
from kdump.system.files import discard

GivenRecord: TypeAlias = "LogRecord | Mapping[str, Any] | tuple[bytes | str | None, bytes | str | None]"
"""A ``kdump.Record``; a mapping with the names of JSON lines, such as ``{"key": b"k", "value": None, "timestamp": 5}``;
or a pair of key and value. Bytes and text may stand for one another."""
Ending: TypeAlias = Literal["commit", "abort"]
_TYPES: Final = {"abort": control.ABORT, "commit": control.COMMIT}
_TAKEN: Final = (
    "offset", "timestamp", "timestampType", "key", "value", "headers", "sequence", "producerId", "producerEpoch",
    "partitionLeaderEpoch", "isTransactional", "isControl", "magic", "compression", "batchBaseOffset", "position",
)  # fmt: skip
"""Columns that a new record takes over from another one."""
_WRONG_RECORDS: Final = frozenset({Codes.JSON_LINE, Codes.OFFSETS_BACKWARDS, Codes.OFFSET_RANGE})
_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")


def write_segment(
    path: str | os.PathLike[str],
    records: Iterable[GivenRecord],
    *,
    magic: int = MAGIC,
    codec: str | None = None,
    producer: tuple[int, int] | None = None,
    transactional: bool | Ending = False,
    index: bool = True,
    base_offset: int = 0,
    records_per_batch: int | None = None,
) -> Path:
    """Write a segment: a log and, beside it, .index, .timeindex and, with aborted transactions, .txnindex.

    What a record itself says (``offset``, ``producerId``, ``compression``, ...) goes before the arguments.

    Args:
        path: the log, such as ``orders-0/00000000000000000000.log``; or a directory, in which it is named by
            ``base_offset``. Directories are made. Files that are there are replaced.
        records: in the order of their offsets.
        magic: 0, 1 or 2.
        codec: ``gzip``, ``snappy``, ``lz4`` or ``zstd``; None: not compressed.
        producer: (producer id, producer epoch) of an idempotent producer, whose sequences begin at 0.
        transactional: the records are one transaction of the producer. ``commit`` and ``abort`` end it with a marker,
            True leaves it open.
        index: write the index files.
        base_offset: the offset of the first record; the others follow without gaps.
        records_per_batch: None: as many as fit the 16 KiB of a producer's batch.

    Returns:
        The path of the log.

    Raises:
        ValueError: a record or an argument that no segment can hold, such as headers in magic 1.
        KdumpError: a file cannot be written.
    """
    if codec is not None and codec not in CODEC_NAMES:
        raise ValueError(f"codec is one of {', '.join(CODEC_NAMES)}, not {codec!r}")
    if transactional and producer is None:
        raise ValueError("a transaction needs a producer")
    given: list[GivenRecord] = list(records)
    common: dict[str, Any] = {"magic": magic, "compression": codec or CODEC_NAMES[0]}
    if producer is not None:
        common |= {"producerId": producer[0], "producerEpoch": producer[1], "isTransactional": bool(transactional)}
    if isinstance(transactional, str):
        assert producer is not None
        given.append(marker(transactional, producer))
    rows = list(_rows(given, common, base_offset, records_per_batch))
    target = os.fspath(path)
    if os.path.isdir(target) or not target.endswith(Kind.LOG.value):
        target = os.path.join(target, f"{rows[0]['offset'] if rows else base_offset:020d}{Kind.LOG.value}")
    named = os.path.basename(target).removesuffix(Kind.LOG.value)
    job = _RowsJob(target, target, int(named) if named.isdecimal() else None, Conversion(), rows=rows)
    with Outputs([job], overwrites=True) as outputs:
        result = convert_segment(job)
        if result.error is not None:
            if result.error.code in _WRONG_RECORDS:
                raise ValueError(result.error.message)
            raise result.error
        if not index:
            discard([staged for staged in result.staged if not staged.path.endswith(Kind.LOG.value)])
            result.staged = [staged for staged in result.staged if staged.path.endswith(Kind.LOG.value)]
        outputs.add(result)
        outputs.publish()
    return Path(target)


def marker(kind: Ending, producer: tuple[int, int], *, coordinator_epoch: int = 0, timestamp: int = -1) -> GivenRecord:
    """The control record that ends a transaction, for ``write_segment``.

    Args:
        kind: ``commit`` or ``abort``.
        producer: (producer id, producer epoch).
        coordinator_epoch: of the coordinator that wrote it.
        timestamp: milliseconds since 1970.
    """
    return {
        "key": _MARKER_KEY.pack(0, _TYPES[kind]),
        "value": _MARKER_VALUE.pack(0, coordinator_epoch),
        "timestamp": timestamp,
        "sequence": -1,
        "producerId": producer[0],
        "producerEpoch": producer[1],
        "isTransactional": True,
        "isControl": True,
        "compression": CODEC_NAMES[0],
    }


def flip_bit(path: str | os.PathLike[str], position: int, bit: int = 0) -> None:
    """Change one bit of a file in place.

    Args:
        path: the file.
        position: of the byte; negative: from the end of the file.
        bit: 0 (the lowest) to 7.
    """
    if bit not in range(8):
        raise ValueError(f"a byte has the bits 0 to 7, not {bit}")
    with open(path, "r+b") as file:
        file.seek(position, os.SEEK_SET if position >= 0 else os.SEEK_END)
        (byte,) = file.read(1) or b"\0"
        file.seek(position, os.SEEK_SET if position >= 0 else os.SEEK_END)
        file.write(bytes([byte ^ 1 << bit]))


def truncate(path: str | os.PathLike[str], size: int) -> None:
    """Cut a file in place.

    Args:
        path: the file.
        size: bytes that stay; negative: so many are cut off.
    """
    os.truncate(path, size if size >= 0 else max(0, os.path.getsize(path) + size))


@dataclass(frozen=True, slots=True)
class _RowsJob(SegmentJob):
    """A job whose JSON lines are in memory."""

    from_json: bool = True
    rows: list[dict[str, Any]] | None = None

    def open(self, offsets: OffsetMap) -> Source:
        """See SegmentJob."""
        lines = "".join(json.dumps(row, default=_as_json) + "\n" for row in self.rows or ())
        return JsonLog(MemorySource(self.source, lines.encode()))


def _rows(
    records: Iterable[GivenRecord], common: Mapping[str, Any], offset: int, records_per_batch: int | None
) -> Iterator[dict[str, Any]]:
    """The rows of JSON lines."""
    sequence = 0
    in_batch, batch = 0, offset
    for record in records:
        row = {"offset": offset, **common, **_row(record)}
        if "producerId" in row and "sequence" not in row:
            row["sequence"] = sequence
            sequence += 1
        if records_per_batch is not None and "batchBaseOffset" not in row:
            if in_batch == records_per_batch or row.get("isControl"):
                in_batch = 0
            if not in_batch:
                batch = row["offset"]
            in_batch += 1
            row |= {"batchBaseOffset": batch, "position": batch}
        yield row
        offset = row["offset"] + 1


def _row(record: GivenRecord) -> dict[str, Any]:
    if isinstance(record, LogRecord):
        row = {name: getattr(record, snake_case(name)) for name in _TAKEN}
        return {name: value for name, value in row.items() if value is not None or name in ("key", "value")}
    if isinstance(record, Mapping):
        return dict(record)
    key, value = record
    return {"key": key, "value": value}


def _as_json(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": b64encode(value).decode()}
    raise ValueError(f"{value!r} is neither bytes nor text")
