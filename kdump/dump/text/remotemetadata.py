"""Records of ``__remote_log_metadata`` in the words of Kafka's Java classes (``toString``), and what these refuse.

Source: docs/spec/decoders.md#5-remote-log-metadata-decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kdump.payloads.internal import DecodedMessage

_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_TXN_INDEX: Final = ", txnIdxEmpty="
_PARTITION_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


class RefusedError(Exception):
    """A message decodes, but Kafka's classes do not take what it says; the text is theirs."""


def remote_metadata_text(message: DecodedMessage) -> str:
    """One record. RefusedError where the Java tool prints an error."""
    return _TEXTS[message.schema.name](message.values)


def remote_metadata_text_3_9(message: DecodedMessage) -> str:
    """The text up to 3.9, whose segments do not say whether they have aborted transactions."""
    text = remote_metadata_text(message)
    return f"{text.partition(_TXN_INDEX)[0]}}}" if _TXN_INDEX in text else text


def _segment(values: dict[str, Any]) -> str:
    _check_range(values)
    _check_epochs(values)
    return (
        f"RemoteLogSegmentMetadata{{{_segment_id(values)}, startOffset={values['startOffset']}, "
        f"endOffset={values['endOffset']}, brokerId={values['brokerId']}, "
        f"maxTimestampMs={values['maxTimestampMs']}, eventTimestampMs={values['eventTimestampMs']}, "
        f"{_epochs(values)}, segmentSizeInBytes={values['segmentSizeInBytes']}, "
        f"{_custom(values)}, {_segment_state(values)}{_txn_index(values)}}}"
    )


def _update(values: dict[str, Any]) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{{_segment_id(values)}, {_custom(values)}, {_segment_state(values)}, "
        f"eventTimestampMs={values['eventTimestampMs']}, brokerId={values['brokerId']}}}"
    )


def _delete(values: dict[str, Any]) -> str:
    state = values["remotePartitionDeleteState"]
    if not 0 <= state < len(_PARTITION_STATES):
        raise RefusedError("null")
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_partition(values['topicIdPartition'])}, "
        f"state={_PARTITION_STATES[state]}, eventTimestampMs={values['eventTimestampMs']}, "
        f"brokerId={values['brokerId']}}}"
    )


def _snapshot(values: dict[str, Any]) -> str:
    state = _segment_state(values)
    _check_epochs(values)
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={values['segmentId']}, startOffset={values['startOffset']}, "
        f"endOffset={values['endOffset']}, maxTimestampMs={values['maxTimestampMs']}, {_epochs(values)}, "
        f"segmentSizeInBytes={values['segmentSizeInBytes']}, {_custom(values)}, {state}"
        f"{_txn_index(values)}}}"
    )


_TEXTS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _update,
    "RemotePartitionDeleteMetadataRecord": _delete,
    "RemoteLogSegmentMetadataSnapshotRecord": _snapshot,
}


def _check_range(values: dict[str, Any]) -> None:
    start, end = values["startOffset"], values["endOffset"]
    if start < 0:
        raise RefusedError(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if end < start:
        raise RefusedError(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )


def _check_epochs(values: dict[str, Any]) -> None:
    if not values["segmentLeaderEpochs"]:
        raise RefusedError("segmentLeaderEpochs can not be null or empty")


def _segment_id(values: dict[str, Any]) -> str:
    found = values["remoteLogSegmentId"]
    partition = _partition(found["topicIdPartition"])
    return f"remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={partition}, id={found['id']}}}"


def _partition(values: dict[str, Any]) -> str:
    return f"{values['id']}:{values['name']}-{values['partition']}"


def _epochs(values: dict[str, Any]) -> str:
    """A map in the order of its keys; of an epoch that is there twice the last entry counts."""
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in values["segmentLeaderEpochs"]}
    return f"segmentLeaderEpochs={{{', '.join(f'{epoch}={epochs[epoch]}' for epoch in sorted(epochs))}}}"


def _custom(values: dict[str, Any]) -> str:
    data = values["customMetadata"]
    return f"customMetadata=Optional{'.empty' if data is None else f'[CustomMetadata{{{len(data)} bytes}}]'}"


def _segment_state(values: dict[str, Any]) -> str:
    state = values["remoteLogSegmentState"]
    if not 0 <= state < len(_SEGMENT_STATES):
        raise RefusedError("state can not be null")
    return f"state={_SEGMENT_STATES[state]}"


def _txn_index(values: dict[str, Any]) -> str:
    return f"{_TXN_INDEX}{'true' if values['txnIndexEmpty'] else 'false'}"
