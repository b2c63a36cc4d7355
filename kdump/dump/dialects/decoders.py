"""Records of coordinators in the words of older versions of DumpLogSegments.

Source: docs/spec/dump-output.md#11-differences-between-tool-versions, and ``GroupMetadataManager`` and
``TransactionLog`` of these versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.dump.text.decoders import DELETED, ContentsDecoder, JavaNames, LineContents, contents_decoder
from kdump.dump.text.remotemetadata import remote_metadata_text_3_9
from kdump.format.legacy import ContentSizeError, Message
from kdump.format.message import schemas
from kdump.format.record import Headers
from kdump.payloads.decoded import DecodeErrorKind, PayloadError, RecordDecoder
from kdump.payloads.internal import CoordinatorDecoder, DecodedMessage, MetadataDecoder, member_message
from kdump.payloads.message_json import json_text
from kdump.payloads.registry import PlainRecordDecoder
from kdump.payloads.scala import Partition, map_order_212, map_order_213, set_order_212, set_order_213
from kdump.releases import KAFKA_4_3

_EMPTY: Final = 0
_CONSUMER: Final = "consumer"

_Text = Callable[[dict[str, Any]], str]
"""The text of a message's members."""


class _Words(NamedTuple):
    """What the records of a coordinator look like in one version."""

    keys: dict[str, _Text]
    """By the name of the key's schema."""
    values: dict[str, _Text]
    """By the name of the value's schema."""
    tombstones_shown: bool = True
    """False: a line shows nothing of them."""
    unknown_key: str | None = None
    """Of an unknown type ``number``; None: the tool stops at it."""


