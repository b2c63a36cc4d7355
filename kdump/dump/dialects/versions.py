"""DumpLogSegments of older versions of Kafka. Each class says what its version does in another way than the next later.

Source: docs/spec/dump-output.md#11-differences-between-tool-versions, and the tools of these versions themselves
(``kafka.tools.DumpLogSegments`` in 0.8.2.2, 0.10.2.2, 1.0.0, 1.1.1, 2.8.2, 3.9.1, 4.1.1 and 4.3.1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING, Final

from kdump.codes import Codes, DamageError
from kdump.dump.dialects.lines import DialectLines, OlderPrinter, Printer43
from kdump.dump.text.dialect import Dialect
from kdump.dump.text.options import TextOptions
from kdump.dump.text.reports import LaterContinuity, OffsetContinuity, Pairs
from kdump.format import control
from kdump.log.names import Kind
from kdump.log.opening import read_whole
from kdump.payloads.scala import map_order_212, map_order_213
from kdump.reading.printing import Printer, TextBytes
from kdump.releases import KAFKA_4_3

if TYPE_CHECKING:
    from kdump.dump.text.decoders import ContentsDecoder, TextDecoding
    from kdump.dump.text.indexes import DumpedIndex
    from kdump.format.snapshot import ProducerEntry
    from kdump.payloads.decoded import RecordDecoder

_KRAFT: Final = frozenset(
    {
        control.LEADER_CHANGE,
        control.SNAPSHOT_HEADER,
        control.SNAPSHOT_FOOTER,
        control.KRAFT_VERSION,
        control.KRAFT_VOTERS,
    }
)
_RECORD_4_1 = (
    "| offset: {offset} {timestampType}: {timestamp} keySize: {keySize} valueSize: {valueSize} "
    "sequence: {sequence} headerKeys: [{headerKeys}]"
)
_MESSAGE_4_1 = (
    "| offset: {offset} {timestampType}: {timestamp} keySize: {keySize} valueSize: {valueSize} "
    "isValid: {isValid} crc: {crc}}}"
)
_RECORD_2_8 = (
    "| offset: {offset} isValid: {isValid} crc: {crc} keySize: {keySize} valueSize: {valueSize} "
    "{timestampType}: {timestamp} baseOffset: {baseOffset} lastOffset: {lastOffset} baseSequence: {baseSequence} "
    "lastSequence: {lastSequence} producerEpoch: {producerEpoch} partitionLeaderEpoch: {partitionLeaderEpoch} "
    "batchSize: {batchSize} magic: {batchMagic} compressType: {batchCodec} position: {position}"
)


_SNAPSHOT_HEAD: Final = (("version", "h"), ("crc", "I"))
_SNAPSHOT_ENTRY: Final = (
    ("producer_id", "q"),
    ("epoch", "h"),
    ("last_sequence", "i"),
    ("last_offset", "q"),
    ("offset_delta", "i"),
    ("timestamp", "q"),
    ("coordinator_epoch", "i"),
    ("current_txn_first_offset", "q"),
)
_COUNT: Final = struct.Struct(">i")
_ENDED: Final = "java.nio.BufferUnderflowException"


class Kafka43(Dialect):
    """4.3.1."""

    version = KAFKA_4_3.name
    release = KAFKA_4_3

    def printer(
        self,
        options: TextOptions,
        decoding: TextDecoding | None,
        continuity: OffsetContinuity | None,
        *,
        with_records: bool,
    ) -> Printer[str, TextBytes]:
        """See Dialect."""
        return Printer43(options, decoding)

    def contents_decoder(self, decoder: RecordDecoder, *, goes_on: bool) -> ContentsDecoder | None:
        """See Dialect."""
        from kdump.dump.dialects.decoders import older_decoder

        return older_decoder(self.version, decoder, goes_on=goes_on)


class Kafka41(Kafka43):
    """4.1.1."""

    version = "4.1"
    not_found = "The following indexed offsets are not found in the log."
    lines = DialectLines(record=_RECORD_4_1, message=_MESSAGE_4_1, kraft_as_json=_KRAFT)

    def continuity(self, *, with_records: bool) -> OffsetContinuity | None:
        """See Dialect."""
        return LaterContinuity() if with_records else None

    def printer(
        self,
        options: TextOptions,
        decoding: TextDecoding | None,
        continuity: OffsetContinuity | None,
        *,
        with_records: bool,
    ) -> Printer[str, TextBytes]:
        """See Dialect."""
        return OlderPrinter(self.version, self.lines, options, decoding, continuity, with_records=with_records)

    def producer_line(self, entry: ProducerEntry) -> str:
        """See Dialect; a space stands at the end of short lines."""
        line = super().producer_line(entry)
        return line if entry.last_offset >= 0 else line.replace("\n", " \n")

    def files_in_order(self, paths: Iterable[str], *, asked_again: bool) -> list[str]:
        """See Dialect."""
        return map_order_213(paths, asked_again=asked_again)

    def mismatches_in_order(self, pairs: Pairs) -> Iterable[tuple[int, int]]:
        """See Dialect; the newest comes first."""
        return reversed(pairs)

    def gaps_in_order(self, pairs: Pairs) -> Iterable[tuple[int, int]]:
        """See Dialect; the newest comes first."""
        return reversed(pairs)


class Kafka39(Kafka41):
    """3.9.1."""

    version = "3.9"
    lacks = Kafka41.lacks | {"--share-group-state-decoder"}
    decoder_packages = (*Kafka41.decoder_packages, "kafka.serializer.")
    lines = Kafka41.lines._replace(
        kraft_as_json=_KRAFT - {control.LEADER_CHANGE}, kraft_names={control.LEADER_CHANGE: "LEADER_CHANGE"}
    )

    def snapshot_complaint(self, path: str, error: DamageError) -> str:
        """See Dialect."""
        if error.code is not Codes.SNAPSHOT_SCHEMA:
            return error.message
        return _schema_complaint(read_whole(path))


class Kafka28(Kafka39):
    """2.8.2."""

    version = "2.8"
    # It knows --cluster-metadata-decoder, but for the records of a preview that nobody kept.
    lacks = Kafka39.lacks | {"--max-bytes", "--remote-log-metadata-decoder", "--cluster-metadata-decoder"}
    decoder_packages = ("kafka.serializer.",)
    ignores = frozenset({Kind.CHECKPOINT})
    start_label = "Starting offset"
    lines = Kafka39.lines._replace(
        batch=(
            "baseOffset: {baseOffset} lastOffset: {lastOffset} count: {count} baseSequence: {baseSequence} "
            "lastSequence: {lastSequence} producerId: {producerId} producerEpoch: {producerEpoch} "
            "partitionLeaderEpoch: {partitionLeaderEpoch} isTransactional: {isTransactional} isControl: {isControl} "
            "position: {position} {timestampType}: {maxTimestamp} size: {batchSize} magic: {batchMagic} "
            "compresscodec: {batchCodec} crc: {batchCrc} isvalid: {batchIsValid}"
        ),
        entry=(
            "offset: {lastOffset} position: {position} {timestampType}: {maxTimestamp} size: {batchSize} "
            "magic: {batchMagic} compresscodec: {batchCodec} crc: {batchCrc} isvalid: {batchIsValid}"
        ),
        record=_RECORD_2_8 + " sequence: {sequence} headerKeys: [{headerKeys}]",
        message=_RECORD_2_8 + " crc: {crc} isvalid: {isValid}",
        codecs=("NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"),
        kraft_as_json=frozenset(),
        kraft_names={2: "QUORUM_REASSIGNMENT", 3: "LEADER_CHANGE"},
    )

    def producer_line(self, entry: ProducerEntry) -> str:
        """See Dialect."""
        return f"{self._producer(entry)} {self._last_batch(entry) if entry.last_offset >= 0 else ''}\n"

    def _producer(self, entry: ProducerEntry) -> str:
        first = entry.current_txn_first_offset
        return (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {'None' if first < 0 else f'Some({first})'}"
        )

    def _last_batch(self, entry: ProducerEntry) -> str:
        return (
            f"firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
            f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
        )


class Kafka11(Kafka28):
    """1.1.1."""

    version = "1.1"
    lacks = Kafka28.lacks | {"--skip-record-metadata"}
    non_consecutive = "Non-consecutive offsets in :{path}"
    lines = Kafka28.lines._replace(
        batch=(
            "baseOffset: {baseOffset} lastOffset: {lastOffset} baseSequence: {baseSequence} "
            "lastSequence: {lastSequence} producerId: {producerId} producerEpoch: {producerEpoch} "
            "partitionLeaderEpoch: {partitionLeaderEpoch} isTransactional: {isTransactional} position: {position} "
            "{timestampType}: {maxTimestamp} isvalid: {batchIsValid} size: {batchSize} magic: {batchMagic} "
            "compresscodec: {batchCodec} crc: {batchCrc}"
        ),
        entry=(
            "offset: {lastOffset} position: {position} {timestampType}: {maxTimestamp} isvalid: {batchIsValid} "
            "size: {batchSize} magic: {batchMagic} compresscodec: {batchCodec} crc: {batchCrc}"
        ),
        record=(
            "offset: {offset} position: {position} {timestampType}: {timestamp} isvalid: {isValid} "
            "keysize: {keySize} valuesize: {valueSize} magic: {batchMagic} compresscodec: {batchCodec} "
            "producerId: {producerId} producerEpoch: {producerEpoch} sequence: {sequence} "
            "isTransactional: {isTransactional} headerKeys: [{headerKeys}]"
        ),
        message=(
            "offset: {offset} position: {position} {timestampType}: {timestamp} isvalid: {isValid} "
            "keysize: {keySize} valuesize: {valueSize} magic: {batchMagic} compresscodec: {batchCodec} crc: {crc}"
        ),
        codecs=("NONE", "GZIP", "SNAPPY", "LZ4"),
        batches_beside_records=False,
        key_needs_value=True,
        kraft_names={},
    )

    def index(self) -> type[DumpedIndex]:
        """See Dialect."""
        from kdump.dump.dialects.indexes import IndexByFirstRecord

        class Index(IndexByFirstRecord):
            version = self.version
            newest_magic = self.lines.newest_magic

        return Index

    def producer_line(self, entry: ProducerEntry) -> str:
        """See Dialect; sequences do not start again at 0."""
        first = _sequence_before(entry.last_sequence, entry.offset_delta)
        return (
            f"{self._producer(entry)} firstSequence: {first} lastSequence: {entry.last_sequence} "
            f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}\n"
        )

    def files_in_order(self, paths: Iterable[str], *, asked_again: bool) -> list[str]:
        """See Dialect."""
        return map_order_212(paths)


class Kafka10(Kafka11):
    """1.0.0."""

    version = "1.0"
    print_shows_records = False

    def producer_line(self, entry: ProducerEntry) -> str:
        """See Dialect; sequences do not start again at 0."""
        cached = ""
        if entry.last_offset >= 0:
            last, delta = entry.last_sequence, entry.offset_delta
            cached = (
                f"BatchMetadata(firstSeq={_sequence_before(last, delta)}, lastSeq={last}, "
                f"firstOffset={entry.last_offset - delta}, lastOffset={entry.last_offset}, timestamp={entry.timestamp})"
            )
        return f"{self._producer(entry)} cachedMetadata: Queue({cached})\n"


class Kafka010(Kafka10):
    """0.10.2.2."""

    version = "0.10.2"
    lacks = Kafka11.lacks | {"--transaction-log-decoder"}
    decoder_classes = frozenset({"StringDecoder", "DefaultDecoder"})
    ignores = Kafka11.ignores | {Kind.TXN_INDEX, Kind.SNAPSHOT}
    names_ignored = False
    largest_is_checked = True
    non_consecutive = "Non-secutive offsets in :{path}"
    lines = Kafka11.lines._replace(
        message=(
            "offset: {offset} position: {position} {ownTimestampType}: {timestamp} isvalid: {isValid} "
            "payloadsize: {valueSize} magic: {magic} compresscodec: {codec} crc: {crc}{keysize}"
        ),
        newest_magic=1,
    )

    def continuity(self, *, with_records: bool) -> OffsetContinuity | None:
        """See Dialect; it looks at all messages, wrappers too."""
        return LaterContinuity()


class Kafka08(Kafka010):
    """0.8.2.2."""

    version = "0.8.2"
    lacks = Kafka010.lacks | {"--index-sanity-check", "--offsets-decoder"}
    ignores = Kafka010.ignores | {Kind.TIME_INDEX}
    ends_at_bad_length = True
    unpacks_nested = True
    lines = Kafka010.lines._replace(
        message=(
            "offset: {offset} position: {position} isvalid: {isValid} payloadsize: {valueSize} magic: {magic} "
            "compresscodec: {codec} crc: {crc}{keysize}"
        ),
        codecs=(
            "NoCompressionCodec",
            "GZIPCompressionCodec",
            "SnappyCompressionCodec",
            "LZ4CompressionCodec",
        ),
        key_needs_value=False,
        null_shown=True,
        newest_magic=0,
    )


def _sequence_before(sequence: int, delta: int) -> int:
    """The difference as an int of Java."""
    return (sequence - delta + 2**31) % 2**32 - 2**31


def _schema_complaint(data: bytes) -> str:
    """What the tools from 1.1 to 3.9 say of a snapshot that does not fit its schema.

    These are the words for the first field that does not fit, or else for the version, which is looked at last.
    Source: ``ProducerStateManager.readSnapshot`` of these versions (``org.apache.kafka.common.protocol.types``).
    """
    position = 0
    for name, code in _SNAPSHOT_HEAD:
        position += struct.calcsize(f">{code}")
        if position > len(data):
            return _failed(name, _ENDED)
    trouble = _entries_trouble(data[position:])
    if trouble is not None:
        return _failed("producer_entries", trouble)
    return f"Snapshot contained an unknown file version {int.from_bytes(data[:2], 'big', signed=True)}"


def _entries_trouble(data: bytes) -> str | None:
    if len(data) < _COUNT.size:
        return _ENDED
    (count,) = _COUNT.unpack_from(data)
    left = len(data) - _COUNT.size
    if count < 0:
        return f"Array size {count} cannot be negative"
    if count > left:
        return f"Error reading array of size {count}, only {left} bytes available"
    fields = cycle(_SNAPSHOT_ENTRY)
    for _ in range(count * len(_SNAPSHOT_ENTRY)):
        name, code = next(fields)
        left -= struct.calcsize(f">{code}")
        if left < 0:
            return f"Error reading field '{name}': {_ENDED}"
    return None


def _failed(name: str, trouble: str) -> str:
    return f"Snapshot failed schema validation: Error reading field '{name}': {trouble}"


DIALECTS: Final[dict[str, Dialect]] = {
    dialect.version: dialect() for dialect in (Kafka08, Kafka010, Kafka10, Kafka11, Kafka28, Kafka39, Kafka41, Kafka43)
}
