"""The topics in which registries keep their schemas: which partitions they are, and their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from kdump.codes import Codes, KdumpError
from kdump.fast.recordtable import RecordTable
from kdump.inputs import Input, PathDirectory, inputs_of
from kdump.log import files
from kdump.schemas.registry import Registry, SchemaRecord, plain_subject, registry_of
from kdump.verify.partitionentries import Partition, PartitionEntries

SCHEMAS_TOPIC: Final = "_schemas"
"""The name that both registries have by default; ``kafkastore.topic`` and ``topic_name`` change it."""
_MARK: Final = b'"keytype"'
"""A member of the key of each record."""
_MARKED_BYTES: Final = 4096
_KARAPACE: Final = b"X-Registry-Version", b"karapace"
"""A record header, and how its value begins."""


def schema_partitions(logs: PartitionEntries) -> list[Partition]:
    """The partitions that hold schemas, by their names, or by their first record; the topic has one partition."""
    topics = [partition.logs[0].context.topic for partition in logs.partitions]
    found = []
    for partition in logs.partitions:
        context = partition.logs[0].context
        if context.partition == 0 and (
            context.topic == SCHEMAS_TOPIC or (topics.count(context.topic) == 1 and _is_marked(logs, partition))
        ):
            found.append(partition)
    return sorted(found, key=lambda one: one.logs[0].context.topic != SCHEMAS_TOPIC)


def _is_marked(logs: PartitionEntries, partition: Partition) -> bool:
    """A record near the begin of the partition has the key of a registry."""
    for log in partition.logs:
        if log.size:
            with suppress(KdumpError), logs.open(log.given or log.path) as source:
                return _MARK in source.read(0, min(_MARKED_BYTES, log.size))
            break
    return False


def schema_records(
    logs: PartitionEntries, partition: Partition, on_error: Callable[[KdumpError], None]
) -> Iterator[SchemaRecord]:
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

    def of_topic(self, topic: str | None) -> Registry:
        """The registry that has subjects of a topic's keys or values; else the first one."""
        if topic is not None:
            own = (f"{topic}-key", f"{topic}-value")
            for registry in self.of.values():
                if any(plain_subject(subject) in own for subject in registry.subjects()):
                    return registry
        return next(iter(self.of.values()))


def find_registries(inputs: Sequence[Input]) -> str | None:
    """The log directory among the inputs that holds schemas of its own; None: none does."""
    for found in inputs:
        if isinstance(found, PathDirectory):
            with suppress(KdumpError):
                if not found.is_partition(files.listing(found.path)) and schema_partitions(_entries([found])):
                    return found.path
    return None


def registries_at(path: str) -> Registries:
    """What the registries of a PATH know: a partition of such a topic, or a log directory or bucket that holds one.

    Raises:
        KdumpError: it cannot be read, or NO_SEGMENTS: it holds no schemas.
    """
    failed: list[KdumpError] = []
    inputs = inputs_of([path], failed.append)
    logs = _entries(inputs, failed.append)
    partitions = schema_partitions(logs)
    if not partitions and len(logs.partitions) == 1:
        partitions = logs.partitions
    if failed and not partitions:
        raise failed[0]
    if not partitions:
        what = "no partition of _schemas, and none whose first record is that of a schema registry"
        raise KdumpError(Codes.NO_SEGMENTS, what, path=path)
    state = tuple(files.file_state(log.path) for one in partitions for log in one.logs)
    return _read(path, tuple(one.directory for one in partitions), state)


@lru_cache(maxsize=4)
def _read(path: str, directories: tuple[str, ...], state: tuple[files.FileState | None, ...]) -> Registries:
    """``state``: of the logs, so that they are read again where they have grown."""

    def fail(error: KdumpError) -> None:
        raise error

    logs = _entries(inputs_of([path], fail))
    return Registries(
        {
            partition.logs[0].context.topic or partition.name: registry_of(schema_records(logs, partition, fail))
            for directory in directories
            for partition in logs.partitions
            if partition.directory == directory
        }
    )


def _entries(inputs: Sequence[Input], on_error: Callable[[KdumpError], None] = lambda error: None) -> PartitionEntries:
    return PartitionEntries(inputs, on_error=on_error)
