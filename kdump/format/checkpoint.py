"""The text files beside the logs: checkpoints, partition.metadata, meta.properties, quorum-state, .kafka_cleanshutdown.

Source: docs/spec/formats.md#9-text-files; what a broker refuses:
docs/spec/startup.md#rule-1-the-leader-epoch-checkpoint (CheckpointFile). Every reader raises DamageError TEXT_FILE
where a broker would refuse the file, with the position of the line.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from kdump.codes import Codes, DamageError
from kdump.wire.jsontext import read_shown_json

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
QUORUM_STATE: Final = "quorum-state"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS: Final = (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
"""Files of a log directory with a line for each partition."""

_VERSION: Final = 0
_SHORT: Final = 1 << 10
"""Bytes of a file whose entries are worth keeping."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_WHITE_SPACE: Final = re.compile(r"\s+")
_METADATA_SEPARATOR: Final = re.compile(r":\s+")
_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_PROPERTY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:\s]?\s*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UUID_TEXT_LENGTH: Final = 22
_ZERO_UUID: Final = "A" * _UUID_TEXT_LENGTH


class CheckpointEntry(NamedTuple):
    """A line of an offset checkpoint."""

    topic: str
    partition: int
    offset: int


class EpochEntry(NamedTuple):
    """A line of leader-epoch-checkpoint: the epoch and the first offset that it wrote."""

    epoch: int
    start_offset: int


