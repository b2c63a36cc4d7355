"""format.control and format.message: what Kafka writes between the data."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError
from kdump.format import control
from kdump.format.control import parse_end_txn, parse_kraft, parse_type, schema_of
from kdump.format.messagereader import Value

INT16 = st.integers(-(2**15), 2**15 - 1)


def kraft(control_type: int, value: bytes | None) -> dict[str, Value]:
    schema = schema_of(control_type)
    assert schema is not None
    return parse_kraft(schema, value)


def compact(text: str) -> bytes:
    """A flexible string, shorter than 127 bytes."""
    data = text.encode()
    return bytes([len(data) + 1]) + data


@given(st.integers(0, 2**15 - 1), INT16, st.binary(max_size=5))
def test_key(version: int, control_type: int, extra: bytes) -> None:
    assert parse_type(struct.pack(">hh", version, control_type) + extra) == control_type


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_bad_key(key: bytes | None) -> None:
    with pytest.raises(DamageError) as caught:
        parse_type(key)
    assert caught.value.code is Codes.CONTROL_RECORD


@given(st.integers(0, 2**15 - 1), st.integers(-(2**31), 2**31 - 1), st.binary(max_size=5))
def test_end_txn(version: int, epoch: int, extra: bytes) -> None:
    assert parse_end_txn(struct.pack(">hi", version, epoch) + extra) == epoch


@pytest.mark.parametrize("value", [None, b"", bytes(5), struct.pack(">hi", -1, 0)])
def test_bad_end_txn(value: bytes | None) -> None:
    with pytest.raises(DamageError) as caught:
        parse_end_txn(value)
    assert caught.value.code is Codes.CONTROL_RECORD


@pytest.mark.parametrize("control_type", [-1, 0, 1, 7, 42])
def test_types_without_schema(control_type: int) -> None:
    assert schema_of(control_type) is None


def test_leader_change() -> None:
    voter_1, voter_3 = struct.pack(">ib", 1, 0), struct.pack(">ib", 3, 0)
    value = struct.pack(">hi", 0, 3) + b"\x03" + voter_1 + voter_3 + b"\x02" + voter_3 + b"\0"
    read = kraft(control.LEADER_CHANGE, value)
    assert (read["version"], read["leaderId"]) == (0, 3)
    assert isinstance(read["voters"], list)
    assert isinstance(read["grantingVoters"], list)
    assert [len(read["voters"]), len(read["grantingVoters"])] == [2, 1]


def test_snapshot_header_and_footer() -> None:
    assert kraft(control.SNAPSHOT_HEADER, struct.pack(">hq", 0, 77) + b"\0") == {
        "version": 0,
        "lastContainedLogTimestamp": 77,
    }
    assert kraft(control.SNAPSHOT_FOOTER, struct.pack(">h", 0) + b"\0") == {"version": 0}
    assert kraft(control.KRAFT_VERSION, struct.pack(">hh", 0, 1) + b"\0") == {"version": 0, "kRaftVersion": 1}


def test_voters() -> None:
    identity = bytes(range(16))
    endpoint = compact("CONTROLLER") + compact("localhost") + struct.pack(">H", 49093) + b"\0"
    voter = struct.pack(">i", 1) + identity + b"\x02" + endpoint + struct.pack(">hh", 0, 1) + b"\0" + b"\0"
    read = kraft(control.KRAFT_VOTERS, struct.pack(">h", 0) + b"\x02" + voter + b"\0")
    assert read["voters"] == [
        {
            "voterId": 1,
            "voterDirectoryId": urlsafe_b64encode(identity).rstrip(b"=").decode(),
            "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 49093}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
    ]


def test_unknown_tagged_fields_stay_as_they_are_stored() -> None:
    value = struct.pack(">hh", 0, 1) + b"\x02" + b"\x05\x03abc" + b"\x64\0"
    assert kraft(control.KRAFT_VERSION, value) == {
        "version": 0,
        "kRaftVersion": 1,
        "unknownTaggedFields": [{"tag": 5, "data": b"abc"}, {"tag": 100, "data": b""}],
    }


def test_version_field_does_not_change_how_it_is_read() -> None:
    assert kraft(control.KRAFT_VERSION, struct.pack(">hh", 9, 1) + b"\0") == {"version": 9, "kRaftVersion": 1}


def test_null_where_none_may_be() -> None:
    with pytest.raises(DamageError, match="voters was serialized as null"):
        kraft(control.LEADER_CHANGE, struct.pack(">hi", 0, 3) + b"\0\0\0")


def test_more_elements_than_bytes() -> None:
    with pytest.raises(DamageError, match="a collection of size 65534, but there are only"):
        kraft(control.LEADER_CHANGE, struct.pack(">hi", 0, 3) + b"\xff\xff\x03")


def test_no_value() -> None:
    with pytest.raises(DamageError) as caught:
        kraft(control.KRAFT_VERSION, None)
    assert caught.value.code is Codes.CONTROL_RECORD


@pytest.mark.parametrize("control_type", [control.LEADER_CHANGE, control.KRAFT_VOTERS, control.SNAPSHOT_HEADER])
@given(value=st.binary(max_size=60))
def test_rubbish_never_crashes(control_type: int, value: bytes) -> None:
    try:
        read = kraft(control_type, value)
    except DamageError:
        return
    assert "version" in read
