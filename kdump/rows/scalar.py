"""Rows of batches and records, one at a time.

Source: docs/contract.md#23-rows. Keys and values stay bytes. A field that a format does not have is None.
``rows.tables`` declares how each column is made.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias

from kdump.codes import Codes, DamageError
from kdump.format import control
from kdump.format.batch import NO_TIMESTAMP_TYPE, BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Headers, Record
from kdump.log.context import FileContext
from kdump.payloads.decoded import PayloadError, RecordDecoder
from kdump.payloads.message_json import json_value, known_version, message_json
from kdump.reading.outcomes import Outcomes
from kdump.reading.printing import WRONG_CRC, WRONG_MESSAGE_CRC, AnyRecord, RowT
from kdump.rows.columns import Row, Table

if TYPE_CHECKING:
    from kdump.rows.columnar import OnMalformed

OnUndecoded: TypeAlias = Callable[[Row, PayloadError], None]
"""Takes the row of a record whose key or value does not decode, and the reason."""
_CONTROL_TYPES: Final = {
    control.ABORT: "ABORT",
    control.COMMIT: "COMMIT",
    control.LEADER_CHANGE: "LEADER_CHANGE",
    control.SNAPSHOT_HEADER: "SNAPSHOT_HEADER",
    control.SNAPSHOT_FOOTER: "SNAPSHOT_FOOTER",
    control.KRAFT_VERSION: "KRAFT_VERSION",
    control.KRAFT_VOTERS: "KRAFT_VOTERS",
}


class Control(NamedTuple):
    """What a control record says, and what is wrong with a record."""

    type: str | None = None
    value: Row | None = None
    problem: str | None = None


class MessageRow:
    """A message of magic 0 or 1, or a record of it, with the names that batches and their records have.

    None: it has no such field. DamageError when the record is malformed.
    """

    base_offset = record_count = base_sequence = last_sequence = sequence = None
    producer_id = producer_epoch = partition_leader_epoch = is_transactional = is_control = delete_horizon_ms = None
    headers: Headers = ()

    def __init__(self, entry: Message, record: LegacyRecord | None) -> None:
        self.source = record or entry
        """What has the fields that only other worlds have."""
        has_time = entry.timestamp_type != NO_TIMESTAMP_TYPE
        self.last_offset = entry.offset
        self.size, self.magic, self.codec_name = entry.size, entry.magic, entry.codec_name
        self.timestamp_type = entry.timestamp_type
        self.max_timestamp = entry.timestamp if has_time else None
        self.crc = entry.crc
        if record is not None:
            message = record.message
            self.crc = message.crc
            self.offset = record.offset
            self.timestamp = record.timestamp if has_time else None
            self.key, self.value = message.key(), message.value()
            self.key_size, self.value_size = message.key_size(), message.value_size()


class OneRow(NamedTuple):
    """What ``Column.of_row`` takes: a batch, a message, or a record of one, of any magic.

    ``is_valid`` belongs to the row: to the batch, to the message, or to the record of a message itself.
    """

    header: BatchHeader | MessageRow
    position: int
    is_valid: bool
    record: Record | MessageRow | None = None
    control: Control = Control()
    txn_state: str | None = None


def _legacy_row(table: Table, entry: Message, position: int, is_valid: bool, record: LegacyRecord | None = None) -> Row:
    """The row of a legacy entry, or of a record of it. DamageError when the record is malformed."""
    of = MessageRow(entry, record)
    return table.row(OneRow(of, position, is_valid, of, Control(problem=None if is_valid else WRONG_MESSAGE_CRC)))


class TablePrinter(ABC, Generic[RowT]):
    """The part of a printer that makes rows of one table one by one. See Printer.

    Args:
        table: BATCH, or a table of records: then only records have rows.
        outcomes: of the log's transactions; None: ``txnState`` is null.
    """

    def __init__(self, table: Table, outcomes: Outcomes | None) -> None:
        self.table = table
        self.outcomes = outcomes
        self._with_records = table.type == "record"
        self._batch: tuple[BatchHeader | None, int] = (None, 0)
        self._shared: Row = {}
        """Of the records of that batch."""
        self._is_entry_valid = True

    @abstractmethod
    def made(self, row: Row | None, *, is_entry_valid: bool) -> RowT:
        """What the printer makes of a row; None: there is no row. ``is_entry_valid``: see ``malformed``."""

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> RowT:
        """See Printer."""
        row = None if self._with_records else self.table.row(OneRow(header, position, is_valid))
        return self.made(row, is_entry_valid=is_valid)

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> RowT:
        """See Printer."""
        state = None if self.outcomes is None else self.outcomes.state(header)
        return self.made(self._record_row(header, position, is_valid, record, state), is_entry_valid=is_valid)

    def _record_row(
        self, header: BatchHeader, position: int, is_valid: bool, record: Record, txn_state: str | None
    ) -> Row:
        """Values that the records of a batch share are made once. ``problem``: a control record does not decode."""
        if header.is_control:
            # The columns of these are shared by the records of other batches only.
            return self.table.row(OneRow(header, position, is_valid, record, _control(record, is_valid), txn_state))
        of = OneRow(header, position, is_valid, record)
        if self._batch[0] is not header or self._batch[1] != position:
            self._batch = header, position
            whole = of._replace(control=Control(problem=None if is_valid else WRONG_CRC), txn_state=txn_state)
            self._shared = {name: get(whole) for name, get in self.table.shared}
        row = self._shared.copy()
        for name, get in self.table.own:
            row[name] = get(of)
        return row

    def entry(self, entry: Message, position: int, is_valid: bool) -> RowT:
        """See Printer."""
        self._is_entry_valid = is_valid
        row = None if self._with_records else _legacy_row(self.table, entry, position, is_valid)
        return self.made(row, is_entry_valid=is_valid)

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> RowT:
        """See Printer."""
        # ``isValid`` of the row is that of the record's own CRC; the wrapper may have another.
        row = _legacy_row(self.table, entry, position, is_valid, record)
        return self.made(row, is_entry_valid=self._is_entry_valid)


class ValuePrinter(TablePrinter[RowT]):
    """The same of a printer whose rows are values for a program.

    Args:
        table: BATCH, RECORD or RECORD_DECODED.
        context: where the rows come from.
        outcomes: of the log's transactions; None: ``txnState`` is null.
        decoder: of keys and values, for RECORD_DECODED; None: nothing is decoded.
        on_malformed: takes the position of an entry whose rows are not valid (a wrong CRC, a control record that cannot
            be read), and what is wrong as a code and in words, before they are emitted. False leaves such rows out.
        on_undecoded: see OnUndecoded.
    """

    def __init__(
        self,
        table: Table,
        context: FileContext,
        *,
        outcomes: Outcomes | None = None,
        decoder: RecordDecoder | None = None,
        on_malformed: OnMalformed = lambda position, code, what: True,
        on_undecoded: OnUndecoded = lambda row, error: None,
    ) -> None:
        super().__init__(table, outcomes)
        self.context = context
        self.decoder = decoder
        self.on_malformed = on_malformed
        self._on_undecoded = on_undecoded
        self._file = {"type": table.type, **context.columns()}

    @abstractmethod
    def value(self, row: Row | None) -> RowT:
        """The value of a row with the columns of its file; None: it is left out."""

    def made(self, row: Row | None, *, is_entry_valid: bool) -> RowT:
        """See TablePrinter."""
        what = None if row is None else malformed(row, is_entry_valid=is_entry_valid)
        if row is None or (what is not None and not self.on_malformed(row["position"], *what)):
            return self.value(None)
        if self.table.is_decoded:
            for error in add_decoded(self.table, row, self.decoder):
                self._on_undecoded(row, error)
        return self.value({**self._file, **row})

    def skip(self, record: AnyRecord, row: Callable[[], Any]) -> None:
        """See Printer."""
        row()


def _control(record: Record, is_valid: bool) -> Control:
    name = value = None
    problem = None if is_valid else WRONG_CRC
    try:
        number = control.parse_type(record.key)
        # The key tells the type also where the value does not decode.
        name = _CONTROL_TYPES.get(number, f"UNKNOWN({number})")
        value = _control_value(number, record.value)
    except DamageError as error:
        problem = problem or error.message
    return Control(name, value, problem)


def _control_value(control_type: int, value: bytes | None) -> Row | None:
    if control_type in (control.ABORT, control.COMMIT):
        return {"coordinatorEpoch": control.parse_end_txn(value)}
    schema = control.schema_of(control_type)
    if schema is None:
        return None
    values = control.parse_kraft(schema, value)
    # As in the compatible text: the members of the version that the message claims.
    members: Row = json.loads(message_json(schema, known_version(schema, values), values))
    return members


def add_decoded(table: Table, row: Row, decoder: RecordDecoder | None) -> tuple[PayloadError, ...]:
    """Add the columns of decoded contents to the row of a record. Returns what does not decode.

    They are null for a control record and without a decoder. Each is null where its part is null or does not decode,
    and ``problem`` says so.
    """
    columns = {column.name: column.decodes for column in table.columns if column.decodes is not None}
    if row["isControl"] or decoder is None:
        row.update(dict.fromkeys(columns))
        return ()
    decoded = decoder.decode(row["key"], row["value"], row.get("headers", ()))
    parts = {"key": decoded.key, "value": decoded.value}
    for name, part in columns.items():
        value = parts[part]
        row[name] = None if isinstance(value, bytes) else json_value(value)
    if decoded.findings and row["problem"] is None:
        row["problem"] = decoded.findings[0].message
    return decoded.findings


def malformed(row: Row, *, is_entry_valid: bool) -> tuple[Codes, str] | None:
    """What is wrong with a row before its contents are decoded, as a code and in words; None: nothing.

    ``is_entry_valid``: the CRC of the batch or wrapper that it comes from is right.
    """
    problem = row.get("problem")
    if not is_entry_valid:
        return Codes.BATCH_CRC, problem or WRONG_CRC
    if not row["isValid"]:
        return Codes.INNER_CRC, problem or WRONG_CRC
    return None if problem is None else (Codes.CONTROL_RECORD, problem)
