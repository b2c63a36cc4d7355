"""The last value of each key of a partition at a point in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kdump.codes import KdumpError, OnError
from kdump.kafka.newestvalues import NewestValues
from kdump.log.names import parse_partition_directory
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.decoded import RecordDecoder
from kdump.payloads.message_json import json_value
from kdump.verify.partitionentries import Partition, PartitionEntries


def named_partitions(logs: PartitionEntries, paths: tuple[str, ...]) -> list[Partition]:
    """The partitions that paths name themselves, not through the log directory that they are in."""
    wanted = {_last(path) for path in paths}
    return [partition for partition in logs.partitions if _last(partition.name) in wanted]


def _last(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return name if parse_partition_directory(name) is not None else ""


def key_rows(
    logs: PartitionEntries,
    partition: Partition,
    at: int | None,
    decoders: DecoderChoice,
    on_error: OnError,
) -> Iterator[dict[str, Any]]:
    """A row of each key that has a value at a time (ms since 1970; None: now), sorted by the bytes of the key.

    What does not decode stays bytes. Raises as ``DecoderChoice.decoder``.
    """
    state = NewestValues(at)
    context = partition.logs[0].context
    for log in partition.logs:
        try:
            for entries in logs.of(log):
                state.update(entries)
        except KdumpError as error:
            on_error(error.located(log.context.file))
    decoder = decoders.decoder(context.topic)
    for key, stored in sorted(state.newest.items()):
        if stored.value is None:
            continue
        shown_key, shown_value = _decoded(decoder, key, stored.value)
        yield {
            "topic": context.topic,
            "partition": context.partition,
            "key": shown_key,
            "value": shown_value,
            "offset": stored.offset,
            "timestamp": stored.timestamp,
        }


def _decoded(decoder: RecordDecoder | None, key: bytes, value: bytes) -> tuple[Any, Any]:
    if decoder is None:
        return key, value
    found = decoder.decode(key, value)
    shown_key, shown_value = (part if isinstance(part, bytes) else json_value(part) for part in found)
    return shown_key, shown_value
