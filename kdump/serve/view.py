"""The topics that are served: what lies in the PATHs, as one broker that leads all of it."""

from __future__ import annotations

import hashlib
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from kdump.codes import Codes, Finding, KdumpError, OnError
from kdump.format.checkpoint import LOG_START_CHECKPOINT, parse_meta_properties, parse_offset_checkpoint
from kdump.inputs import Input, LogSegment, OtherFile, PathDirectory, file_by_name
from kdump.log import files
from kdump.log.names import META_PROPERTIES, parse_partition_directory
from kdump.log.opening import read_whole
from kdump.log.siblings import read_topic_id
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.serve.partition import ServedLog, ServedPartition
from kdump.serve.segment import ViewEnd

_MOST_MISSING: Final = 10_000
"""Numbers of partitions of a topic that are not here and are listed without a leader, as brokers do."""


@dataclass
class Topic:
    """A topic. ``topic_id``: of its partition.metadata, else one made of its name."""

    name: str
    topic_id: str
    partitions: dict[int, ServedPartition] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """A topic of Kafka itself."""
        return self.name in INTERNAL_TOPICS.values()

    def numbers(self) -> Iterable[int]:
        """The numbers of its partitions, those that are not here too."""
        highest = max(self.partitions)
        return range(highest + 1) if highest < len(self.partitions) + _MOST_MISSING else sorted(self.partitions)


class View:
    """The topics of some inputs.

    Args:
        inputs: partition directories, log directories and .log files.
        on_error: takes what cannot be read.
        on_damage: takes damage with its path, when it is met.
        until: where the view of each partition ends, by topic and partition.
        until_time: ms since 1970; the batch with such a timestamp or a later one and what follows it is left out.
    """

    def __init__(
        self,
        inputs: Iterable[Input],
        *,
        on_error: OnError,
        on_damage: Callable[[str, Finding], None],
        until: Mapping[tuple[str, int], int],
        until_time: int | None,
    ) -> None:
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[str, Topic] = {}
        self.cluster_id: str | None = None
        self.until_time = until_time
        self._on_damage = on_damage
        self._until = until
        self._log_starts: dict[str, dict[tuple[str, int], int]] = {}
        for given in inputs:
            try:
                for directory, logs, is_given in _partitions(given, on_error):
                    self._add(directory, logs, is_given=is_given)
            except KdumpError as error:
                on_error(error.located(given.path))
        self.topics = dict(sorted(self.topics.items()))

    def partition(self, topic: str, number: int) -> ServedPartition | None:
        """A partition; None: it is not here."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(number)

    def _add(self, directory: str, logs: Sequence[LogSegment], *, is_given: bool) -> None:
        path = directory if "://" in directory else files.absolute(directory)
        name = parse_partition_directory(os.path.basename(path.rstrip("/")))
        if name is None:
            raise KdumpError(Codes.NO_SEGMENTS, "is no <topic>-<n>, so that nobody knows its topic", path=directory)
        if not is_given and os.path.basename(path) != f"{name[0]}-{name[1]}":
            return
        known = self.partition(*name)
        if known is not None:
            what = f"{name[0]}-{name[1]} is served from {known.directory}"
            raise KdumpError(Codes.UNREADABLE, f"is left out: {what}", path=directory)
        above = os.path.dirname(path)
        cut = ViewEnd(self._until.get(name), self.until_time)
        found = [ServedLog(log.path, log.base_offset) for log in logs if log.base_offset is not None and not log.state]
        if not found:
            raise KdumpError(Codes.NO_SEGMENTS, "no .log with an offset in its name", path=directory)
        partition = ServedPartition(directory, found, self._log_start(above, *name), cut, self._on_damage)
        topic = self.topics.get(name[0])
        if topic is None:
            topic = Topic(name[0], read_topic_id(directory) or _id_of(name[0]))
            if topic.topic_id in self.by_id:
                topic.topic_id = _id_of(name[0])
            self.topics[name[0]] = self.by_id[topic.topic_id] = topic
        topic.partitions[name[1]] = partition

    def _log_start(self, above: str, topic: str, number: int) -> int:
        """By the checkpoint of the log directory, 0 without a line."""
        if above not in self._log_starts:
            self._log_starts[above] = {}
            with suppress(KdumpError):
                entries = parse_offset_checkpoint(read_whole(os.path.join(above, LOG_START_CHECKPOINT)))
                self._log_starts[above] = {(entry.topic, entry.partition): entry.offset for entry in entries}
            with suppress(KdumpError):
                properties = parse_meta_properties(read_whole(os.path.join(above, META_PROPERTIES)))
                self.cluster_id = self.cluster_id or properties.cluster_id
        return self._log_starts[above].get((topic, number), 0)


def _partitions(given: Input, on_error: OnError) -> Iterable[tuple[str, Sequence[LogSegment], bool]]:
    """(directory, logs, whether the user named it) of the partitions that a PATH stands for."""
    if isinstance(given, PathDirectory):
        for folder in given.partitions(on_error):
            logs = [file for file in map(file_by_name, folder.paths) if isinstance(file, LogSegment)]
            if logs:
                yield folder.path, logs, folder.is_given
    elif isinstance(given, LogSegment) and files.exists(given.path):
        yield os.path.dirname(files.absolute(given.path)), [given], True
    elif isinstance(given, OtherFile):
        raise given.error
    else:
        code = Codes.NOT_A_SEGMENT_FILE if files.exists(given.path) else Codes.MISSING
        raise KdumpError(code, code.value.title, path=given.path)


def _id_of(name: str) -> str:
    """An id for a topic that has none. It is the same in each run."""
    digest = hashlib.sha256(b"kdump serve " + os.fsencode(name)).digest()[:16]
    return urlsafe_b64encode(digest).rstrip(b"=").decode()
