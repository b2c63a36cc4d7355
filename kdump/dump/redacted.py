"""Keys and values replaced by keyed hashes, so that a capture's dump can be shared."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Generic

from kdump.codes import DamageError
from kdump.format import control
from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.message import read_message
from kdump.format.record import Record
from kdump.reading.printing import AnyRecord, BlockPrinter, Printer, RowsT, RowT
from kdump.wire.cursor import Cursor


class RedactingPrinter(Generic[RowT, RowsT]):
    """Replaces keys, values and header values with hashes of the same sizes. Equal values stay equal.

    Control records hold no data of users and stay as they are, if they are what their batch says: a flipped bit must
    not reveal data. CRCs, and whether they are right, are those of the original.
    """

    def __init__(self, printer: Printer[RowT, RowsT], secret: bytes) -> None:
        self._printer = printer
        self._secret = secret

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> RowT:
        """See Printer."""
        return self._printer.batch(header, position, is_valid)

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> RowT:
        """See Printer."""
        record = record._replace(headers=tuple((key, self._hash(value)) for key, value in record.headers))
        if not (header.is_control and _is_control_record(record)):
            record = record._replace(key=self._hash(record.key), value=self._hash(record.value))
        return self._printer.record(header, position, is_valid, record)

    def entry(self, entry: Message, position: int, is_valid: bool) -> RowT:
        """See Printer."""
        return self._printer.entry(entry, position, is_valid)

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> RowT:
        """See Printer."""
        message = record.message
        data = bytearray(message.data)
        for at, content in message.content_positions():
            token = self._hash(content) or b""
            data[at : at + len(token)] = token
        hidden = message._replace(data=memoryview(bytes(data)))
        return self._printer.legacy_record(entry, position, is_valid, record._replace(message=hidden))

    def skip(self, record: AnyRecord, row: Callable[[], RowT]) -> None:
        """See Printer."""
        self._printer.skip(record, row)

    def joined(self, rows: list[RowT]) -> Iterator[RowsT]:
        """See Printer."""
        return self._printer.joined(rows)

    def columns(self) -> BlockPrinter[RowsT] | None:
        """None: records are replaced one by one."""
        return None

    def _hash(self, data: bytes | None) -> bytes | None:
        """Letters and digits of the same size, from a hash keyed with the secret."""
        if data is None:
            return None
        digest = hashlib.blake2b(data, key=self._secret).digest()
        token = base64.b32encode(digest).rstrip(b"=").lower()
        return (token * (len(data) // len(token) + 1))[: len(data)]


def _is_control_record(record: Record) -> bool:
    """The key is that of a control record, and the value is what its type needs, with nothing after it, or null."""
    try:
        control_type = control.parse_type(record.key)
        if len(record.key or b"") != control.KEY_SIZE:
            return False
        if record.value is None:
            return control_type in (control.ABORT, control.COMMIT) or control.schema_of(control_type) is not None
        if control_type in (control.ABORT, control.COMMIT):
            control.parse_end_txn(record.value)
            return len(record.value or b"") == control.END_TXN_SIZE
        schema = control.schema_of(control_type)
        if schema is None:
            return False
        cursor = Cursor(record.value)
        read_message(schema, 0, cursor)
    except DamageError:
        return False
    return cursor.remaining == 0
