"""How the tool of one version of Kafka prints.

Source: docs/spec/dump-output.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kdump.codes import DamageError
from kdump.dump.text.options import DECODER_CLASSES, DECODER_PACKAGE, TextOptions
from kdump.dump.text.printer import TextPrinter
from kdump.dump.text.reports import OffsetContinuity, ReportStyle
from kdump.log.names import Kind
from kdump.reading.printing import Printer, TextBytes
from kdump.releases import NEWEST

if TYPE_CHECKING:
    from kdump.dump.text.decoders import ContentsDecoder, TextDecoding
    from kdump.dump.text.indexes import DumpedIndex
    from kdump.format.snapshot import ProducerEntry
    from kdump.payloads.decoded import RecordDecoder


class TooNewError(Exception):
    """A log holds what Kafka of the dialect's version did not know yet."""


class Dialect(ReportStyle):
    """DumpLogSegments of the newest Kafka. What an older one does in another way is in ``dump.dialects``."""

    version: ClassVar[str] = NEWEST.name
    release: ClassVar = NEWEST
    """Whose .txnindex it reads."""
    lacks: ClassVar[frozenset[str]] = frozenset()
    """The options of the newest that this version does not have."""
    decoder_packages: ClassVar[tuple[str, ...]] = (DECODER_PACKAGE,)
    decoder_classes: ClassVar[frozenset[str]] = frozenset(DECODER_CLASSES)
    ignores: ClassVar[frozenset[Kind]] = frozenset()
    """The kinds of files that it does not know. Logs of other worlds are always shown as their own tools show them."""
    names_ignored: ClassVar = True
    """It says which files it does not know."""
    print_shows_records: ClassVar = True
    """``--print-data-log`` looks into compressed messages."""
    start_label: ClassVar = "Log starting offset"
    largest_is_checked: ClassVar = False
    """A length above ``--max-message-size`` is an error, and not the end of the log."""
    ends_at_bad_length: ClassVar = False
    """A length that no entry can have ends a log, as invalid bytes at the end do."""

    unpacks_nested: ClassVar = False
    """See ``ViewOptions``."""

    def continuity(self, *, with_records: bool) -> OffsetContinuity | None:
        """Takes the offsets of a log; None: the tool does not look at them. ``with_records``: it shows records."""
        return OffsetContinuity() if with_records else None

    def printer(
        self,
        options: TextOptions,
        decoding: TextDecoding | None,
        continuity: OffsetContinuity | None,
        *,
        with_records: bool,
    ) -> Printer[str, TextBytes]:
        """The printer of a log. ``continuity``: takes the offsets of entries where no records are shown."""
        return TextPrinter(options, decoding)

    def contents_decoder(self, decoder: RecordDecoder, *, goes_on: bool) -> ContentsDecoder | None:
        """See ``decoders.contents_decoder``; None: this version has no such decoder."""
        from kdump.dump.text.decoders import contents_decoder  # not needed by a plain dump

        return contents_decoder(decoder, goes_on=goes_on)

    def index(self) -> type[DumpedIndex]:
        """How it prints an index."""
        from kdump.dump.text.indexes import DumpedIndex  # not needed by a dump of logs

        return DumpedIndex

    def producer_line(self, entry: ProducerEntry) -> str:
        """A producer of a snapshot."""
        first_offset = entry.current_txn_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
            f"{'OptionalLong.empty' if first_offset < 0 else f'OptionalLong[{first_offset}]'} "
            f"lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            line += (
                f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
                f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
            )
        return line + "\n"

    def snapshot_complaint(self, path: str, error: DamageError) -> str:
        """What it says of a damaged snapshot."""
        return error.message


NEWEST_DIALECT = Dialect()
