"""The names of topics by their ids, as the metadata logs beside the files of a command tell them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kdump.codes import KdumpError
from kdump.format.record import Headers
from kdump.log import files
from kdump.log.named import STDIN
from kdump.log.names import METADATA_DIRECTORY, parse_partition_directory
from kdump.payloads.decoded import Decoded, RecordDecoder

if TYPE_CHECKING:
    from kdump.kafka.image.copies import MetadataCopy

_ID: Final = "topicId"
"""The member of a decoded message that holds the id of a topic."""
_NAMES: Final = frozenset({"name", "topicName"})
"""Members that hold the name already."""


class TopicNames:
    """Looks names up. A metadata log is read once, and only when a name is first asked for.

    A name is known where the metadata log lies in the log directory of the file that has the id, or in another one
    among the paths that is of the same cluster. Topics that were deleted keep their names.

    Args:
        paths: files and directories that were named; a log directory among them may hold the metadata log.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = [path for path in paths if path != STDIN]
        self._by_cluster: dict[str | None, dict[str, str]] | None = None
        self._by_directory: dict[str, dict[str, str]] = {}
        self._by_place: dict[str, dict[str, str]] = {}
        """Those of its log directory, which may have thousands of places."""

    def of(self, topic_id: str, place: str) -> str | None:
        """The name of a topic; None where it is not known.

        Args:
            topic_id: in 22 characters.
            place: the file or directory that has the id.
        """
        if place not in self._by_place:
            self._by_place[place] = {} if place == STDIN else self._names_in(_log_directory(place))
        return self._by_place[place].get(topic_id)

    def text(self, topic_id: str, place: str) -> str:
        """The id for people, with the name where that is known."""
        name = self.of(topic_id, place)
        return topic_id if name is None else f"{topic_id} ({name})"

    def _names_in(self, directory: str) -> dict[str, str]:
        if directory not in self._by_directory:
            self._by_directory[directory] = self._read_at(directory)
        return self._by_directory[directory]

    def _read_at(self, directory: str) -> dict[str, str]:
        from kdump.kafka.image.copies import find_copies, read_properties

        try:
            if files.is_directory(os.path.join(directory, METADATA_DIRECTORY)):
                return _read(find_copies([directory], _pass_over), {})
            if self._by_cluster is None:
                self._by_cluster = {}
                places = dict.fromkeys(map(_log_directory, self._paths))
                for copy in find_copies(places, _pass_over):
                    if copy.cluster_id is not None:
                        _read([copy], self._by_cluster.setdefault(copy.cluster_id, {}))
            known = read_properties(directory) if self._by_cluster else None
        except KdumpError:
            return {}
        return {} if known is None else self._by_cluster.get(known.cluster_id, {})


class NamingDecoder:
    """A decoder for people: ids of topics have their names beside them.

    Args:
        decoder: of an internal topic.
        names: the names.
        place: the file whose records are decoded.
    """

    def __init__(self, decoder: RecordDecoder, names: TopicNames, place: str) -> None:
        self._decoder = decoder
        self._names = names
        self._place = place

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Decoded:
        """See RecordDecoder."""
        decoded = self._decoder.decode(key, value)
        return Decoded(self._named(decoded.key), self._named(decoded.value), decoded.findings)

    def _named(self, value: Any) -> Any:
        match value:
            case dict():
                return {
                    name: self._names.text(item, self._place)
                    if name == _ID and isinstance(item, str) and not _NAMES & value.keys()
                    else self._named(item)
                    for name, item in value.items()
                }
            case list():
                return [self._named(item) for item in value]
        return value


def _log_directory(path: str) -> str:
    """The log directory that a path is, or lies in."""
    whole = files.absolute(path).rstrip("/")
    folder = whole if files.is_directory(whole) else files.directory_of(whole)
    return os.path.dirname(folder) if parse_partition_directory(os.path.basename(folder)) else folder


def _read(copies: Iterable[MetadataCopy], names: dict[str, str]) -> dict[str, str]:
    """The names with those that copies tell."""
    for copy in copies:
        names.update(copy.log.topic_names())
    return names


def _pass_over(error: KdumpError) -> None:
    """Names are an addition: what cannot be read has none."""
