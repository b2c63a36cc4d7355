"""The topics in which registries keep their schemas: where they lie, and their records.

Nothing here needs numpy before there are schemas: a dump looks for them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from kdump.codes import Codes, Finding, KdumpError, OnError, ignore_error, raise_error
from kdump.inputs import Input, LogSegment, PathDirectory, inputs_of
from kdump.log import files
from kdump.log.names import base_of, is_uri, parse_partition_directory
from kdump.log.opening import open_source
from kdump.log.partition import partition_directories
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.registry import SCHEMA
from kdump.schemas.registry import Registry, SchemaRecord, plain_subject, registry_of

if TYPE_CHECKING:
    from kdump.fast.recordtable import RecordTable
    from kdump.verify.partitionentries import Partition, PartitionEntries

SCHEMAS_TOPIC: Final = "_schemas"
"""The name that both registries have by default; ``kafkastore.topic`` and ``topic_name`` change it."""
_MARK: Final = b'"keytype"'
"""A member of the key of each record."""
_MARKED_BYTES: Final = 4096
_KARAPACE: Final = b"X-Registry-Version", b"karapace"
"""A record header, and how its value begins."""
_NONE: Final = "no partition of _schemas, and none with the records of a schema registry"


def with_schemas(choice: DecoderChoice, path: str | None, inputs: Iterable[Input]) -> DecoderChoice:
    """A choice of decoders that knows the schemas.

    Args:
        choice: with schemas that are named, what is no value by a schema is worth a finding; where they are found by
            ``by_topic``, it is not.
        path: where the user says that they are; None: nowhere.
        inputs: what is read, in which they are looked for. They are not asked for where that is not needed.

    Raises:
        KdumpError: the schemas that are named cannot be read.
    """
    found = path
    if path is None and (choice.by_topic or SCHEMA in (choice.key, choice.value)):
        found = find_schemas(inputs)
    if found is None:
        return choice
    return choice._replace(schemas=schema_places(found), value=choice.value or (None if path is None else SCHEMA))


def find_schemas(inputs: Iterable[Input]) -> str | None:
    """The log directory among the inputs that holds schemas of its own, or that of a partition; None: there is none."""
    for found in inputs:
        with suppress(KdumpError):
            folder = _log_directory(found)
            if folder is not None:
                return folder
    return None


def _log_directory(found: Input) -> str | None:
    if isinstance(found, PathDirectory) and not found.is_partition(files.listing(found.path)):
        return found.path if _holds_schemas(found.path) else None
    if isinstance(found, PathDirectory | LogSegment):
        partition = found.path if isinstance(found, PathDirectory) else os.path.dirname(files.absolute(found.path))
        above = os.path.dirname(files.absolute(partition).rstrip("/"))
        return above if files.exists(os.path.join(above, f"{SCHEMAS_TOPIC}-0")) else None
    return None


def _holds_schemas(log_directory: str) -> bool:
    entries = files.listing(log_directory)
    names = (parse_partition_directory(entry.name) for entry in entries)
    topics = Counter(named[0] for named in names if named is not None)
    return SCHEMAS_TOPIC in topics or any(
        is_marked(entry.path, entry.size)
        for folder in partition_directories(entries, lambda place: topics[place[0]] == 1, ignore_error)
        for entry in files.listing(folder)
        if entry.name.endswith(".log")
    )


def is_marked(log: str, size: int | None) -> bool:
    """A record near the start of a log has the key of a registry. ``size``: bytes of the log, if they are known."""
    if size == 0:
        return False
    with suppress(KdumpError), open_source(log) as source:
        return _MARK in source.read(0, min(_MARKED_BYTES, source.size or 0))
    return False


def schema_partitions(logs: PartitionEntries) -> list[Partition]:
    """The partitions that hold schemas, by their names, or by their first record; the topic has one partition."""
    counts = Counter(partition.logs[0].context.topic for partition in logs.partitions)
    found = []
    for partition in logs.partitions:
        topic = partition.logs[0].context.topic
        is_alone = partition.logs[0].context.partition == 0 and counts[topic] == 1
        if is_alone and (topic == SCHEMAS_TOPIC or any(is_marked(log.given, log.size) for log in partition.logs)):
            found.append(partition)
    return sorted(found, key=lambda one: one.logs[0].context.topic != SCHEMAS_TOPIC)


def schema_records(logs: PartitionEntries, partition: Partition, on_error: OnError) -> Iterator[SchemaRecord]:
    """The records of a partition, in the order of its logs. The registries read those of open transactions, too."""
    for log in partition.logs:
        try:
            for entries in logs.of(log):
                for groups in entries.record_groups():
                    controls = groups.is_control.repeat(groups.rows)
                    yield from _rows(groups.table.select(~controls))
        except KdumpError as error:
            on_error(error.located(log.context.file))


def _rows(table: RecordTable) -> Iterator[SchemaRecord]:
    view = table.arena.data
    headers = iter(
        [
            (bytes(view[key : key + key_size]), bytes(view[value : value + max(size, 0)]))
            for key, key_size, value, size in zip(
                table.headers.key_start.tolist(),
                table.headers.key_size.tolist(),
                table.headers.value_start.tolist(),
                table.headers.value_size.tolist(),
                strict=True,
            )
        ]
    )
    columns = (
        table.offset, table.timestamp, table.key_start, table.key_size, table.value_start, table.value_size,
        table.header_count,
    )  # fmt: skip
    for offset, time, key, key_size, value, value_size, count in zip(*(one.tolist() for one in columns), strict=True):
        own = [next(headers) for _ in range(count)]
        yield SchemaRecord(
            offset,
            time,
            None if key_size < 0 else bytes(view[key : key + key_size]),
            None if value_size < 0 else bytes(view[value : value + value_size]),
            any(name == _KARAPACE[0] and text.startswith(_KARAPACE[1]) for name, text in own),
        )


class Registries(NamedTuple):
    """The registries of a PATH, by their topics; ``_schemas`` comes first."""

    of: dict[str, Registry]

    @property
    def are_known(self) -> bool:
        """There are schemas."""
        return any(registry.versions for registry in self.of.values())

    def name_of(self, topic: str | None) -> str:
        """The topic of the registry that has subjects of a topic's keys or values; else that of the first one."""
        own = (f"{topic}-key", f"{topic}-value")
        for name, registry in self.of.items():
            if any(plain_subject(subject) in own for subject in registry.subjects()):
                return name
        return next(iter(self.of))

    def of_topic(self, topic: str | None) -> Registry:
        """That registry."""
        return self.of[self.name_of(topic)]


