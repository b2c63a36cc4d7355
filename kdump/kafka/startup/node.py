"""What stops a node before it loads its partitions: meta.properties, and the files of the metadata log.

Source: docs/spec/startup.md#rule-30-the-node (MetaPropertiesEnsemble, FileQuorumStateStore, KafkaRaftLog).
"""

from __future__ import annotations

import json
import os
from itertools import islice
from typing import Final, NamedTuple

from kdump.codes import DamageError
from kdump.format.checkpoint import META_PROPERTIES, QUORUM_STATE, is_uuid, parse_meta_properties
from kdump.kafka.image.faults import Grade
from kdump.kafka.image.metadatalog import MetadataLog
from kdump.kafka.image.replay import StatePoint, replay
from kdump.kafka.startup.outcome import (
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    NULL_POINTER,
    NUMBER_FORMAT,
    RUNTIME,
    UNCHECKED_IO,
    StartFailureError,
)
from kdump.log import files
from kdump.log.names import METADATA_DIRECTORY
from kdump.log.opening import read_whole
from kdump.releases import Release

_INT: Final = 2**31
_LONG: Final = 2**63


class NodeRefusal(NamedTuple):
    """A file because of which a node stops; with ``is_io`` only the log directory goes offline."""

    path: str
    java_class: str
    message: str
    is_io: bool = False


def node_refusals(directory: str, release: Release) -> list[NodeRefusal]:
    """What a node refuses in a log directory.

    A log directory without a meta.properties and without a metadata log may be a copy of partitions: nothing is said.

    Raises:
        KdumpError: a file cannot be read.
    """
    found = []
    node_id = None
    metadata = os.path.join(directory, METADATA_DIRECTORY)
    has_metadata = files.is_directory(metadata)
    path = os.path.join(directory, META_PROPERTIES)
    if files.exists(path):
        try:
            node_id = parse_meta_properties(read_whole(path)).node_id
        except DamageError as error:
            found.append(NodeRefusal(path, RUNTIME, f"meta.properties is refused: {error.message}", not has_metadata))
    elif has_metadata:
        found.append(NodeRefusal(path, RUNTIME, "there is no meta.properties"))
    if has_metadata:
        found += _metadata_refusals(metadata, node_id, release)
    return found


def _metadata_refusals(directory: str, node_id: int | None, release: Release) -> list[NodeRefusal]:
    found = []
    path = os.path.join(directory, QUORUM_STATE)
    if files.exists(path):
        try:
            check_quorum_state(read_whole(path))
        except StartFailureError as error:
            found.append(NodeRefusal(path, error.java_class, f"quorum-state is refused: {error.message}"))
    replayed = replay(MetadataLog.of(directory), StatePoint(), release=release)
    if replayed.lost_before is not None and not replayed.refused:
        message = f"the metadata log starts at offset {replayed.lost_before}, and no snapshot has what was before it"
        found.append(NodeRefusal(directory, ILLEGAL_STATE, message))
    for snapshot, why in replayed.refused[:1]:
        found.append(NodeRefusal(snapshot.path, RUNTIME, f"the latest snapshot cannot be loaded: {why}"))
    unreadable = replayed.unreadable
    if unreadable is not None and not unreadable.is_cut:
        message = f"the metadata log cannot be loaded: offset {unreadable.offset}: {unreadable}"
        found.append(NodeRefusal(unreadable.path, RUNTIME, message))
    if node_id in {voter["voterId"] for voter in replayed.quorum.voters}:
        for fault in islice((one for one in replayed.faults if one.grade is Grade.IMAGE), 1):
            message = f"the metadata log cannot be loaded: offset {fault.offset}: {fault.message}"
            found.append(NodeRefusal(directory, RUNTIME, message))
    return found


def check_quorum_state(data: bytes) -> None:
    """Read quorum-state as a node does: the first line, a JSON object with all fields of its version.

    Raises:
        StartFailureError: the node stops.
    """
    members = _first_object(data)
    version = members.get("data_version")
    if version is None and "data_version" not in members:
        raise StartFailureError(UNCHECKED_IO, "it has no data_version")
    number = int(version) if isinstance(version, int | float) and not isinstance(version, bool) else 0
    number = (number + 2**15) % 2**16 - 2**15
    if number not in (0, 1):
        raise StartFailureError(ILLEGAL_STATE, f"its data_version is {number}")
    if number == 0:
        _text(members, "clusterId")
    for name in ("leaderId", "leaderEpoch", "votedId"):
        _integer(members, name, _INT)
    if number == 1:
        if not is_uuid(_text(members, "votedDirectoryId")):
            raise StartFailureError(ILLEGAL_ARGUMENT, "its votedDirectoryId is no id")
        if members.get("currentVoters"):
            raise StartFailureError(RUNTIME, "it has currentVoters, which its version does not have")
    else:
        _integer(members, "appliedOffset", _LONG)
        _voters(members)


def _voters(members: dict[str, object]) -> None:
    voters = _field(members, "currentVoters")
    if voters is None:
        raise StartFailureError(NULL_POINTER, "its currentVoters are null")
    if not isinstance(voters, list):
        raise StartFailureError(RUNTIME, "its currentVoters are no array")
    for voter in voters:
        _integer(voter if isinstance(voter, dict) else {}, "voterId", _INT)


def _first_object(data: bytes) -> dict[str, object]:
    try:
        line = next(iter(data.decode().splitlines()), None)
    except UnicodeDecodeError:
        raise StartFailureError(UNCHECKED_IO, "it is no text") from None
    if line is None:
        raise StartFailureError(UNCHECKED_IO, "it is empty")
    try:
        value, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(line.strip(" \t"))
    except (ValueError, RecursionError):
        raise StartFailureError(UNCHECKED_IO, "its first line is no JSON object") from None
    if not isinstance(value, dict):
        raise StartFailureError(UNCHECKED_IO, "its first line is no JSON object")
    return value


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _field(members: dict[str, object], name: str) -> object:
    if name not in members:
        raise StartFailureError(RUNTIME, f"it has no {name}")
    return members[name]


def _text(members: dict[str, object], name: str) -> str:
    value = _field(members, name)
    if not isinstance(value, str):
        raise StartFailureError(RUNTIME, f"its {name} is no text")
    return value


def _integer(members: dict[str, object], name: str, limit: int) -> None:
    value = _field(members, name)
    if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
        raise StartFailureError(NUMBER_FORMAT, f"its {name} is no number that fits")
