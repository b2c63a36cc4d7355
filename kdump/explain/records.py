"""The records of a v2 batch as lines.

Source: docs/spec/formats.md#31-record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kdump.codes import DamageError
from kdump.explain import kafka_says
from kdump.explain.lines import Labelled, Labeller, Layout, Line, Statement, StuckError, Tone, fixed_fields
from kdump.explain.recordfields import RecordField, RecordStarts, record_fields, survey_records
from kdump.explain.selection import How, select
from kdump.explain.values import count as counted
from kdump.explain.values import date, escaped, quoted, sized, span
from kdump.format import control
from kdump.format.batch import BatchHeader, increment_sequence, wrap_int64
from kdump.format.record import read_body
from kdump.payloads.decoded import RecordDecoder
from kdump.payloads.message_json import json_text, message_json
from kdump.system import blocks


@dataclass(slots=True)
class RecordRegion:
    """The records of one batch: ``labeller.data[start:end]``, decompressed if they were compressed.

    ``is_cut``: the file ends before the batch does, so the last record need not be whole. ``decoder``: shows what keys
    and values are.
    """

    header: BatchHeader
    labeller: Labeller
    start: int
    end: int
    is_cut: bool = False
    decoder: RecordDecoder | None = None

    def lines(self) -> Iterator[Line]:
        """All records, each byte of the region in exactly one labelled line."""
        header = self.header
        survey = survey_records(self.labeller.data, self.start, self.end)
        found = len(survey.starts)
        # Kafka reads no byte after the counted records: a fault there is in left-over bytes, not in a record.
        is_left_over = survey.stuck is not None and found >= header.record_count
        if is_left_over or header.record_count == 0:
            survey.cut(max(0, header.record_count))
        yield from self._whole_records(survey)
        if header.record_count == 0:
            yield from self._unread(survey)
        elif is_left_over:
            yield from self._left_over(survey)
        elif survey.stuck is not None:
            yield from self._broken_record(survey, survey.stuck)
        elif found != header.record_count:
            yield from self._wrong_count(survey)

    def _whole_records(self, survey: RecordStarts) -> Iterator[Line]:
        labeller = self.labeller
        total = len(survey.starts)
        target = self._of_interest(survey)
        for first, last, how in select(total, target, is_stuck=survey.stuck is not None):
            start, end = survey.bounds(first)
            if how is How.FULL:
                yield self._title(first, start, end)
                yield from self._full(start, end)
            elif how is How.LINE:
                yield labeller.field(start, end, f"record {first}", self._in_a_line(start, end), is_summary=True)
            else:
                end = survey.bounds(last)[1]
                name = f"record {first}" if first == last else f"records {first} to {last}"
                yield labeller.field(start, end, name, counted(last - first + 1, "record"), is_summary=True)

    def _of_interest(self, survey: RecordStarts) -> int | None:
        """The record with the requested position, else the one with the byte that the CRC proves wrong."""
        for holds in (self.labeller.holds_target, self.labeller.holds_suspect):
            if holds(self.start, survey.end):
                return next(index for index in range(len(survey.starts)) if holds(*survey.bounds(index)))
        return None

    def _title(self, index: int, start: int, end: int) -> Statement:
        where = span(self.labeller.at(start), self.labeller.at(end))
        return Statement(Tone.GROUP, f"record {index}: {where} ({counted(end - start, 'byte')})")

    def _full(self, start: int, end: int) -> Iterator[Line]:
        key = value = None
        for field in record_fields(self.labeller.data, start, end, self.labeller.interest):
            content = bytes(self.labeller.data[field.start : field.end]) if self.header.is_control else b""
            if field.name in ("keySize", "valueSize") and field.number == 0:
                content = b""
            if field.name == "key" or (field.name == "keySize" and field.number == 0):
                key = content
            elif field.name == "value" or (field.name == "valueSize" and field.number == 0):
                value = content
            yield from self._field(field, key)
        if self.header.is_control:
            yield from _control_verdict(key, value)
        elif self.decoder is not None:
            yield from self._decoded(start, end)

    def _decoded(self, start: int, end: int) -> Iterator[Line]:
        """What the decoder makes of a record."""
        assert self.decoder is not None
        record = next(read_body(self.header._replace(record_count=1), self.labeller.data[start:end]))
        decoded = self.decoder.decode(record.key, record.value, record.headers)
        for part, value in (("key", decoded.key), ("value", decoded.value)):
            if value is not None and not isinstance(value, bytes):
                yield Statement(Tone.TEXT, f"the {part} is {blocks.escaped(json_text(value))}")
        for finding in decoded.findings:
            yield Statement(Tone.TEXT, blocks.escaped(finding.message))

    def _field(self, field: RecordField, key: bytes | None) -> Iterator[Line]:
        labeller = self.labeller
        if field.number is not None:
            yield labeller.field(field.start, field.end, field.name, str(field.number), self._note(field))
        elif field.headers:
            text = counted(field.headers, "header")
            yield labeller.field(field.start, field.end, field.name, text, is_summary=True)
        elif self.header.is_control and field.name == "key":
            yield from _control_key(labeller, field.start, field.end)
        elif self.header.is_control and field.name == "value":
            yield from _control_value(labeller, field.start, field.end, key)
        else:
            text = quoted(labeller.data[field.start : field.end])
            yield labeller.field(field.start, field.end, field.name, text)

    def _note(self, field: RecordField) -> str:
        header, number = self.header, field.number or 0
        if field.name == "length":
            return f"the record ends with byte {self.labeller.at(field.end + number) - 1}"
        if field.name == "attributes":
            return "unused" if number else ""
        if field.name == "timestampDelta":
            if header.is_log_append_time:
                return "unused: LogAppendTime, the timestamp is maxTimestamp"
            timestamp = wrap_int64(header.base_timestamp + number)
            return date(timestamp)
        if field.name == "offsetDelta":
            return self._offset_note(number)
        if field.name.endswith("Size"):
            return "null" if number < 0 else "empty" if number == 0 else ""
        return ""

    def _offset_note(self, delta: int) -> str:
        header = self.header
        note = f"offset {wrap_int64(header.base_offset + delta)}"
        if header.base_sequence >= 0:
            note += f", sequence {increment_sequence(header.base_sequence, delta)}"
        if not 0 <= delta <= header.last_offset_delta:
            note += f", outside the batch's offsets (lastOffsetDelta is {header.last_offset_delta})"
        return note

    def _in_a_line(self, start: int, end: int) -> str:
        data = self.labeller.data
        fields: dict[str, RecordField] = {}
        for field in record_fields(data, start, end):
            fields[field.name] = field
            if field.name == "valueSize":
                break
        key = fields.get("key")
        key_text = quoted(data[key.start : key.end], 24) if key else sized(fields["keySize"].number or 0)
        offset = wrap_int64(self.header.base_offset + (fields["offsetDelta"].number or 0))
        if self.header.is_control:
            return f"offset {offset}, {control_type(bytes(data[key.start : key.end]) if key else None)}"
        size = fields["valueSize"].number or 0
        return f"offset {offset}, key {key_text}, value {sized(size)}"

    def _broken_record(self, survey: RecordStarts, stuck: StuckError) -> Iterator[Line]:
        labeller, start = self.labeller, survey.end
        yield Statement(Tone.GROUP, f"record {len(survey.starts)}: from byte {labeller.at(start)} on")
        position = stuck_at = start
        try:
            for field in record_fields(labeller.data, start, self.end, labeller.interest):
                lines = self._field(field, None)
                stuck_at = position = field.end
                if field.name == stuck.blamed and not (self.is_cut and field.name == "length"):
                    lines = (replace(line, is_damaged=True) if isinstance(line, Labelled) else line for line in lines)
                    stuck_at = field.start
                yield from lines
        except StuckError:
            pass
        if position < self.end:
            yield self._rest(position, "not understood" if not self.is_cut else "cut off", is_damaged=not self.is_cut)
        if self.is_cut:
            yield Statement(Tone.TEXT, f"The file ends inside record {len(survey.starts)}.")
            return
        where = f"At byte {labeller.at(stuck_at)}"
        yield Statement(Tone.DAMAGE, f"{where} record {len(survey.starts)} cannot be read on: {stuck.reason}.")
        yield self._kafka(stuck.kafka)

    def _left_over(self, survey: RecordStarts) -> Iterator[Line]:
        left = self.end - survey.end
        yield self._rest(survey.end, "left over")
        at = self.labeller.at(survey.end)
        if self.header.record_count < 0:
            yield Statement(Tone.DAMAGE, f"The count is {self.header.record_count}; no record begins at byte {at}.")
            yield self._kafka(kafka_says.COUNT_NEGATIVE.format(count=self.header.record_count))
            return
        what = f"{counted(left, 'byte')} left over from byte {at} on, after the"
        yield Statement(Tone.DAMAGE, f"{what} {counted(self.header.record_count, 'record')} of the count.")
        yield self._kafka(kafka_says.COUNT_TOO_LOW)

    def _unread(self, survey: RecordStarts) -> Iterator[Line]:
        if survey.end < self.end:
            yield self._rest(survey.end, "not read", is_damaged=False)
            yield Statement(Tone.TEXT, "The count is 0, so no reader reads these bytes.")

    def _wrong_count(self, survey: RecordStarts) -> Iterator[Line]:
        declared, found = self.header.record_count, len(survey.starts)
        if self.is_cut:
            yield Statement(Tone.TEXT, f"The file ends after record {found - 1} of {declared}.")
            return
        text = f"The count is {declared}, but the bytes hold exactly {counted(found, 'record')}"
        yield Statement(Tone.DAMAGE, f"{text} (up to byte {self.labeller.at(survey.end) - 1}).")
        if declared < 0:
            yield self._kafka(kafka_says.COUNT_NEGATIVE.format(count=declared))
        else:
            yield self._kafka(kafka_says.COUNT_TOO_HIGH if declared > found else kafka_says.COUNT_TOO_LOW)

    def _kafka(self, text: str) -> Statement:
        header = self.header
        if header.is_control and header.producer_id >= 0:
            text = text.replace(kafka_says.RECOVERY_IGNORES, kafka_says.RECOVERY_READS_MARKERS)
        return Statement(Tone.KAFKA, text)

    def _rest(self, start: int, name: str, *, is_damaged: bool = True) -> Line:
        text = counted(self.end - start, "byte")
        return self.labeller.field(start, self.end, name, text, is_damaged=is_damaged)


_NAMES: Final = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)


def control_type(key: bytes | None) -> str:
    """Kafka's name of a control record's type, ``UNKNOWN(<type>)``, or what is wrong with the key."""
    try:
        number = control.parse_type(key)
    except DamageError as error:
        return error.message
    return _NAMES[number] if 0 <= number < len(_NAMES) else f"UNKNOWN({number})"


def _control_key(labeller: Labeller, start: int, end: int) -> Iterator[Line]:
    """The bytes of the key: version, type, and what follows."""
    yield from _integers(
        labeller, start, end, "key", (("version", 2), ("type", 2)), note=control_type(bytes(labeller.data[start:end]))
    )


def _control_value(labeller: Labeller, start: int, end: int, key: bytes | None) -> Iterator[Line]:
    """The value's bytes: a transaction marker field by field, a KRaft record in one piece."""
    if control_type(key) in ("ABORT", "COMMIT"):
        yield from _integers(labeller, start, end, "value", (("version", 2), ("coordinatorEpoch", 4)))
    else:
        yield labeller.field(start, end, "value", "", "decoded below")


def _control_verdict(key: bytes | None, value: bytes | None) -> Iterator[Line]:
    """The decoded KRaft message, and what is wrong with the control record."""
    try:
        number = control.parse_type(key)
        schema = control.schema_of(number)
        if schema is not None:
            text = message_json(schema, 0, control.parse_kraft(schema, value))
            yield Statement(Tone.TEXT, f"{_NAMES[number]} {escaped(text)}")
        elif number in (control.ABORT, control.COMMIT):
            control.parse_end_txn(value)
    except DamageError as error:
        what = error.message.removeprefix("control record: ")
        yield Statement(Tone.DAMAGE, f"It makes no sense as a control record: {what}.")
        yield Statement(Tone.KAFKA, kafka_says.CONTROL)


def _integers(
    labeller: Labeller, start: int, end: int, prefix: str, layout: Layout, *, note: str = ""
) -> Iterator[Line]:
    for field in fixed_fields(labeller.data[:end], layout, start):
        if not field.cut:
            start = field.end
            shown = note if field.name == "type" else ""
            yield labeller.field(field.start, start, f"{prefix}.{field.name}", field.value, shown)
    if start < end:
        yield labeller.field(start, end, f"{prefix} (rest)", "", "ignored")
