"""From batches to the image: what a node does with each record, and what it says of those that do not apply.

Source: docs/spec/metadata.md#2-loading (MetadataBatchLoader, RecordsSnapshotReader).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import accumulate, chain
from typing import Any, Final, Protocol

from kdump.codes import Codes, DamageError
from kdump.format import control
from kdump.format.message import record_schemas
from kdump.format.messagereader import UNKNOWN_TAGS, unknown_tag_numbers
from kdump.kafka.image.books import BOOKED, ControllerBooks
from kdump.kafka.image.faults import Fault, Grade, ReplayError
from kdump.kafka.image.image import MetadataDelta, MetadataImage, Provenance, newer_codes
from kdump.kafka.image.metadatalog import MetadataBatch, SnapshotFile, UnreadableBatchError, snapshot_batches
from kdump.kafka.image.metadataversion import FEATURE, is_newer_level
from kdump.kafka.image.topics import PARTITION_CHANGE
from kdump.limits import METADATA, hint, most
from kdump.payloads.decoded import DecodeErrorKind, PayloadError
from kdump.payloads.internal import DECODERS, DecodedMessage, MetadataDecoder
from kdump.releases import NEWEST, Release, newer

BEGIN, END, ABORT = 23, 24, 25
"""The types of the records that mark a metadata transaction."""
ADDING: Final = frozenset({0, 2, 3, 4, 10, 11, 12, 14, 18, 27})
"""The types of the records that add something to the image, or replace it."""
_CONFIG: Final = 4
_FEATURE_LEVEL: Final = 12
_CONFIGURED: Final = {2: "topic", 32: "group"}
"""Types of resources whose configs a controller checks by their names (ConfigResource.Type)."""
_NO_OP: Final = b"\1\x14\0\0"
"""The value of a NoOpRecord."""
_MOST_HELD: Final = 1 << 14
"""Messages of a batch that are kept decoded: a controller writes 10,000 records in a batch at most."""
_MOST_HELD_BYTES: Final = 2 << 20
"""Their bytes: structs become 50 times as much."""


def _decoder() -> MetadataDecoder:
    decoder = DECODERS["cluster-metadata"]
    assert isinstance(decoder, MetadataDecoder)
    return decoder


class _Transaction(Enum):
    NONE = auto()
    STARTED = auto()
    CONTINUED = auto()
    ENDED = auto()
    ABORTED = auto()


_OPEN: Final = (_Transaction.STARTED, _Transaction.CONTINUED)


@dataclass(slots=True)
class Quorum:
    """The quorum of controllers, as control records tell it.

    ``leader``: of the last election, None where it is not known. ``voters``: their ids, sorted.
    """

    leader: int | None = None
    kraft_version: int = 0
    voters: list[dict[str, Any]] = field(default_factory=list)

    def see(self, kind: int, values: dict[str, Any]) -> None:
        """The next control record."""
        if kind == control.LEADER_CHANGE:
            self.leader = values["leaderId"]
            if not self.kraft_version:
                self.voters = _voters(values["voters"])
        elif kind == control.KRAFT_VERSION:
            self.kraft_version = values["kRaftVersion"]
        elif kind == control.KRAFT_VOTERS:
            self.voters = _voters(values["voters"])


class Watcher(Protocol):
    """Sees what is loaded."""

    def record(self, batch: MetadataBatch, offset: int, message: DecodedMessage, before: MetadataDelta) -> None:
        """A record of the log, marks of transactions too, before it is applied to ``before``."""

    def refused(self) -> None:
        """The record that came last does not apply."""

    def election(self, batch: MetadataBatch, offset: int, kind: int, values: dict[str, Any]) -> None:
        """A control record of the log."""


class ImageLoader:
    """Folds batches into an image.

    ``faults``: what was wrong, in order. ``quorum``: what the control records say. ``left_out``: the offset of the
    first record of a newer Kafka that is not in the image. What does not apply after it may need that record, so it is
    no fault of the log; it is told once for each type of record.

    Args:
        watch: sees the records of the log, not those of a snapshot.
        with_controller: also say what a controller refuses.
        release: of the node that loads it, which refuses what it does not know. None: the newest, and what a newer
            Kafka wrote is told once, and left out.
    """

    def __init__(
        self, watch: Watcher | None = None, *, with_controller: bool = True, release: Release | None = None
    ) -> None:
        self.image = MetadataImage()
        self.faults: list[Fault] = []
        self.quorum = Quorum()
        self._watch = watch
        self._release = release
        self.left_out: int | None = None
        self._newer: set[str] = set()
        self._decode = replace(_decoder(), release=None if release is None else release.name).value
        self._no_op = self._decode(_NO_OP)
        self._books = ControllerBooks(release) if with_controller else None
        self._snapshot: str | None = None
        self._transaction = _Transaction.NONE
        self._began = -1
        self._last = Provenance()
        self._is_fresh = True
        self._delta = MetadataDelta(self.image, release)
        self._added = 0

    @property
    def open_transaction(self) -> int | None:
        """The offset at which a transaction began that is still open."""
        return self._began if self._transaction in _OPEN else None

    def load_snapshot(self, snapshot: SnapshotFile) -> None:
        """Start from a snapshot. Raises UnreadableBatchError, and ReplayError where a node refuses it.

        The records of a bootstrap are not in the image: the first leader of all writes its own into the log
        (docs/spec/metadata.md#rule-2-the-order-of-loading).
        """
        self._snapshot = snapshot.name
        timestamp = -1
        number = 0
        for batch in snapshot_batches(snapshot):
            if batch.is_control:
                timestamp = max(timestamp, self._control(batch))
                continue
            for _, value in batch.records:
                message = self._decoded(batch, number, value)
                if not snapshot.is_bootstrap:
                    self._replay(batch, number, message)
                number += 1
        self._delta.topics.finish_snapshot()
        self._delta.apply(Provenance(snapshot.end_offset - 1, snapshot.epoch, timestamp))
        self._reset()
        self._last = self.image.provenance
        self._snapshot = None

    def load(self, batch: MetadataBatch) -> None:
        """The next batch of the log. Raises UnreadableBatchError, with nothing of the batch applied."""
        if batch.is_control:
            self._control(batch)
            self._last = Provenance(batch.last_offset, batch.epoch, batch.timestamp)
            self._flush()
            return
        offset = batch.base_offset
        held = _held(batch)
        decoded = [self._decoded(batch, offset + n, value) for n, value in enumerate(held)]
        if len(decoded) == 1 and self._is_quick(decoded[0]):
            self._last = self.image.provenance = Provenance(offset, batch.epoch, batch.timestamp)
            return
        last = self._last
        if len(batch.records) > len(held):
            # The rest is decoded twice: first to see that all of the batch can be read.
            deque(self._from(len(held), batch), 0)
        for number, message in enumerate(chain(decoded, self._from(len(held), batch))):
            self._replay(batch, offset + number, message)
            if self._transaction is _Transaction.STARTED and (number or not self._is_fresh):
                before = offset + number - 1 if number else last.offset
                self._apply(Provenance(before, batch.epoch, batch.timestamp))
                self._transaction = _Transaction.STARTED
        self._last = Provenance(batch.last_offset, batch.epoch, batch.timestamp)
        self._flush()

    def _is_quick(self, message: DecodedMessage) -> bool:
        """Nearly all batches hold one record that changes one partition, or nothing. It is applied at once."""
        if self._watch is not None or self._transaction is not _Transaction.NONE or UNKNOWN_TAGS in message.values:
            return False
        return message is self._no_op or (
            message.schema.api_key == PARTITION_CHANGE and self.image.topics.is_changed(message.values)
        )

    def _from(self, first: int, batch: MetadataBatch) -> Iterator[DecodedMessage]:
        """The messages of a batch from one on. Raises UnreadableBatchError."""
        for number in range(first, len(batch.records)):
            yield self._decoded(batch, batch.base_offset + number, batch.records[number][1])

    def _decoded(self, batch: MetadataBatch, offset: int, value: bytes) -> DecodedMessage:
        if value == _NO_OP:
            # A controller writes two of them a second.
            return self._no_op
        try:
            return self._decode(value)
        except PayloadError as error:
            what = self._newer_record(error)
            if what is not None:
                self._tell_newer(what, offset, "")
                if self.left_out is None:
                    self.left_out = offset
                return self._no_op
            raise UnreadableBatchError(error.message, batch.path, batch.position, offset, is_cut=False) from None

    def _newer_record(self, error: PayloadError) -> str | None:
        """What a newer Kafka wrote that does not decode; None: it is something else."""
        known = record_schemas("cluster-metadata", "metadata")
        if self._release is not None:
            return None
        if error.trouble is DecodeErrorKind.UNKNOWN_TYPE and error.number > max(known):
            return f"record type {error.number}"
        if error.version is not None and error.record_type is not None:
            schema = known[error.record_type]
            return f"version {error.version} of {schema.name}" if error.version > schema.versions.high else None
        return None

    def _newer_parts(self, message: DecodedMessage) -> Iterator[str]:
        """What of a record that decodes a newer Kafka wrote."""
        values = message.values
        if self._release is not None:
            return
        if message.version > message.schema.versions.high:
            yield f"version {message.version} of {message.schema.name}"
        for tag in unknown_tag_numbers(values):
            yield f"tag {tag} of {message.schema.name}"
        for code in newer_codes(message.record_type, values):
            yield f"{code} of {message.schema.name}"
        if message.record_type == _FEATURE_LEVEL:
            name, level = str(values["name"]), values["featureLevel"]
            assert isinstance(level, int)
            if is_newer_level(name, level):
                yield f"{name} {level}" if name == FEATURE else f"level {level} of {name}"
        if message.record_type == _CONFIG and values["value"] is not None:
            kind = _CONFIGURED.get(values["resourceType"])  # type: ignore[arg-type]
            if kind is not None and values["name"] not in NEWEST.configs[kind]:
                yield f"the config {values['name']!s} of a {kind}"

    def _tell_newer(self, what: str, offset: int, record: str) -> None:
        if what not in self._newer:
            self._newer.add(what)
            self._fault(Grade.NEWER, offset, record, newer(what))

    def _refuse(self, grade: Grade, offset: int, record: str, message: str) -> None:
        if self.left_out is None:
            self._fault(grade, offset, record, message)
        elif record not in self._newer:
            self._newer.add(record)
            reason = f"it may need the record at offset {self.left_out}, which a newer Kafka wrote"
            self._fault(Grade.NEWER, offset, record, f"{message}: {reason}")

    def _replay(self, batch: MetadataBatch, offset: int, message: DecodedMessage) -> None:
        record_type, values = message.record_type, message.values
        if record_type in ADDING:
            self._added += 1
            if self._added > most(METADATA):
                what = f"the records so far add more than kdump keeps; {hint(METADATA)}"
                raise UnreadableBatchError(what, batch.path, batch.position, offset, is_cut=False)
        if self._watch is not None and self._snapshot is None:
            self._watch.record(batch, offset, message, self._delta)
        for what in self._newer_parts(message):
            self._tell_newer(what, offset, message.schema.name)
        try:
            if BEGIN <= record_type <= ABORT:
                self._mark(record_type, offset)
            else:
                if self._transaction is not _Transaction.NONE:
                    self._transaction = _Transaction.CONTINUED if self._transaction in _OPEN else _Transaction.NONE
                self._delta.replay(record_type, values)
        except ReplayError as error:
            if self._watch is not None and self._snapshot is None:
                self._watch.refused()
            self._refuse(Grade.IMAGE, offset, message.schema.name, str(error))
            return
        if self._books is not None and record_type in BOOKED:
            try:
                self._books.replay(record_type, values, offset, in_snapshot=self._snapshot is not None)
            except ReplayError as error:
                self._refuse(Grade.CONTROLLER, offset, message.schema.name, str(error))

    def _mark(self, record_type: int, offset: int) -> None:
        is_open = self._transaction in _OPEN
        if record_type == BEGIN:
            if is_open:
                raise ReplayError(f"the transaction that began at offset {self._began} is still open")
            self._transaction, self._began = _Transaction.STARTED, offset
        elif not is_open:
            raise ReplayError("no transaction is open")
        else:
            self._transaction = _Transaction.ENDED if record_type == END else _Transaction.ABORTED

    def _flush(self) -> None:
        if self._transaction in _OPEN:
            self._is_fresh = False
            return
        if self._transaction is _Transaction.ABORTED:
            self._delta.clear()
        self._apply(self._last)

    def _apply(self, provenance: Provenance) -> None:
        try:
            self._delta.apply(provenance)
        except ReplayError as error:
            between = f"the changes from offset {self.image.provenance.offset + 1} to {provenance.offset} are lost"
            self._refuse(Grade.IMAGE, provenance.offset, "", f"{between}: {error}")
        self._reset()

    def _reset(self) -> None:
        self._delta.clear()
        self._transaction = _Transaction.NONE
        self._is_fresh = True

    def _control(self, batch: MetadataBatch) -> int:
        """Take a control batch; gives the time in a snapshot's header, else -1."""
        timestamp = -1
        for number, (key, value) in enumerate(batch.records):
            try:
                kind = control.parse_type(key)
                schema = control.schema_of(kind)
                if kind > control.KRAFT_VOTERS and self._release is None:
                    self._tell_newer(f"control record type {kind}", batch.base_offset + number, "")
                    continue
                if schema is None:
                    raise DamageError(Codes.CONTROL_TYPE, f"unknown control record type {kind}")
                values: dict[str, Any] = control.parse_kraft(schema, value)
            except DamageError as error:
                offset = batch.base_offset + number
                raise UnreadableBatchError(error.message, batch.path, batch.position, offset, is_cut=False) from None
            if kind == control.SNAPSHOT_HEADER:
                timestamp = values["lastContainedLogTimestamp"]
            else:
                self.quorum.see(kind, values)
                if self._watch is not None and self._snapshot is None:
                    self._watch.election(batch, batch.base_offset + number, kind, values)
        return timestamp

    def _fault(self, grade: Grade, offset: int, record: str, message: str) -> None:
        self.faults.append(Fault(grade, offset, record, message, self._snapshot))


def _held(batch: MetadataBatch) -> list[bytes]:
    """The values of the records that are kept decoded: as many of the first as need not much memory."""
    values = [value for _, value in batch.records[:_MOST_HELD]]
    sizes = accumulate(map(len, values))
    return [value for value, size in zip(values, sizes, strict=True) if size <= _MOST_HELD_BYTES] or values[:1]


def _voters(voters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(voters, key=lambda voter: voter["voterId"])
