"""Records and batches as objects. Their attributes are the columns of JSON lines, in snake_case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kdump.format.record import size_of

_SHOWN: Final = 40
"""Bytes of a key or value in the text of a record."""


@dataclass(slots=True)
class RecordOrigin:
    """What a record has from its batch, or from the message of magic 0 or 1 that holds it.

    The records of a batch share one object. A control record and a message of magic 0 or 1 have their own.
    """

    file: str
    topic: str | None
    partition: int | None
    timestamp_type: str
    producer_id: int | None
    producer_epoch: int | None
    partition_leader_epoch: int | None
    is_transactional: bool | None
    is_control: bool | None
    control_type: str | None
    control: Mapping[str, Any] | None
    txn_state: str | None
    magic: int
    compression: str
    batch_base_offset: int | None
    position: int
    crc: int
    is_valid: bool
    problem: str | None
    next_offset: int | None


class LogRecord(NamedTuple):
    """A record of a log.

    Its attributes are the columns of the JSON lines of ``kdump dump --records``, in snake_case (``producer_id`` is
    ``producerId``). Attributes that the records of a batch share are kept once, in ``origin``.
    """

    offset: int
    """Its number in the partition."""
    timestamp: int | None
    """Milliseconds since 1970 (UTC); None: magic 0 has none."""
    key: bytes | None
    value: bytes | None
    """None: a tombstone, where there is a key."""
    headers: tuple[tuple[str, bytes | None], ...]
    """Keys as Kafka's clients decode them (bytes that are no UTF-8 are U+FFFD), and values."""
    sequence: int | None
    """The producer's number of it; -1: the producer is not idempotent; None: magic 0 and 1 have none."""
    origin: RecordOrigin
    """What it has from its batch."""
    decoded_key: Any = None
    """With ``decode``: a JSON value. None where it does not decode, which ``problem`` says."""
    decoded_value: Any = None

    @property
    def key_size(self) -> int:
        """Bytes of the key, -1 for null."""
        return size_of(self.key)

    @property
    def value_size(self) -> int:
        """Bytes of the value, -1 for null."""
        return size_of(self.value)

    @property
    def file(self) -> str:
        """The path of the log, as it was given or found."""
        return self.origin.file

    @property
    def topic(self) -> str | None:
        """The topic, by the name of the directory."""
        return self.origin.topic

    @property
    def partition(self) -> int | None:
        """The partition, by the name of the directory."""
        return self.origin.partition

    @property
    def timestamp_type(self) -> str:
        """``CreateTime``, ``LogAppendTime`` or, in magic 0, ``NoTimestampType``."""
        return self.origin.timestamp_type

    @property
    def producer_id(self) -> int | None:
        """The producer's id, -1 without one; None in magic 0 and 1."""
        return self.origin.producer_id

    @property
    def producer_epoch(self) -> int | None:
        """The producer's epoch, -1 without one; None in magic 0 and 1."""
        return self.origin.producer_epoch

    @property
    def partition_leader_epoch(self) -> int | None:
        """The epoch of the leader that appended the batch; None in magic 0 and 1."""
        return self.origin.partition_leader_epoch

    @property
    def is_transactional(self) -> bool | None:
        """Whether it is part of a transaction; None in magic 0 and 1."""
        return self.origin.is_transactional

    @property
    def is_control(self) -> bool | None:
        """Whether it is a control record, such as a marker; None in magic 0 and 1."""
        return self.origin.is_control

    @property
    def control_type(self) -> str | None:
        """The type of a control record, such as ``COMMIT``."""
        return self.origin.control_type

    @property
    def control(self) -> Mapping[str, Any] | None:
        """What a control record says."""
        return self.origin.control

    @property
    def txn_state(self) -> str | None:
        """``committed``, ``aborted`` or ``open``; None outside of transactions."""
        return self.origin.txn_state

    @property
    def magic(self) -> int:
        """The version of the format: 0, 1 or 2."""
        return self.origin.magic

    @property
    def compression(self) -> str:
        """The codec of the batch: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``."""
        return self.origin.compression

    @property
    def batch_base_offset(self) -> int | None:
        """The base offset of its batch; None in magic 0 and 1."""
        return self.origin.batch_base_offset

    @property
    def position(self) -> int:
        """Where its batch or message begins in the file (bytes)."""
        return self.origin.position

    @property
    def crc(self) -> int:
        """The stored CRC of its batch, in magic 0 and 1 of the message itself."""
        return self.origin.crc

    @property
    def is_valid(self) -> bool:
        """Whether this CRC is right."""
        return self.origin.is_valid

    @property
    def problem(self) -> str | None:
        """What is wrong with the record, in words; None: nothing."""
        return self.origin.problem

    @property
    def next_offset(self) -> int | None:
        """Where a consumer of Kafka 0.7 goes on; None in logs of later versions."""
        return self.origin.next_offset

    def __repr__(self) -> str:
        where = "" if self.topic is None else f"{self.topic}-{self.partition} "
        state = "" if self.problem is None else f" problem={self.problem!r}"
        return (
            f"<Record {where}offset={self.offset} timestamp={self.timestamp} key={_shortened(self.key)} "
            f"value={_shortened(self.value)}{state}>"
        )


@dataclass(slots=True, repr=False)
class LogBatch:
    """A batch of a log, or a message of magic 0 or 1, by its header alone. Its records are not read.

    Its attributes are the columns of the JSON lines of ``kdump dump --batches``, in snake_case. Those that magic 0 and
    1 do not have are None there.
    """

    file: str
    topic: str | None
    partition: int | None
    base_offset: int | None
    last_offset: int
    """The offset of the last record. Compaction may have removed the record itself."""
    count: int | None
    """Records, as the header says."""
    base_sequence: int | None
    last_sequence: int | None
    producer_id: int | None
    producer_epoch: int | None
    partition_leader_epoch: int | None
    is_transactional: bool | None
    is_control: bool | None
    delete_horizon_ms: int | None
    position: int
    """Where it begins in the file (bytes)."""
    timestamp_type: str
    max_timestamp: int | None
    """Milliseconds since 1970."""
    size: int
    """Bytes in the file, header included."""
    magic: int
    compression: str
    crc: int
    is_valid: bool
    """The stored CRC is right."""
    next_offset: int | None
    """Where a consumer of Kafka 0.7 goes on; None in logs of later versions."""

    def __repr__(self) -> str:
        where = "" if self.topic is None else f"{self.topic}-{self.partition} "
        offsets = self.last_offset if self.base_offset is None else f"{self.base_offset}..{self.last_offset}"
        return f"<Batch {where}offsets={offsets} position={self.position} size={self.size} valid={self.is_valid}>"


def _shortened(data: bytes | None) -> str:
    return repr(data) if data is None or len(data) <= _SHOWN else f"{data[:_SHOWN]!r}... ({len(data):,} bytes)"
