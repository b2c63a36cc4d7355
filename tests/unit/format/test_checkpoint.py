"""format.checkpoint: the text files, and what a broker refuses in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError
from kdump.format import checkpoint
from kdump.format.checkpoint import CheckpointEntry, EpochEntry, MetaProperties
from tests.harness.captures import Captures

TOPIC_ID = b"f6And08oSwep04PoOtraAQ"
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 1)
TOPIC = st.text("abcXYZ019._-", min_size=1, max_size=20)


@given(st.lists(st.builds(CheckpointEntry, TOPIC, INT32, INT64), max_size=5))
def test_offset_checkpoint(entries: list[CheckpointEntry]) -> None:
    lines = [f"{topic} {partition} {offset}" for topic, partition, offset in entries]
    data = "\n".join(["0", str(len(entries)), *lines, ""]).encode()
    assert checkpoint.parse_offset_checkpoint(data) == entries


@given(st.lists(st.builds(EpochEntry, INT32, INT64), max_size=5))
def test_leader_epoch_checkpoint(entries: list[EpochEntry]) -> None:
    data = "\n".join(["0", str(len(entries)), *(f"{epoch}\t{offset}" for epoch, offset in entries)]).encode()
    assert checkpoint.parse_leader_epoch_checkpoint(data) == entries


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\n0\n"])
def test_without_entries(data: bytes) -> None:
    assert checkpoint.parse_leader_epoch_checkpoint(data) == []


def test_meta_properties() -> None:
    zookeeper = b"#\n#Sat Nov 21 10:22:06 UTC 2026\nbroker.id=0\nversion=0\n"
    assert checkpoint.parse_meta_properties(zookeeper) == MetaProperties(0, None, 0, None)
    kraft = b"! x\n node.id : 1\ncluster.id = a\\u0062\\\n  c\\=d\nversion 1\ndirectory.id=" + TOPIC_ID + b"\n"
    assert checkpoint.parse_meta_properties(kraft) == MetaProperties(1, "abc=d", 1, TOPIC_ID.decode())


def test_partition_metadata() -> None:
    data = b"version: 0\ntopic_id: " + TOPIC_ID
    assert checkpoint.parse_topic_id(data) == TOPIC_ID.decode()


def test_quorum_state() -> None:
    data = b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    assert checkpoint.parse_quorum_state(data) == (1, 2)


def test_clean_shutdown() -> None:
    assert checkpoint.parse_clean_shutdown(b"") is None
    assert checkpoint.parse_clean_shutdown(b'{"version":0,"brokerEpoch":12}') == 12


@pytest.mark.parametrize(
    ("parse", "data", "position"),
    [
        (checkpoint.parse_leader_epoch_checkpoint, b"1\n0\n", 0),
        (checkpoint.parse_leader_epoch_checkpoint, b"x\n", 0),
        (checkpoint.parse_leader_epoch_checkpoint, b"0\n2\n0 0\n", 2),
        (checkpoint.parse_leader_epoch_checkpoint, b"0\n-1\n", 2),
        (checkpoint.parse_leader_epoch_checkpoint, b"0\n1\n0 0 0\n", 4),
        (checkpoint.parse_leader_epoch_checkpoint, b"0\n1\n0 -5\n", 4),
        (checkpoint.parse_leader_epoch_checkpoint, b"0\n1\n\n0 0\n", 4),
        (checkpoint.parse_leader_epoch_checkpoint, b"0\n1\n0 9223372036854775808\n", 4),
        (checkpoint.parse_leader_epoch_checkpoint, b"0\n1\n\xff 0\n", 4),
        (checkpoint.parse_leader_epoch_checkpoint, bytes(12), 0),
        (checkpoint.parse_offset_checkpoint, b"0\n1\ntopic 0\n", 4),
        (checkpoint.parse_offset_checkpoint, b"0\n1\ntopic 1_0 5\n", 4),
        (checkpoint.parse_topic_id, b"version: 0\n", 11),
        (checkpoint.parse_topic_id, b"version: 1\ntopic_id: " + TOPIC_ID, 0),
        (checkpoint.parse_topic_id, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 11),
        (checkpoint.parse_topic_id, b"version: 0\ntopic_id: " + TOPIC_ID[1:], 11),
        (checkpoint.parse_topic_id, b"version=0\n", 0),
        (checkpoint.parse_meta_properties, b"", 0),
        (checkpoint.parse_meta_properties, b"version=2\nnode.id=1\n", 0),
        (checkpoint.parse_meta_properties, b"version=1\ncluster.id=a\n", 0),
        (checkpoint.parse_meta_properties, b"version=1\nnode.id=1\n", 0),
        (checkpoint.parse_meta_properties, b"version=1\nnode.id=1\ncluster.id=a\ndirectory.id=?\n", 0),
        (checkpoint.parse_meta_properties, b"version=one\n", 0),
        (checkpoint.parse_quorum_state, b"", 0),
        (checkpoint.parse_quorum_state, b"[" * 100_000, 0),
        (checkpoint.parse_quorum_state, b"[]", 0),
        (checkpoint.parse_quorum_state, b'{"leaderId":true,"leaderEpoch":2,"votedId":-1,"data_version":1}', 0),
        (checkpoint.parse_quorum_state, b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":7}', 0),
        (checkpoint.parse_clean_shutdown, b'{"version":0}', 0),
    ],
)
def test_refused(parse: Callable[[bytes], object], data: bytes, position: int) -> None:
    with pytest.raises(DamageError) as caught:
        parse(data)
    assert (caught.value.code, caught.value.position) == (Codes.TEXT_FILE, position)


PARSERS = (
    checkpoint.parse_offset_checkpoint,
    checkpoint.parse_leader_epoch_checkpoint,
    checkpoint.parse_topic_id,
    checkpoint.parse_meta_properties,
    checkpoint.parse_quorum_state,
    checkpoint.parse_clean_shutdown,
)


@given(st.binary(max_size=60) | st.text("01 \n:=\\version{}", max_size=40).map(str.encode))
def test_any_bytes(data: bytes) -> None:
    for parse in PARSERS:
        error = refusal(parse, data)
        assert error is None or (error.code is Codes.TEXT_FILE and error.position is not None)


def refusal(parse: Callable[[bytes], object], data: bytes) -> DamageError | None:
    try:
        parse(data)
    except DamageError as error:
        return error
    return None


def test_captures(captures: Captures) -> None:
    by_name: dict[str, Callable[[bytes], object]] = {
        checkpoint.LEADER_EPOCH_CHECKPOINT: checkpoint.parse_leader_epoch_checkpoint,
        checkpoint.PARTITION_METADATA: checkpoint.parse_topic_id,
        checkpoint.QUORUM_STATE: checkpoint.parse_quorum_state,
        checkpoint.META_PROPERTIES: checkpoint.parse_meta_properties,
    }
    found = 0
    for path in sorted(captures.root.glob("[0-9]*/*/*")):
        parse = by_name.get(path.name)
        if path.name.endswith("-offset-checkpoint"):
            parse = checkpoint.parse_offset_checkpoint
        if parse:
            parse(path.read_bytes())
            found += 1
    assert found


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b" ", b"\x0b", b"\x85"])).map(b"".join))
def test_lines_end_as_those_of_bytes_do(data: bytes) -> None:
    """Also where a line is not UTF-8: the position is that of the byte."""
    wanted = []
    for line in data.splitlines(keepends=True):
        wanted.append(line)
        if b"\x85" in line:
            break
    lines = checkpoint._lines(data)
    position = 0
    for line in wanted:
        if b"\x85" in line:
            with pytest.raises(DamageError, match="not UTF-8") as caught:
                next(lines)
            assert caught.value.position == position + line.index(b"\x85")
            return
        assert next(lines) == (position, line.rstrip(b"\r\n").decode())
        position += len(line)
    assert not list(lines)
