"""The text of DumpLogSegments of Kafka 0.7 ; see WorldText of ``dump.text.output``.

Source: docs/spec/old-kafka.md#2-dumplogsegments-of-07.
"""

from __future__ import annotations

from typing import Final

from kdump.codes import Codes, DamageError
from kdump.dump.text.options import TextOptions
from kdump.dump.text.printer import TextPrinter
from kdump.format.legacy import Message
from kdump.reading.printing import BlockPrinter, TextBytes
from kdump.wire.utf8 import decode_utf8

START_LABEL: Final = "Starting offset"
ENDS: tuple[Codes, ...] = (Codes.TRAILING_BYTES, Codes.LENGTH_TOO_SMALL)
"""What the tool takes for the end of a log (docs/spec/old-kafka.md#15-iterating)."""
_CODECS: Final = ("NoCompressionCodec", "GZIPCompressionCodec", "SnappyCompressionCodec")


def printer(options: TextOptions) -> TextPrinter:
    """See WorldText."""
    return TextPrinter07(options)


def end_line(offset: int) -> str:
    """See WorldText."""
    return f"tail of the log is at offset: {offset}\n"


class TextPrinter07(TextPrinter):
    """A line an entry, and with ``--print-data-log`` one more with its payload. Wrappers are not opened."""

    def entry(self, entry: Message, position: int, is_valid: bool) -> str:
        """See Printer."""
        if entry.codec >= len(_CODECS):
            raise DamageError(Codes.CODEC, f"{entry.codec} is an unknown compression codec")
        line = (
            f"offset: {entry.offset} isvalid: {'true' if is_valid else 'false'} payloadsize: {entry.value_size()} "
            f"magic: {entry.magic} compresscodec: {_CODECS[entry.codec]}\n"
        )
        if not self._options.print_data_log:
            return line
        return f"{line}payload:\t{decode_utf8(entry.value() or b'')}\n"

    def columns(self) -> BlockPrinter[TextBytes] | None:
        """None: entries are printed one by one."""
        return None
