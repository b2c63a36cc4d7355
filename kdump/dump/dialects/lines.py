"""The lines of older versions of DumpLogSegments, by templates.

Source: docs/spec/dump-output.md#11-differences-between-tool-versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.dump.text import lines as newest
from kdump.dump.text.dialect import TooNewError
from kdump.dump.text.options import TextOptions
from kdump.dump.text.printer import TextPrinter
from kdump.dump.text.reports import OffsetContinuity
from kdump.format import control, legacy
from kdump.format.batch import CODEC_NAMES, NO_TIMESTAMP_TYPE, BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Record
from kdump.reading.printing import BlockPrinter, TextBytes, header_keys
from kdump.wire.compression import DEFAULT_LIMIT, NONE

if TYPE_CHECKING:
    from kdump.dump.text.decoders import TextDecoding

_BOOLEANS: Final = ("false", "true")
_NO_SEQUENCE: Final = -1


class DialectLines(NamedTuple):
    """The lines of one version. A template names its fields as ``OlderPrinter`` gives them."""

    record: str
    """A record of a batch."""
    message: str
    """A record of magic 0 or 1."""
    batch: str | None = None
    """A batch; None: the line of the newest."""
    entry: str | None = None
    """A message or wrapper of magic 0 or 1; None: the line of the newest."""
    codecs: tuple[str, ...] = CODEC_NAMES
    batches_beside_records: bool = True
    """Where records are shown, their batch has its line too."""
    kraft_as_json: frozenset[int] = frozenset()
    """The types of control records of KRaft whose values are shown."""
    kraft_names: Mapping[int, str] = {}
    """The names of other types of control records."""
    key_needs_value: bool = False
    """A key is shown only beside a value."""
    null_shown: bool = False
    """A null value is shown as ``null``."""
    newest_magic: int = 127
    """Below 2: there are no batches, and a message or wrapper has the line of a record."""


class OlderPrinter(TextPrinter):
    """The printer of one log.

    Args:
        version: of Kafka.
        lines: its lines.
        options: what DumpLogSegments was asked for.
        decoding: of keys and values.
        continuity: takes the offsets of entries where these are shown as messages; None: nobody looks at them.
        with_records: the view is one of records.
    """

    def __init__(
        self,
        version: str,
        lines: DialectLines,
        options: TextOptions,
        decoding: TextDecoding | None,
        continuity: OffsetContinuity | None,
        *,
        with_records: bool,
    ) -> None:
        super().__init__(options, decoding)
        self._version = version
        self._lines = lines
        self._continuity = continuity
        self._shows_entries = lines.batches_beside_records or not with_records
        self._after_crc = lines.message.rpartition("{crc}")[2].replace("}}", "}")
        self._record_template = lines.record.partition("{headerKeys}")
        self._of_batch: tuple[object, dict[str, Any]] = (None, {})
        self._wrapper_of_base: tuple[Message | None, int] = (None, 0)

    def columns(self) -> BlockPrinter[TextBytes] | None:
        """See Printer: where lines are those of the newest."""
        return None if self._lines.batch is not None or self._options.skip_record_metadata else super().columns()

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> str:
        """See Printer."""
        if header.magic > self._lines.newest_magic:
            raise too_new(f"magic {header.magic}", position, self._version)
        if not self._shows_entries:
            return ""
        if self._lines.batch is None:
            return super().batch(header, position, is_valid)
        return self._lines.batch.format_map(self._batch_fields(header, position, is_valid)) + "\n"

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> str:
        """See Printer."""
        line = ""
        contents = ""
        if not self._options.skip_record_metadata:
            fields = self._batch_fields(header, position, is_valid) | {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "keySize": -1 if record.key is None else len(record.key),
                "valueSize": -1 if record.value is None else len(record.value),
                "sequence": record.sequence,
                "isValid": "true",
                "crc": "null",
            }
            before, named, after = self._record_template
            keys = header_keys(record.headers) if named else ""
            control_part = self._control(record) if header.is_control else ""
            line = before.format_map(fields) + keys + (after and after.format_map(fields)) + control_part
        if self._options.print_data_log and not header.is_control:
            if self._decoding is not None:
                made = self._decoding.contents(record.offset, record.key, record.value, record.headers)
                contents = self._contents(made.key, made.payload, is_alone=not line)
            else:
                contents = self._plain(record.key, record.value, is_alone=not line)
        return f"{line}{contents}\n"

    def entry(self, entry: Message, position: int, is_valid: bool) -> str:
        """See Printer."""
        newest_magic = self._lines.newest_magic
        if entry.magic > newest_magic or (entry.magic < 0 and newest_magic == 0):
            raise too_new(f"magic {entry.magic}", position, self._version)
        if newest_magic < 2 and entry.length > self._options.max_message_size:
            raise DamageError(Codes.LENGTH_TOO_LARGE, f"a message of {entry.length} bytes, over --max-message-size")
        if not self._shows_entries:
            return ""
        if newest_magic < 2:
            self._see(entry)
            return self._message(entry, position, is_valid, LegacyRecord(entry.offset, entry.timestamp, entry))
        if entry.magic < 0:
            raise DamageError(Codes.MAGIC, f"magic byte {entry.magic}")
        if self._lines.entry is None:
            return super().entry(entry, position, is_valid)
        return self._lines.entry.format_map(self._entry_fields(entry, position, is_valid)) + "\n"

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> str:
        """See Printer; ``is_valid`` is of the record."""
        return self._message(entry, position, is_valid, record)

    def _message(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> str:
        message = record.message
        line = ""
        contents = ""
        if not self._options.skip_record_metadata:
            key_size = message.key_size()
            fields = self._entry_fields(entry, position, is_valid) | {
                "baseOffset": self._base_offset(entry),
                "offset": record.offset,
                "timestamp": record.timestamp,
                "ownTimestampType": NO_TIMESTAMP_TYPE if message.magic == 0 else entry.timestamp_type,
                "keySize": key_size,
                "keysize": f" keysize: {key_size}" if key_size >= 0 else "",
                "valueSize": message.value_size(),
                "magic": message.magic,
                "codec": self._codec(message.codec, position),
                "isValid": _BOOLEANS[is_valid],
                "crc": message.crc,
            }
            line = self._lines.message.format_map(fields)
        if self._options.print_data_log:
            if self._decoding is not None:
                made = self._decoding.message_contents(record.offset, message)
                contents = self._contents(made.key, made.payload, is_alone=not line)
            else:
                contents = self._plain(message.key(), message.value(), is_alone=not line)
        return f"{line}{contents}\n"

    def _see(self, entry: Message) -> None:
        if self._continuity is not None:
            if entry.codec == NONE:
                self._continuity.see(entry.offset)
            else:
                self._continuity.pass_over(entry.offset)

    def _batch_fields(self, header: BatchHeader, position: int, is_valid: bool) -> dict[str, Any]:
        if self._of_batch[0] is not header:
            fields = {
                "baseOffset": header.base_offset,
                "lastOffset": header.last_offset,
                "count": header.record_count,
                "baseSequence": header.base_sequence,
                "lastSequence": header.last_sequence,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "partitionLeaderEpoch": header.partition_leader_epoch,
                "isTransactional": _BOOLEANS[header.is_transactional],
                "isControl": _BOOLEANS[header.is_control],
                "position": position,
                "timestampType": header.timestamp_type,
                "maxTimestamp": header.max_timestamp,
                "batchSize": header.size,
                "batchMagic": header.magic,
                "batchCodec": self._codec(header.codec, position),
                "batchCrc": header.crc,
                "batchIsValid": _BOOLEANS[is_valid],
            }
            self._of_batch = header, fields
        return self._of_batch[1]

    def _entry_fields(self, entry: Message, position: int, is_valid: bool) -> dict[str, Any]:
        if self._of_batch[0] is not entry:
            fields = {
                "lastOffset": entry.offset,
                "baseSequence": _NO_SEQUENCE,
                "lastSequence": _NO_SEQUENCE,
                "producerEpoch": -1,
                "partitionLeaderEpoch": -1,
                "position": position,
                "timestampType": entry.timestamp_type,
                "maxTimestamp": entry.timestamp,
                "batchSize": entry.size,
                "batchMagic": entry.magic,
                "batchCodec": self._codec(entry.codec, position),
                "batchCrc": entry.crc,
                "batchIsValid": _BOOLEANS[is_valid],
            }
            self._of_batch = entry, fields
        return self._of_batch[1]

    def _base_offset(self, entry: Message) -> int:
        """The offset of the first message in a wrapper. It is looked for only where a line shows it."""
        if "{baseOffset}" not in self._lines.message:
            return entry.offset
        if self._wrapper_of_base[0] is not entry:
            self._wrapper_of_base = entry, next(legacy.read_records(entry, DEFAULT_LIMIT)).offset
        return self._wrapper_of_base[1]

    def _codec(self, codec: int, position: int) -> str:
        if codec < len(self._lines.codecs):
            return self._lines.codecs[codec]
        if codec < len(CODEC_NAMES):
            raise too_new(f"the codec {CODEC_NAMES[codec]}", position, self._version)
        raise DamageError(Codes.CODEC, f"unknown compression codec {codec}")

    def _control(self, record: Record) -> str:
        kind = control.parse_type(record.key)
        if kind in (control.ABORT, control.COMMIT) or kind in self._lines.kraft_as_json:
            return newest.control_text(record.key, record.value)
        return f" controlType: {self._lines.kraft_names.get(kind, 'UNKNOWN')}({kind})"

    def _plain(self, key: bytes | None, value: bytes | None, *, is_alone: bool) -> str:
        if value is None and self._lines.key_needs_value:
            return ""
        options = self._options
        payload: str | None = None if value is None else options.value_decoder(value)
        if payload is None and self._lines.null_shown:
            payload = "null"
        return self._contents(None if key is None else options.key_decoder(key), payload, is_alone=is_alone)

    def _contents(self, key: str | None, payload: str | None, *, is_alone: bool) -> str:
        """``is_alone``: no metadata comes before. The bar stands before a key only."""
        return ("|" if is_alone and key is not None else "") + newest.contents_text(key, payload)


def too_new(what: str, position: int, version: str) -> TooNewError:
    """The error of a log of a newer version. ``position``: of its batch."""
    return TooNewError(f"{what} at position {position}, which Kafka {version} did not know")
