"""Control records, which Kafka itself writes between the data.

Source: docs/spec/formats.md#32-control-records (KIP-98 transaction markers, KIP-595/630/853 KRaft records).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kdump.codes import Codes, DamageError
from kdump.wire.cursor import Cursor

if TYPE_CHECKING:
    from kdump.format.message import Schema
    from kdump.format.messagereader import Value

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)

_SCHEMAS: Final = {
    LEADER_CHANGE: "LeaderChangeMessage",
    SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    KRAFT_VERSION: "KRaftVersionRecord",
    KRAFT_VOTERS: "VotersRecord",
}
_KEY: Final = struct.Struct(">hh")
_END_TXN: Final = struct.Struct(">hi")
KEY_SIZE: Final = _KEY.size
END_TXN_SIZE: Final = _END_TXN.size
"""Bytes of a key, and of a transaction marker's value, as brokers write them."""


def parse_type(key: bytes | None) -> int:
    """The int16 type out of a control record's key; longer keys and higher versions are read as version 0.

    Raises:
        DamageError: CONTROL_RECORD, a null or short key, or a negative version.
    """
    if key is None:
        raise _damage("it has no key")
    if len(key) < _KEY.size:
        raise _damage(f"its key has {len(key)} bytes, at least {_KEY.size} are needed")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise _damage(f"its key version is {version}")
    return int(control_type)


def parse_end_txn(value: bytes | None) -> int:
    """CoordinatorEpoch of a transaction marker's value.

    Raises:
        DamageError: CONTROL_RECORD, a null or short value, or a negative version.
    """
    if value is None:
        raise _damage("the transaction marker has no value")
    if len(value) < _END_TXN.size:
        raise _damage(f"the transaction marker's value has {len(value)} bytes, {_END_TXN.size} are needed")
    version, coordinator_epoch = _END_TXN.unpack_from(value)
    if version < 0:
        raise _damage(f"the transaction marker's version is {version}")
    return int(coordinator_epoch)


def schema_of(control_type: int, release: str | None = None) -> Schema | None:
    """The schema of a KRaft control record's value, None for other types. ``release``: see ``message.schemas``."""
    from kdump.format.message import schemas  # not needed by logs without KRaft's records

    name = _SCHEMAS.get(control_type)
    return None if name is None else (schemas(release) if release else schemas())[name]


def parse_kraft(schema: Schema, value: bytes | None) -> dict[str, Value]:
    """A KRaft control record's value, read as version 0 whatever its version field says (as brokers and tools do)."""
    from kdump.format.message import read_message  # not needed by logs without KRaft's records

    if value is None:
        raise _damage("it has no value")
    return read_message(schema, 0, Cursor(value, code=Codes.CONTROL_RECORD))


def _damage(what: str) -> DamageError:
    return DamageError(Codes.CONTROL_RECORD, f"control record: {what}")
