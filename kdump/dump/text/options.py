"""What DumpLogSegments is asked to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.wire.checksum import crc32c
from kdump.wire.utf8 import decode_utf8

MAX_BYTES: Final = 2**31 - 1
"""Default of ``--max-bytes``; any other value also silences the report of trailing bytes."""
MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
"""Default of ``--max-message-size``."""

Decoder = Callable[[bytes], str]


def _integer_decoder(size: int) -> Decoder:
    def decode(data: bytes) -> str:
        if len(data) < size:
            raise DamageError(Codes.DECODER, f"a decoder that takes {size} bytes got {len(data)}")
        return str(int.from_bytes(data[:size], "big", signed=True))

    return decode


def _default_decoder(data: bytes) -> str:
    """Java prints the identity of a byte array, another one in each run; this is of the same shape and repeatable."""
    return f"[B@{crc32c(data):x}"


DECODER_CLASSES: Final[dict[str, Decoder]] = {
    "StringDecoder": decode_utf8,
    "IntegerDecoder": _integer_decoder(4),
    "LongDecoder": _integer_decoder(8),
    "DefaultDecoder": _default_decoder,
}
"""By the simple class name; all live in ``org.apache.kafka.tools.api``."""

DECODER_PACKAGE: Final = "org.apache.kafka.tools.api."


class TextOptions(NamedTuple):
    """The options of DumpLogSegments that only the compatible text has, under their own names."""

    print_data_log: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    key_decoder: Decoder = decode_utf8
    value_decoder: Decoder = decode_utf8

    @property
    def prints_text(self) -> bool:
        """Keys and values, where they are shown, are shown as text (no other decoder class)."""
        return not self.print_data_log or self.key_decoder is self.value_decoder is decode_utf8
