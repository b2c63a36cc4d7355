"""The text of DumpLogSegments of Kafka 0.7 as a printer of ``kdump.reading.view``.

Source: docs/spec/old-kafka.md#2-dumplogsegments-of-07.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kdump.codes import Codes, DamageError
from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Record
from kdump.reading.printing import AnyRecord, BlockPrinter, TextBytes, TextRow, TextRows
from kdump.wire.utf8 import decode_utf8

_CODECS: Final = ("NoCompressionCodec", "GZIPCompressionCodec", "SnappyCompressionCodec")


class TextPrinter07(TextRows):
    """A line an entry, and with ``with_payload`` one more with its payload. Wrappers are not opened."""

    def __init__(self, *, with_payload: bool) -> None:
        self._with_payload = with_payload

    def entry(self, entry: Message, position: int, is_valid: bool) -> TextRow:
        """See Printer."""
        if entry.codec >= len(_CODECS):
            raise DamageError(Codes.CODEC, f"{entry.codec} is an unknown compression codec")
        line = (
            f"offset: {entry.offset} isvalid: {'true' if is_valid else 'false'} payloadsize: {entry.value_size()} "
            f"magic: {entry.magic} compresscodec: {_CODECS[entry.codec]}\n"
        )
        return f"{line}payload:\t{decode_utf8(entry.value() or b'')}\n" if self._with_payload else line

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> TextRow:
        """See Printer; there are no batches."""
        raise NotImplementedError

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> TextRow:
        """See Printer; there are no batches."""
        raise NotImplementedError

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> TextRow:
        """See Printer; the view is one of entries."""
        raise NotImplementedError

    def skip(self, record: AnyRecord, row: Callable[[], TextRow]) -> None:
        """See Printer."""

    def columns(self) -> BlockPrinter[TextBytes] | None:
        """None: entries are printed one by one."""
        return None
