"""What Kafka's own readers do at a damaged position, in one sentence each.

Source: docs/spec/dump-output.md#9-damaged-logs, docs/spec/recovery.md; both were checked against the real code. "The
tool" is DumpLogSegments; "recovery" is what a broker does to a segment it cannot trust.
"""

from __future__ import annotations

from typing import Final

RECOVERY_IGNORES: Final = "Recovery does not look inside."

RECOVERY_READS_MARKERS: Final = (
    "Recovery reads the first record of a producer's marker batch. If it cannot, it truncates the log after the batch."
)

WRONG_CRC: Final = "The tool prints isvalid: false and goes on. Recovery truncates the log to where this entry begins."
WRONG_LENGTH: Final = (
    "The tool prints isvalid: false; with records it ends with an InvalidRecordException. Recovery truncates the log "
    "to where this batch begins."
)
WRONG_INNER_CRC: Final = f"The tool prints isValid: false and goes on. {RECOVERY_IGNORES}"
LENGTH_TOO_SMALL: Final = (
    "The tool ends with a CorruptRecordException. Recovery truncates the log to where these bytes begin."
)
TRAILING: Final = (
    "The tool prints 'Found {size} invalid bytes at the end'. Recovery truncates the log to where these bytes begin."
)
NEGATIVE_MAGIC: Final = "The tool ends with 'Invalid magic used in LegacyRecord: {magic}'."
LOW_MAGIC: Final = (
    "Readers take it for a message: the tool prints isvalid: false; with records it ends with an exception. Recovery "
    "truncates the log to where this batch begins."
)
HIGH_MAGIC: Final = "Readers take 3 to 127 for 2 (the tool prints magic: {magic}), recovery too."
SHORT_BATCH: Final = (
    "The tool reads the header on into the bytes after it and prints isvalid: false; with records it ends with an "
    "IndexOutOfBoundsException. Recovery truncates the log to where this batch begins."
)
UNKNOWN_CODEC: Final = f"The tool ends with 'Unknown compression type id: {{codec}}'. {RECOVERY_IGNORES}"
UNDECOMPRESSABLE: Final = f"The tool ends with a KafkaException after the batch line. {RECOVERY_IGNORES}"

_INVALID_RECORD: Final = "The tool ends with an InvalidRecordException ('{}'). " + RECOVERY_IGNORES

COUNT_TOO_HIGH: Final = _INVALID_RECORD.format("Incorrect declared batch size, premature EOF reached")
COUNT_TOO_LOW: Final = _INVALID_RECORD.format("Incorrect declared batch size, records still remaining in file")
COUNT_NEGATIVE: Final = _INVALID_RECORD.format("Found invalid record count {count} in magic v2 batch")
RECORD_LENGTH: Final = _INVALID_RECORD.format("Invalid record size: expected {size} bytes in record payload, but ...")
RECORD_STRUCTURE: Final = _INVALID_RECORD.format("Found invalid record structure")
RECORD_FIELDS: Final = _INVALID_RECORD.format(
    "Invalid record size: expected to read {size} bytes in record payload, but instead read {read}"
)
HEADER_COUNT: Final = _INVALID_RECORD.format("Found invalid number of record headers ...")
HEADER_KEY: Final = _INVALID_RECORD.format("Invalid negative header key size {size}")
CONTROL: Final = (
    "The tool ends with an exception inside the record line. Recovery reads the first marker of a batch: depending on "
    "what is wrong it truncates the log after the batch or fails."
)
LEGACY_FIELDS: Final = f"The tool ends with an exception: a field reaches beyond the message. {RECOVERY_IGNORES}"
WRAPPER: Final = f"The tool ends with an exception after the wrapper's line. {RECOVERY_IGNORES}"
CUT_INNER: Final = "Readers drop a cut last inner message without an error."