class _CoordinatorWords:
    """The decoder of one coordinator in one version."""

    coordinator = None
    in_columns = False

    def __init__(self, decoder: CoordinatorDecoder, words: _Words) -> None:
        self._decoder = decoder
        self._words = words

    def contents(self, offset: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> LineContents:
        """See ContentsDecoder."""
        words = self._words
        if value is None and not words.tombstones_shown:
            return LineContents(None, None)
        if key is None:
            raise DamageError(Codes.DECODER, f"offset {offset}: the record has no key, its decoder needs one")
        try:
            message = self._decoder.key(key)
            key_text = words.keys[message.schema.name](message.values)
        except (PayloadError, KeyError) as error:
            is_unknown = isinstance(error, KeyError) or error.trouble is DecodeErrorKind.UNKNOWN_TYPE
            number = int.from_bytes(key[:2], "big", signed=True)
            if words.unknown_key is None or not is_unknown:
                raise DamageError(Codes.DECODER, f"offset {offset}: the key does not decode (type {number})") from None
            return LineContents(words.unknown_key.format(number=number), None)
        if value is None:
            return LineContents(key_text, DELETED)
        decoded: DecodedMessage = self._decoder.value(message.record_type, value)
        return LineContents(key_text, words.values[decoded.schema.name](decoded.values))

    def ill_fitting(self, offset: int, message: Message, error: ContentSizeError) -> LineContents:
        """See ContentsDecoder: the tool stops."""
        raise error


def _offset(values: dict[str, Any]) -> str:
    return f"{values['offset']}{':' if values['metadata'] else ''}{values['metadata']}"


def _named_offset(values: dict[str, Any]) -> str:
    return f"offset={values['offset']}{',metadata=' if values['metadata'] else ''}{values['metadata']}"


def _group(values: dict[str, Any]) -> str:
    # The group's protocol type is that of its members.
    protocol_type = values["protocolType"] if values["members"] else ""
    protocol = "null" if values["protocol"] is None else values["protocol"]
    return f"{protocol_type}:{protocol}:{values['generation']}:{_assignment(values, map_order_212)}"


def _group_json(values: dict[str, Any], order: Callable[[list[str]], list[str]]) -> str:
    return json_text(
        {
            "protocolType": values["protocolType"] or "",
            "protocol": values["protocol"],
            "generationId": values["generation"],
            "assignment": _assignment(values, order),
        }
    )


def _assignment(values: dict[str, Any], order: Callable[[list[str]], list[str]]) -> str:
    """What the members of a group were given. They come out of a hash map."""
    members = {member["memberId"]: member["assignment"] or b"" for member in values["members"]}
    shown = _partitions if values["protocolType"] == _CONSUMER else _hex
    return "{" + ",".join(f"{name}={shown(members[name])}" for name in order(list(members))) + "}"


def _partitions(assignment: bytes) -> str:
    values: dict[str, Any] = member_message(schemas()["ConsumerProtocolAssignment"], assignment)
    partitions = [
        f"{topic['topic']}-{partition}" for topic in values["assignedPartitions"] for partition in topic["partitions"]
    ]
    user_data = _hex(values["userData"] or b"")
    return f"[{', '.join(partitions)}]{':' if user_data else ''}{user_data}"


def _hex(data: bytes) -> str:
    """One number, as Java's BigInteger writes it."""
    return f"{int.from_bytes(data, 'big'):X}" if data else ""


def _transaction(values: dict[str, Any], partitions: Callable[[list[list[Partition]]], str]) -> str:
    state = values["transactionStatus"]
    names = KAFKA_4_3.transaction_states
    if not 0 <= state < len(names):
        raise DamageError(Codes.DECODER, f"unknown transaction state {state}")
    added = [] if state == _EMPTY else values["transactionPartitions"] or []
    return (
        f"producerId:{values['producerId']},producerEpoch:{values['producerEpoch']},state={names[state]},"
        f"partitions={partitions([[(topic['topic'], number) for number in topic['partitionIds']] for topic in added])},"
        f"txnLastUpdateTimestamp={values['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={values['transactionTimeoutMs']}"
    )


def _set_text(partitions: list[list[Partition]]) -> str:
    return f"Set({', '.join(f'{topic}-{number}' for topic, number in set_order_212(partitions))})"


def _list_text(partitions: list[list[Partition]]) -> str:
    return f"[{','.join(f'{topic}-{number}' for topic, number in set_order_213(partitions))}]"


def _offsets(key: str, offset: _Text) -> tuple[dict[str, _Text], dict[str, _Text]]:
    """Of committed offsets, whose keys have two versions."""
    names = "LegacyOffsetCommit", "OffsetCommit"
    return {f"{name}Key": _template(key) for name in names}, {f"{name}Value": offset for name in names}


def _template(text: str) -> _Text:
    return text.format_map


_OLD_KEYS, _OLD_OFFSETS = _offsets("offset::{group}:{topic}:{partition}", _offset)
_NAMED_KEYS, _NAMED_OFFSETS = _offsets("offset_commit::group={group},partition={topic}-{partition}", _named_offset)

_OFFSETS_0_10: Final = _Words(
    _OLD_KEYS | {"GroupMetadataKey": _template("metadata::{group}")},
    _OLD_OFFSETS | {"GroupMetadataValue": _group},
    tombstones_shown=False,
)
_OFFSETS_1_1: Final = _Words(
    _OLD_KEYS | {"GroupMetadataKey": lambda values: json_text({"metadata": values["group"]})},
    _OLD_OFFSETS | {"GroupMetadataValue": lambda values: _group_json(values, map_order_212)},
    tombstones_shown=False,
)
_OFFSETS_2_8: Final = _Words(
    _NAMED_KEYS | {"GroupMetadataKey": _template("group_metadata::group={group}")},
    _NAMED_OFFSETS | {"GroupMetadataValue": lambda values: _group_json(values, map_order_213)},
)
_TRANSACTIONS_1_1: Final = _Words(
    {"TransactionLogKey": _template("transactionalId={transactionalId}")},
    {"TransactionLogValue": lambda values: _transaction(values, _set_text)},
)
_TRANSACTIONS_2_8: Final = _Words(
    {"TransactionLogKey": _template("transaction_metadata::transactionalId={transactionalId}")},
    {"TransactionLogValue": lambda values: _transaction(values, _list_text)},
)
_NAMES_4_3: Final = JavaNames(names_states=False)
_NAMES_4_1: Final = _NAMES_4_3._replace(record_class="org.apache.kafka.common.record.Record")
_NAMES_3_9: Final = _NAMES_4_1._replace(remote_metadata=remote_metadata_text_3_9)
_TRANSACTIONS_3_9: Final = _TRANSACTIONS_2_8._replace(unknown_key="unknown::version={number}")


def _as_4_3(decoder: RecordDecoder, names: JavaNames, *, goes_on: bool) -> ContentsDecoder:
    """With the messages that Kafka 4.3 knew, which are those of the versions before, too."""
    if isinstance(decoder, CoordinatorDecoder | MetadataDecoder):
        decoder = replace(decoder, release=KAFKA_4_3.name)
    return contents_decoder(decoder, goes_on=goes_on, names=names)


_WORDS: Final[dict[str, dict[str, _Words]]] = {
    "0.8.2": {},
    "0.10.2": {"offsets": _OFFSETS_0_10},
    "1.0": {"offsets": _OFFSETS_1_1, "transaction-log": _TRANSACTIONS_1_1},
    "1.1": {"offsets": _OFFSETS_1_1, "transaction-log": _TRANSACTIONS_1_1},
    "2.8": {"offsets": _OFFSETS_2_8, "transaction-log": _TRANSACTIONS_2_8},
    "3.9": {"transaction-log": _TRANSACTIONS_3_9},
}
"""By version and coordinator. What has no words here is shown as Kafka 4.3 shows it, or from 3.9 back not at all."""
_NAMES: Final = {"3.9": _NAMES_3_9, "4.1": _NAMES_4_1, KAFKA_4_3.name: _NAMES_4_3}


def older_decoder(version: str, decoder: RecordDecoder, *, goes_on: bool) -> ContentsDecoder | None:
    """See ``Dialect.contents_decoder``."""
    words = _WORDS.get(version, {})
    if isinstance(decoder, PlainRecordDecoder):
        return contents_decoder(decoder)
    if isinstance(decoder, CoordinatorDecoder) and decoder.name in words:
        return _CoordinatorWords(decoder, words[decoder.name])
    return _as_4_3(decoder, _NAMES[version], goes_on=goes_on) if version in _NAMES else None
