"""The compatible text as a printer of ``kdump.reading.view``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kdump.dump.text import lines
from kdump.dump.text.options import TextOptions
from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Record
from kdump.reading.printing import AnyRecord, BatchRun, BlockPrinter, TextBytes, TextRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.dump.text.decoders import TextDecoding
    from kdump.fast.blocks import BatchBlock


class TextPrinter(TextRows):
    """Lines of DumpLogSegments: a line a batch and, in a view of records, below it a line a record."""

    _after_crc = ""
    """What comes after the CRC of a message."""

    def __init__(self, options: TextOptions, decoding: TextDecoding | None = None) -> None:
        self._options = options
        self._decoding = decoding

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> str:
        """See Printer."""
        return lines.batch_line(header, position, is_valid)

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> str:
        """See Printer."""
        return lines.record_line(header, record, self._options, self._decoding)

    def entry(self, entry: Message, position: int, is_valid: bool) -> str:
        """See Printer."""
        return lines.legacy_batch_line(entry, position, is_valid)

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> str:
        """See Printer."""
        return lines.legacy_record_line(entry, record, is_valid, self._options, self._decoding)

    def skip(self, record: AnyRecord, row: Callable[[], str]) -> None:
        """See Printer."""
        row()

    def columns(self) -> BlockPrinter[TextBytes] | None:
        """None where a decoder class, or one of kdump's own, is to be called for every key or value."""
        if self._decoding is not None and not self._decoding.decoder.in_columns:
            return None
        # The decoder of an internal topic goes before the decoder classes.
        if not (self._decoding or self._options.prints_text):
            return None
        return _TextBlocks(self._options, self._decoding, self._after_crc)


class _TextBlocks:
    def __init__(self, options: TextOptions, decoding: TextDecoding | None, after_crc: str) -> None:
        from kdump.dump.text.columnlines import RecordTextOptions

        metadata = not options.skip_record_metadata
        self._last: tuple[int, int] | None = None
        self._options = RecordTextOptions(metadata, options.print_data_log, decoding, after_crc.encode())

    def batches(self, block: BatchBlock) -> TextBytes:
        """See BlockPrinter."""
        from kdump.dump.text.columnlines import batch_text

        return batch_text(block.headers, block.position, block.is_valid).data.data

    def leaves(self, block: BatchBlock) -> NDArray[np.bool_]:
        """See BlockPrinter."""
        from kdump.dump.text.columnlines import left_to_scalar

        return left_to_scalar(block.records, block.headers, self._options)

    def records(self, block: BatchBlock) -> Iterator[BatchRun[TextBytes]]:
        """See BlockPrinter."""
        from kdump.dump.text.columnlines import batch_text, dump_runs
        from kdump.reading.jointrows import JointBlock

        if block.records is None:
            return
        batches = batch_text(block.headers, block.position, block.is_valid)
        numbers, position = block.numbers, block.position
        if self._last == (numbers[0], position[0]):
            # Slices of a large batch: its line is there already.
            batches.bounds[0] = batches.bounds[1]
        self._last = int(numbers[-1]), int(position[-1])
        is_valid = block.is_valid if block.holds_messages else None
        log = block.log if isinstance(block, JointBlock) else None
        yield from dump_runs(
            block.arena, block.records, block.headers, self._options, batches, is_valid=is_valid, log=log
        )
