"""The one catalogue of what can be wrong: a stable code, its name and a title.

Findings (damage in a file) and errors (a file that cannot be looked at) carry a code from here. Codes are never
reused; messages may change, codes may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


@dataclass(frozen=True, slots=True)
class Code:
    """One entry of the catalogue: ``KD101``, ``record-size``, and a title for people."""

    code: str
    name: str
    title: str


class Codes(Enum):
    """KD0xx: the input cannot be looked at. KD1xx: framing. KD2xx: batch contents. KD3xx: sibling files."""

    MISSING = Code("KD001", "missing", "no such file or directory")
    UNREADABLE = Code("KD002", "unreadable", "cannot be read")
    NOT_A_SEGMENT_FILE = Code("KD003", "not-a-segment-file", "not a file of a Kafka partition")
    NO_SEGMENTS = Code("KD004", "no-segments", "a directory without segments")
    NAME = Code("KD005", "file-name", "the file name holds no offset")
    SIBLING_MISSING = Code("KD006", "sibling-missing", "another file of the segment is needed and missing")

    LENGTH_TOO_SMALL = Code("KD101", "length-too-small", "length field below the smallest entry")
    MAGIC = Code("KD102", "magic", "magic byte of no known format")
    HEADER_CUT = Code("KD103", "header-cut", "the file ends inside a batch header")
    TRAILING_BYTES = Code("KD104", "trailing-bytes", "bytes behind the last whole entry")
    TRUNCATED = Code("KD105", "truncated", "the file ends inside an entry")
    ZERO_FILL = Code("KD106", "zero-fill", "zeros in place of an entry")
    LENGTH_TOO_LARGE = Code("KD107", "length-too-large", "length field that reaches into other entries")
    BATCH_CRC = Code("KD108", "batch-crc", "a batch with a wrong CRC")

    CODEC = Code("KD201", "codec", "unknown compression codec")
    PAYLOAD = Code("KD202", "payload", "the compressed records cannot be decompressed")
    PAYLOAD_TOO_LARGE = Code("KD203", "payload-too-large", "decompressed records over the limit")
    RECORD_COUNT = Code("KD204", "record-count", "the record count does not fit the records")
    RECORD = Code("KD205", "record", "a record is malformed")
    CONTROL_RECORD = Code("KD206", "control-record", "a control record is malformed")
    LEGACY_WRAPPER = Code("KD207", "legacy-wrapper", "a compressed message set is malformed")
    LEGACY_MESSAGE = Code("KD208", "legacy-message", "a message of magic 0 or 1 is malformed")
    DECODER = Code("KD209", "decoder", "the chosen decoder cannot decode a key or value")

    INDEX = Code("KD301", "index", "an index file does not pass the sanity check")
    INDEX_ENTRY = Code("KD302", "index-entry", "an index entry points to no batch")
    TXN_INDEX_VERSION = Code("KD303", "txnindex-version", "unknown version of an aborted transaction")
    SNAPSHOT_SCHEMA = Code("KD304", "snapshot-schema", "a producer snapshot that fits no schema")
    SNAPSHOT_CRC = Code("KD305", "snapshot-crc", "a producer snapshot with a wrong CRC")


INPUT_CODES: Final = frozenset({Codes.MISSING, Codes.UNREADABLE, Codes.NOT_A_SEGMENT_FILE, Codes.NO_SEGMENTS})
"""Errors of the input itself, not damage in it: exit status 3."""


class KdumpError(Exception):
    """The root of all errors kdump raises on purpose.

    ``str()`` gives one line for people: file, position and what is wrong.
    """

    def __init__(self, code: Codes, message: str, *, path: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.path = path
        self.position = position

    def located(self, path: str | None = None, position: int | None = None) -> KdumpError:
        """Fill in what the raising code did not know; what is known stays. Returns self."""
        if self.path is None:
            self.path = path
        if self.position is None:
            self.position = position
        return self

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path}: "
        at = "" if self.position is None else f"at {self.position}: "
        return f"{where}{at}{self.message}"


class DamageError(KdumpError):
    """The bytes are not what the format asks for; everything decoded before it stands."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage in a file: what, where, and what it costs.

    ``length``: bytes concerned, None where that is not known. ``first_offset`` to ``last_offset`` (inclusive) are lost
    at most; ``continue_at`` is the first offset behind the damage.
    """

    code: Codes
    message: str
    position: int
    length: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    continue_at: int | None = None

    def __str__(self) -> str:
        extent = "" if self.length is None else f"{self.length:,} bytes skipped: "
        lost = ""
        if self.first_offset is not None:
            last = "..." if self.last_offset is None else self.last_offset
            lost = f"; offsets {self.first_offset}..{last} lost (at most)"
        goes_on = "" if self.continue_at is None else f"; continues at offset {self.continue_at}"
        return f"at {self.position}: {extent}{self.message}{lost}{goes_on}"