def check_partition(logs: Sequence[str]) -> Iterator[Finding]:
    """What a start of the registry would change, once the cleaner has been there; see ``WorldTopicChecks``."""
    if not any(is_marked(log, None) for log in logs):
        return
    found = _entries(inputs_of(logs, ignore_error), ignore_error)
    records = [one for partition in found.partitions for one in schema_records(found, partition, ignore_error)]
    now, later = registry_of(records), registry_of(cleaned(records))
    for place in sorted(now.versions.keys() | later.versions.keys()):
        before, after = now.versions.get(place), later.versions.get(place)
        if before is not None and after is not None and before.deleted == after.deleted:
            continue
        one = after or before
        assert one is not None
        what = "goes" if after is None else "comes back" if before is None else "is no longer what it is"
        state = ", soft-deleted" if one.deleted else ""
        message = (
            f"once the cleaner has removed tombstones, and the registry starts again, {place.subject} version "
            f"{place.version} {what} (id {one.id}{state}), by the record at offset {one.offset}"
        )
        log = max((path for path in logs if base_of(path) <= one.offset), key=base_of, default=logs[0])
        yield Finding(Codes.REGISTRY_RETURNS, message, 0, path=log)


def cleaned(records: Sequence[SchemaRecord]) -> Iterator[SchemaRecord]:
    """What the cleaner leaves of records at last: the last one of each key, without tombstones."""
    last = {record.key: number for number, record in enumerate(records)}
    for number, record in enumerate(records):
        if record.key is not None and record.value is not None and last[record.key] == number:
            yield record


def schema_places(path: str) -> tuple[str, ...]:
    """The partitions with schemas that a PATH means: itself, or those of a log directory or bucket.

    Raises:
        KdumpError: it cannot be read, or NO_SEGMENTS: it holds no schemas.
    """
    failed: list[KdumpError] = []
    logs = _entries(inputs_of([path], failed.append), failed.append)
    partitions = schema_partitions(logs)
    if not partitions and len(logs.partitions) == 1 and registries_at((path,)).are_known:
        # A registry may have compressed its first records.
        partitions = logs.partitions
    if not partitions:
        raise failed[0] if failed else KdumpError(Codes.NO_SEGMENTS, _NONE, path=path)
    # Elsewhere a path needs what the user gave with it.
    return (path,) if is_uri(path) else tuple(partition.directory for partition in partitions)


def registries_at(places: tuple[str, ...]) -> Registries:
    """What the registries of ``schema_places`` know. Raises KdumpError where they cannot be read."""
    logs = _entries(inputs_of(places, raise_error), raise_error)
    return _read(places, tuple(files.file_state(log.path) for one in logs.partitions for log in one.logs))


@lru_cache(maxsize=4)
def _read(places: tuple[str, ...], state: tuple[files.FileState | None, ...]) -> Registries:
    """``state``: of the logs, so that they are read again where they have grown."""
    logs = _entries(inputs_of(places, raise_error), raise_error)
    partitions = logs.partitions if len(logs.partitions) == len(places) else schema_partitions(logs)
    return Registries(
        {
            partition.logs[0].context.topic or partition.name: registry_of(schema_records(logs, partition, raise_error))
            for partition in partitions
        }
    )


def _entries(inputs: Sequence[Input], on_error: OnError) -> PartitionEntries:
    from kdump.verify.partitionentries import PartitionEntries  # needs numpy, which nobody without schemas does

    return PartitionEntries(inputs, on_error=on_error)
