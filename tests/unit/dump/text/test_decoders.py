"""Messages of magic 0 and 1 whose key or value does not fit them, under the decoders of internal topics.

To those of DumpLogSegments it is a key or value like any other that does not decode; what is expected here is what the
real tool (4.3.1) printed for the same bytes.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from kdump.payloads.choice import DecoderChoice
from tests.harness.batches import message
from tests.harness.dumpoptions import text_dump
from tests.harness.inprocess import run_in_process

KEY = struct.pack(">hh", 2, 1) + b"g"
NEXT = message(1, 4, KEY, None)
NEXT_SHOWN = {
    "offsets": 'key: {"type":"2","data":{"group":"g"}} payload: <DELETE>',
    "cluster-metadata": "payload: Error at 4, skipping. Error while reading frame version",
    "remote-log-metadata": (
        'payload: Error at offset 4, skipping. Cannot invoke "java.nio.ByteBuffer.remaining()" because the return '
        'value of "org.apache.kafka.common.record.internal.Record.value()" is null'
    ),
}
KEY_SIZE_AT = 26


def of_length(data: bytes, length: int) -> bytes:
    """The message cut to so many bytes, with the length and CRC that they ask for."""
    covered = data[16:length]
    return data[:8] + struct.pack(">iI", 4 + len(covered), zlib.crc32(covered)) + covered


def with_size(data: bytes, position: int, size: int) -> bytes:
    changed = data[:position] + struct.pack(">i", size) + data[position + 4 :]
    return of_length(changed, len(changed))


WHOLE = message(1, 3, KEY, b"value")
VALUE_SIZE_AT = KEY_SIZE_AT + 4 + len(KEY)
VALUE_LONG = with_size(WHOLE, VALUE_SIZE_AT, 9)
KEY_LONG = with_size(WHOLE, KEY_SIZE_AT, 100)
KEY_LONGEST = with_size(WHOLE, KEY_SIZE_AT, 2**31 - 1)
VALUE_OUTSIDE = of_length(WHOLE, VALUE_SIZE_AT + 2)
KEY_OUTSIDE = of_length(WHOLE, KEY_SIZE_AT)
NULL_KEY = with_size(message(1, 3, None, b"value"), KEY_SIZE_AT + 4, 9)


def dumped(folder: Path, decoder: str, data: bytes, *, metadata: bool = False) -> tuple[list[str], str, int]:
    """The record lines, stderr, and the exit status."""
    path = folder / "3.log"
    path.write_bytes(data + NEXT)
    options = text_dump(
        print_data_log=True, skip_record_metadata=not metadata, decoding=DecoderChoice(internal=decoder)
    )
    outcome = run_in_process([str(path)], options)
    assert outcome.failure is None
    lines = [line for line in outcome.stdout.decode().splitlines() if line.startswith("|")]
    return lines, outcome.stderr.decode(), outcome.status


@pytest.mark.parametrize(
    ("decoder", "data", "shown"),
    [
        ("offsets", VALUE_LONG, "key: Error at offset 3, skipping. newLimit > capacity: (9 > 5)"),
        ("offsets", KEY_LONG, "key: Error at offset 3, skipping. newLimit > capacity: (100 > 14)"),
        ("offsets", KEY_LONGEST, "key: Error at offset 3, skipping. newLimit > capacity: (2147483647 > 14)"),
        ("offsets", VALUE_OUTSIDE, "key: Error at offset 3, skipping. null"),
        ("cluster-metadata", VALUE_LONG, "payload: Error at 3, skipping. newLimit > capacity: (9 > 5)"),
        ("cluster-metadata", NULL_KEY, "payload: Error at 3, skipping. newLimit > capacity: (9 > 5)"),
        ("cluster-metadata", KEY_LONG, "payload: Error at 3, skipping. null"),
        ("cluster-metadata", KEY_OUTSIDE, "payload: Error at 3, skipping. null"),
        ("remote-log-metadata", VALUE_LONG, "payload: Error at offset 3, skipping. newLimit > capacity: (9 > 5)"),
        ("remote-log-metadata", KEY_LONGEST, "payload: Error at offset 3, skipping. null"),
    ],
)
def test_it_is_one_that_does_not_decode(tmp_path: Path, decoder: str, data: bytes, shown: str) -> None:
    lines, errors, status = dumped(tmp_path, decoder, data)
    assert lines == [f"| {shown}", f"| {NEXT_SHOWN[decoder]}"]
    assert "offset 3: KD209 the " in errors
    assert status == 0


@pytest.mark.parametrize(("data", "problem"), [(NULL_KEY, "missing key"), (KEY_OUTSIDE, "key size lies outside")])
def test_a_coordinators_key_has_to_be_there(tmp_path: Path, data: bytes, problem: str) -> None:
    lines, errors, status = dumped(tmp_path, "offsets", data)
    assert lines == []
    assert problem in errors
    assert status == 1


def test_metadata_is_no_decoders_matter(tmp_path: Path) -> None:
    """The line begins with both sizes: what lies outside the message ends the run, as without a decoder."""
    assert dumped(tmp_path, "cluster-metadata", KEY_LONG, metadata=True)[::2] == ([], 1)
    lines, _, status = dumped(tmp_path, "cluster-metadata", VALUE_LONG, metadata=True)
    assert lines[0].startswith("| offset: 3 CreateTime: 1700000000000 keySize: 5 valueSize: 9 isValid: true crc: ")
    assert lines[0].endswith(" payload: Error at 3, skipping. newLimit > capacity: (9 > 5)")
    assert (len(lines), status) == (2, 0)


def test_without_a_decoder_it_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "3.log"
    path.write_bytes(VALUE_LONG + NEXT)
    outcome = run_in_process([str(path)], text_dump(print_data_log=True))
    assert b"| " not in outcome.stdout
    assert outcome.status == 1