class MetaProperties(NamedTuple):
    """meta.properties; None for a member that it does not have. ``node_id`` is ``broker.id`` in version 0."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


_Entry = TypeVar("_Entry", CheckpointEntry, EpochEntry)


def parse_offset_checkpoint(data: bytes) -> list[CheckpointEntry]:
    """The lines of a recovery-point-, log-start-, replication- or cleaner-offset-checkpoint, in file order."""
    return list(offset_checkpoint_entries(data))


def offset_checkpoint_entries(data: bytes) -> Iterator[CheckpointEntry]:
    """The lines of an offset checkpoint, one by one. DamageError comes after the lines before the damage."""

    def entry(line: str) -> CheckpointEntry:
        words = _WHITE_SPACE.split(line)
        if len(words) != 3:
            raise ValueError(f"{len(words)} words instead of topic, partition and offset")
        return CheckpointEntry(words[0], _int32(words[1]), _int64(words[2]))

    return _checkpoint_entries(data, entry)


def with_offset(data: bytes, topic: str, partition: int, offset: int | None) -> bytes:
    """An offset checkpoint with another offset for one partition. A missing line is added, all others stay as they are.

    Args:
        data: the file.
        topic: of the partition.
        partition: its number.
        offset: the new one; None: the line is removed.

    Raises:
        DamageError: see ``parse_offset_checkpoint``.
    """
    entries = parse_offset_checkpoint(data)
    lines = data.splitlines(keepends=True)
    own = f"{topic} {partition} {offset}\n".encode()
    if offset is None:
        kept = [
            line
            for line, entry in zip(lines[2:], entries, strict=True)
            if (entry.topic, entry.partition) != (topic, partition)
        ]
        return data if len(kept) == len(entries) else b"".join([lines[0], f"{len(kept)}\n".encode(), *kept])
    if len(lines) < 2:
        return f"{_VERSION}\n1\n".encode() + own
    numbers = [number for number, entry in enumerate(entries) if (entry.topic, entry.partition) == (topic, partition)]
    if not numbers:
        lines[-1] = lines[-1].rstrip(b"\r\n") + b"\n"
        return b"".join([lines[0], f"{len(entries) + 1}\n".encode(), *lines[2:], own])
    for number in numbers:
        lines[2 + number] = own
    return b"".join(lines)


def parse_leader_epoch_checkpoint(data: bytes) -> list[EpochEntry]:
    """The lines of leader-epoch-checkpoint, in file order."""
    return list(_leader_epochs(data) if len(data) <= _SHORT else leader_epoch_entries(data))


@lru_cache(maxsize=64)
def _leader_epochs(data: bytes) -> tuple[EpochEntry, ...]:
    """The lines of a short file. Those of many partitions are equal, and each is read twice."""
    return tuple(leader_epoch_entries(data))


def write_leader_epoch_checkpoint(entries: Sequence[EpochEntry]) -> bytes:
    """The bytes of leader-epoch-checkpoint."""
    lines = [str(_VERSION), str(len(entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in entries)]
    return "".join(f"{line}\n" for line in lines).encode()


def leader_epoch_entries(data: bytes) -> Iterator[EpochEntry]:
    """The lines of leader-epoch-checkpoint, one by one. DamageError comes after the lines before the damage."""

    def entry(line: str) -> EpochEntry:
        words = _WHITE_SPACE.split(line)
        if len(words) != 2:
            raise ValueError(f"{len(words)} words instead of epoch and start offset")
        epoch, start_offset = _int32(words[0]), _int64(words[1])
        if epoch < 0 or start_offset < 0:
            raise ValueError("a negative epoch or offset")
        return EpochEntry(epoch, start_offset)

    return _checkpoint_entries(data, entry)


def parse_topic_id(data: bytes) -> str:
    """The 22-character id of the topic in partition.metadata."""
    fields = {name: (position, value) for position, name, value in _metadata_lines(data)}
    for name in ("version", "topic_id"):
        if name not in fields:
            raise _malformed(f"there is no {name}", len(data))
    version = _at(fields["version"][0], _int32, fields["version"][1])
    if version != _VERSION:
        raise _malformed(f"unknown version {version}", fields["version"][0])
    position, topic_id = fields["topic_id"]
    if not is_topic_id(topic_id):
        raise _malformed(f"{topic_id!r} is no topic id", position)
    return topic_id


def write_partition_metadata(topic_id: str) -> bytes:
    """The bytes of partition.metadata."""
    return f"version: {_VERSION}\ntopic_id: {topic_id}\n".encode()


def partition_metadata_members(data: bytes) -> Iterator[tuple[str, object]]:
    """(name, value) of each line of partition.metadata. DamageError comes after the lines before the damage."""
    for _, name, value in _metadata_lines(data):
        yield name, value
    parse_topic_id(data)


def _metadata_lines(data: bytes) -> Iterator[tuple[int, str, str]]:
    """Byte position, name and value of each line."""
    for position, line in _lines(data):
        words = _METADATA_SEPARATOR.split(line)
        if len(words) != 2:
            raise _malformed(f"{line!r} is no 'name: value'", position)
        yield position, words[0], words[1]


def parse_meta_properties(data: bytes) -> MetaProperties:
    """meta.properties of a log directory, of version 0 (ZooKeeper) or 1 (KRaft)."""
    properties = _properties(data)
    version = _number(properties, "version")
    if version not in {0, 1}:
        raise _malformed("there is no version" if version is None else f"unknown version {version}", 0)
    node_id = _number(properties, "node.id" if version else "broker.id")
    if version and node_id is None:
        raise _malformed("there is no node.id", 0)
    if version and "cluster.id" not in properties:
        raise _malformed("there is no cluster.id", 0)
    directory_id = properties.get("directory.id")
    if directory_id is not None and not is_uuid(directory_id):
        raise _malformed(f"{directory_id!r} is no directory id", 0)
    return MetaProperties(version, properties.get("cluster.id"), node_id, directory_id)


def meta_properties_members(data: bytes) -> Iterator[tuple[str, object]]:
    """(name, value) of each line of meta.properties. DamageError comes after all of them."""
    yield from _properties(data).items()
    parse_meta_properties(data)


def quorum_state_members(data: bytes) -> Iterator[tuple[str, object]]:
    """(name, value) of each member of quorum-state. DamageError comes after all of them."""
    yield from _json_object(data).items()
    parse_quorum_state(data)


def clean_shutdown_members(data: bytes) -> Iterator[tuple[str, object]]:
    """(name, value) of each member of .kafka_cleanshutdown. DamageError comes after all of them."""
    yield from _json_object(data).items() if data else ()
    parse_clean_shutdown(data)


def parse_quorum_state(data: bytes) -> tuple[int, int]:
    """(leader id, leader epoch) of quorum-state, a JSON object; the id is -1 without a leader."""
    members = _json_object(data)
    numbers = []
    for name in ("data_version", "leaderId", "leaderEpoch", "votedId"):
        number = members.get(name)
        if not isinstance(number, int) or isinstance(number, bool):
            raise _malformed(f"{name} is missing or no number", 0)
        numbers.append(number)
    if numbers[0] not in {0, 1}:
        raise _malformed(f"unknown data_version {numbers[0]}", 0)
    _, leader_id, leader_epoch, _ = numbers
    return leader_id, leader_epoch


def parse_clean_shutdown(data: bytes) -> int | None:
    """The broker epoch in .kafka_cleanshutdown; None for the empty file of older brokers."""
    if not data:
        return None
    epoch = _json_object(data).get("brokerEpoch")
    if not isinstance(epoch, int) or isinstance(epoch, bool):
        raise _malformed("brokerEpoch is missing or no number", 0)
    return epoch


def _checkpoint_entries(data: bytes, parse: Callable[[str], _Entry]) -> Iterator[_Entry]:
    """The entries of a checkpoint: version, count, then one line for each.

    Without the count there are no entries, as for a broker.
    """
    lines = _lines(data)
    position, version = next(lines, (0, str(_VERSION)))
    if _at(position, _int32, version) != _VERSION:
        raise _malformed(f"unknown version {version}", position)
    count_at, count = next(lines, (0, "0"))
    expected, found = _at(count_at, _int32, count), 0
    for position, line in lines:
        yield _at(position, parse, line)
        found += 1
    if found != expected:
        raise _malformed(f"{found} entries, and line 2 counts {expected}", count_at)


_Result = TypeVar("_Result")


def _at(position: int, parse: Callable[[str], _Result], text: str) -> _Result:
    try:
        return parse(text)
    except ValueError as error:
        raise _malformed(str(error), position) from error


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """(byte position, text) of every line, without its end."""
    for line in _LINE.finditer(data):
        try:
            yield line.start(), line[0].rstrip(b"\r\n").decode()
        except UnicodeDecodeError as error:
            raise _malformed("not UTF-8", line.start() + error.start) from error


def _integer(text: str, bits: int) -> int:
    if _INTEGER.fullmatch(text):
        value = int(text)
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return value
    raise ValueError(f"{text!r} is no {bits}-bit number")


def _int32(text: str) -> int:
    return _integer(text, 32)


def _int64(text: str) -> int:
    return _integer(text, 64)


def is_topic_id(text: str) -> bool:
    """An id that a topic may have."""
    return is_uuid(text) and text != _ZERO_UUID


def is_uuid(text: str) -> bool:
    """22 characters of URL-safe base64 without padding: 16 bytes."""
    try:
        return len(base64.b64decode(text + "==", b"-_", validate=True)) == 16 and len(text) == _UUID_TEXT_LENGTH
    except (binascii.Error, ValueError):
        return False


def _properties(data: bytes) -> dict[str, str]:
    """A java.util.Properties file: ISO 8859-1, comments, ``=``, ``:`` or a blank between, backslash escapes."""
    properties = {}
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", data.decode("latin-1"))
    for raw in joined.splitlines():
        line = raw.lstrip()
        match = _PROPERTY.fullmatch(line)
        if line and line[0] not in "#!" and match:
            properties[_unescaped(match[1])] = _unescaped(match[2])
    return properties


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    text = _ESCAPE.sub(character, text)
    # Two surrogates make one character, as in Java. One alone cannot be written as text.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _number(properties: dict[str, str], name: str) -> int | None:
    return _at(0, _int32, properties[name]) if name in properties else None


def _json_object(data: bytes) -> dict[str, object]:
    try:
        members = read_shown_json(data.decode())
    except ValueError as error:
        raise _malformed(f"no JSON: {error}", 0) from error
    if not isinstance(members, dict):
        raise _malformed("no JSON object", 0)
    return members


def _malformed(message: str, position: int) -> DamageError:
    return DamageError(Codes.TEXT_FILE, message, position=position)


READERS: Final[Mapping[str, Callable[[bytes], Iterator[CheckpointEntry | EpochEntry | tuple[str, object]]]]] = {
    RECOVERY_POINT_CHECKPOINT: offset_checkpoint_entries,
    LOG_START_CHECKPOINT: offset_checkpoint_entries,
    HIGH_WATERMARK_CHECKPOINT: offset_checkpoint_entries,
    CLEANER_CHECKPOINT: offset_checkpoint_entries,
    LEADER_EPOCH_CHECKPOINT: leader_epoch_entries,
    PARTITION_METADATA: partition_metadata_members,
    META_PROPERTIES: meta_properties_members,
    QUORUM_STATE: quorum_state_members,
    CLEAN_SHUTDOWN: clean_shutdown_members,
}
"""The readers of the entries by file name. They raise DamageError TEXT_FILE after the entries before the damage."""
