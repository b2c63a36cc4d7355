"""The one catalogue of what can be wrong: a stable code, its name and a title.

Findings (damage in a file) and errors (a file that cannot be looked at) carry a code from here. Codes are never
reused; messages may change, codes may not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, NoReturn, TypeAlias


class Severity(Enum):
    """What a finding means for whoever owns the data."""

    ERROR = "error"
    """Data is lost or wrong, or Kafka's recovery cuts or fails there."""
    WARNING = "warning"
    """Derived data to rebuild, or something that a person should look at."""
    INFO = "info"
    """Normal, but worth knowing."""


class Code(NamedTuple):
    """One entry of the catalogue: ``KD101``, ``record-size``, and a title for people.

    ``manual`` is the manual's paragraph: what it means, what Kafka does about it, what to run next. ``severity`` is
    what its findings have unless one says otherwise.
    """

    code: str
    name: str
    title: str
    manual: str = ""
    severity: Severity = Severity.ERROR


class Codes(Enum):
    """The catalogue by subject.

    KD0xx: the input cannot be looked at. KD1xx: framing. KD2xx: batch contents. KD3xx: sibling files. KD4xx: log
    directories. KD5xx: the sequence of batches. KD6xx: producers and transactions. KD7xx: repair. KD8xx: conversion.
    KD9xx: copies compared.
    """

    MISSING = Code(
        "KD001",
        "missing",
        "no such file or directory",
        "There is no such file or directory.",
    )
    UNREADABLE = Code(
        "KD002",
        "unreadable",
        "cannot be read",
        "The operating system refuses to open or to read the file, or a directory is where a file is needed. "
        "Within a log: some blocks cannot be read (EIO). A broker takes the log directory offline at the first "
        "such block. Copy the file with ddrescue first, then verify the copy.",
    )
    NOT_A_SEGMENT_FILE = Code(
        "KD003",
        "not-a-segment-file",
        "not a file of a Kafka partition",
        "The name is not that of a file of a Kafka partition, or it is that of a text file, which only dump shows.",
    )
    NO_SEGMENTS = Code(
        "KD004",
        "no-segments",
        "a directory without segments",
        "The directory holds no segment, and neither does a partition directory in it. The message tells what it "
        "is: a partition directory without a .log file, a log directory and its broker, or no directory of Kafka.",
    )
    NAME = Code(
        "KD005",
        "file-name",
        "the file name holds no offset",
        "The file name must begin with an offset before its first dot (in a checkpoint: with offset and epoch), "
        "and does not. A broker does not start on such a name. Rename the file: the name is the base offset of its "
        "first batch, in 20 digits.",
    )
    SIBLING_MISSING = Code(
        "KD006",
        "sibling-missing",
        "another file of the segment is needed and missing",
        "An index can only be checked with the log beside it (a time index also needs the offset index), and that "
        "file is missing.",
    )
    UNWRITABLE = Code(
        "KD007",
        "unwritable",
        "cannot be written",
        "The operating system refuses to create, to write or to rename an output file, or the disk is full. "
        "Existing files are not changed. Use repair --finish to finish a repair --in-place that had begun.",
    )
    SPECIAL_FILE = Code(
        "KD008",
        "special-file",
        "a pipe, a socket or a device in place of a file",
        "There is a named pipe, a socket or a device in place of a segment, an index, a checkpoint or another file "
        "that kdump finds by itself. No broker creates one. Somebody may have put it there to delay or mislead the "
        "readers of the directory. kdump does not read it, and reads the other files. Name it as a PATH to read "
        "it.",
    )
    LINK_OUTSIDE = Code(
        "KD009",
        "link-outside",
        "a link that leads out of the log directory",
        "A symbolic link that kdump finds by itself leads out of the log directory (the parent of the partition "
        "directory). The file that it points to may belong to anybody, so kdump does not read it, and reads the "
        "other files. The log directory itself may be a link. To read the file, name it or the link as a PATH.",
    )
    FILE_SIZE = Code(
        "KD010",
        "file-size",
        "larger than a file of its kind can be",
        "A checkpoint has more than 16 MiB, another text file more than 1 MiB, or an index or a snapshot more than "
        "128 MiB. "
        "Such files are read whole, and brokers do not make them so large. The file may be sparse, or another file "
        "under this name. kdump does not read it, and reads the other files. It makes no digest of a sparse log "
        "of which more than 4 GiB are not stored.",
    )
    OBJECT_CHANGED = Code(
        "KD012",
        "object-changed",
        "the object was replaced while it was read",
        "The store has another version of the object (its ETag) than when the first part was read, so the parts that "
        "were read are of two objects, and no finding about it counts. Read it again when nobody writes it.",
    )
    LEFT_OUT = Code(
        "KD011",
        "left-out",
        "more than kdump keeps",
        "A log has more findings than kdump keeps in memory. The others are counted and left out, and the exit status "
        "counts them. kdump --most findings=NUMBER raises the limit. Or stats has more groups than kdump keeps: the "
        "figures of the others are together in one group. See LIMITS in kdump(1).",
        Severity.WARNING,
    )

    LENGTH_TOO_SMALL = Code(
        "KD101",
        "length-too-small",
        "length field below the smallest entry",
        "The length field of an entry is below the minimum of its format, so nothing tells where the next entry "
        "starts. A preallocated tail of zeros of 18 bytes or more looks like this to the Java tool, which stops "
        "there. Recovery truncates the log here, and a fetch that reaches this place fails. Examine the place with "
        "kdump dump --explain, then plan with repair.",
    )
    MAGIC = Code(
        "KD102",
        "magic",
        "magic byte of no known format",
        "The magic byte, which no CRC covers, is not 0, 1 or 2. Brokers read 3 to 127 as 2 and notice nothing. In a "
        "log of Kafka 0.7 it is not 0 or 1, and a broker of Kafka 0.7 does not start if it recovers the log. "
        "Recovery truncates the log at a negative magic whose CRC is then wrong. Examine the place with kdump dump "
        "--explain.",
    )
    HEADER_CUT = Code(
        "KD103",
        "header-cut",
        "the file ends inside the header of an entry",
        "The header of a batch has 61 bytes, that of a message of magic 0 or 1 has 26 or 34; the file ends inside it. "
        "Recovery cuts this header off. Plan with repair.",
    )
    TRAILING_BYTES = Code(
        "KD104",
        "trailing-bytes",
        "bytes after the last whole entry",
        "Bytes that are no entry follow the last entry. Recovery cuts them off. Plan with repair.",
    )
    TRUNCATED = Code(
        "KD105",
        "truncated",
        "the file ends inside an entry",
        "The file ends before the entry ends: a write was not finished, or the file was cut short. Recovery cuts "
        "this part off, and a replica fetches it again. In the newest segment of a running broker this is an "
        "append in progress.",
    )
    ZERO_FILL = Code(
        "KD106",
        "zero-fill",
        "zeros in place of an entry",
        "There are zeros where an entry should start, and other data follows them: a page was lost. Recovery "
        "truncates the log here, with everything after it. Plan with repair, which shows what can be saved.",
    )
    LENGTH_TOO_LARGE = Code(
        "KD107",
        "length-too-large",
        "length field that reaches into other entries",
        "The length field of an entry, which no CRC covers, reaches into or over the next entries. Recovery "
        "truncates the log here, or takes the wrong bytes as one batch. Examine the place with kdump dump "
        "--explain, which finds the true end if possible.",
    )
    BATCH_CRC = Code(
        "KD108",
        "batch-crc",
        "a batch with a wrong CRC",
        "The CRC of an entry is wrong: the entry was changed after it was written. If one flipped bit explains "
        "this, the message names the bit. Recovery truncates the log here, with everything after it. Consumers "
        "that check CRCs stop here until they seek past the entry. Plan with repair, which shows what can be "
        "saved.",
    )
    ZERO_TAIL = Code(
        "KD109",
        "zero-tail",
        "nothing but zeros to the end of the file",
        "From here to the end of the file there are only zeros. With log.preallocate the newest segment of a "
        "running or killed broker looks the same, and nothing is lost. After a power failure the zeros are data "
        "that was not written. Recovery cuts the zeros off.",
    )
    FOREIGN_FILE = Code(
        "KD110",
        "foreign-file",
        "a file of another type",
        "The file has the name of a log, but is another type of file: compressed, encrypted, an archive, a text, a "
        "database. The message tells the type and how to read it. kdump cuts, salvages and converts nothing of it. "
        "A broker that recovers it truncates it to 0 bytes (verify --startup predicts that). Unpack the file, or "
        "put the right file in its place.",
    )
    FRAME = Code(
        "KD111",
        "frame",
        "a saved request or response is malformed",
        "What dump --frame was given does not fit the layout of the request or response: a length reaches over the "
        "end, or bytes are left over. Check that the file holds what the option names: a frame of Kafka 0.7 with its "
        "length field.",
    )

    CODEC = Code(
        "KD201",
        "codec",
        "unknown compression codec",
        "The attributes name a compression codec that does not exist (5, 6 or 7). Recovery does not check this. "
        "Consumers fail on the batch.",
    )
    PAYLOAD = Code(
        "KD202",
        "payload",
        "the compressed records cannot be decompressed",
        "The compressed records cannot be decompressed, although the CRC is right: they were damaged before the "
        "CRC was made. Recovery does not check this. Consumers and the log cleaner fail on the batch.",
    )
    PAYLOAD_TOO_LARGE = Code(
        "KD203",
        "payload-too-large",
        "decompressed records over the limit",
        "The records decompress to more than --max-decompressed-size allows, or one record has too many headers "
        "(each takes 512 bytes of the limit, and 1,000 are free). A broker has no such limit. Raise the limit if "
        "there is enough memory.",
    )
    RECORD_COUNT = Code(
        "KD204",
        "record-count",
        "the record count does not fit the records",
        "The header counts more or fewer records than there are, or a negative number of records, or bytes are "
        "left over. Recovery does not check this. Consumers fail on the batch, or read fewer records without an "
        "error.",
    )
    RECORD = Code(
        "KD205",
        "record",
        "a record is malformed",
        "A record does not fit its length, or a field does not fit the record. Recovery does not check this. "
        "Consumers fail on the batch.",
    )
    CONTROL_RECORD = Code(
        "KD206",
        "control-record",
        "a control record is malformed",
        "A transaction marker or a KRaft control record has a key or value that cannot be read. Recovery truncates "
        "the log after a marker whose key is short or has a negative version. Recovery fails on a marker without a "
        "key or with a short value.",
    )
    LEGACY_WRAPPER = Code(
        "KD207",
        "legacy-wrapper",
        "a compressed message set is malformed",
        "A compressed message of magic 0 or 1 has no value, or its value holds no message, another compressed "
        "message, or only a part of a message. Or its offset contradicts the inner offsets. Recovery does not "
        "check this. Consumers fail or read fewer messages.",
    )
    LEGACY_MESSAGE = Code(
        "KD208",
        "legacy-message",
        "a message of magic 0 or 1 is malformed",
        "The key and value of a message of magic 0 or 1 do not fit the message. Recovery does not check this. "
        "Consumers fail. In a log of Kafka 0.7 the length field leaves no place for the CRC. A broker of Kafka 0.7 "
        "does not start if it recovers the log.",
    )
    DECODER = Code(
        "KD209",
        "decoder",
        "the chosen decoder cannot decode a key or value",
        "The chosen decoder does not accept a key or value: it is too short, has another form, or is a message "
        "with a field that does not fit. Instead, dump shows the bytes or the text of the Java tool. Kafka's own "
        "reader of the topic fails on such a record, or skips it.",
        Severity.WARNING,
    )
    INNER_CRC = Code(
        "KD210",
        "inner-crc",
        "a message inside a wrapper has a wrong CRC",
        "A message inside a compressed message of magic 0 or 1 has a wrong CRC, while the CRC of the wrapper is "
        "right. Recovery does not check this. Consumers fail on the message.",
    )
    INNER_MAGIC = Code(
        "KD211",
        "inner-magic",
        "a message inside a wrapper has another magic",
        "A message inside a compressed message has another magic than the wrapper. Kafka reads it, but no writer "
        "makes it.",
        Severity.WARNING,
    )
    INNER_OFFSET = Code(
        "KD212",
        "inner-offset",
        "offsets inside a wrapper are out of order",
        "The offsets inside a compressed message of magic 0 or 1 do not rise, or do not end with the offset of the "
        "wrapper. Recovery does not check this. Consumers see offsets jump.",
    )
    OFFSET_DELTA = Code(
        "KD213",
        "offset-delta",
        "offset deltas out of order or out of range",
        "The offset deltas of the records do not rise, or are outside of the range from 0 to lastOffsetDelta. "
        "Recovery does not check this. Consumers see offsets twice, out of order, or of another batch.",
    )
    MAX_TIMESTAMP = Code(
        "KD214",
        "max-timestamp",
        "timestamps that contradict maxTimestamp",
        "A record is newer than the largest timestamp in the header, or no record has that timestamp, or a "
        "timestamp is negative. Retention and searches by time use the header. Nothing is lost.",
        Severity.WARNING,
    )
    HEADER_ENCODING = Code(
        "KD215",
        "header-encoding",
        "a header key that is not UTF-8",
        "A key of a record header is not valid UTF-8. Brokers never check this. Java clients show replacement "
        "characters.",
        Severity.INFO,
    )
    UNUSED_ATTRIBUTES = Code(
        "KD216",
        "unused-attributes",
        "attribute bits that have no meaning",
        "Attribute bits are set that have no meaning in this format. Kafka ignores them. A newer or foreign writer "
        "may have set them.",
        Severity.INFO,
    )
    PRODUCER_FIELDS = Code(
        "KD217",
        "producer-fields",
        "producer fields that contradict each other",
        "Producer id, epoch, base sequence and the transactional bit contradict each other, or one of them, or the "
        "leader epoch, is below -1. No broker accepts such a batch from a producer.",
        Severity.WARNING,
    )
    CONTROL_TYPE = Code(
        "KD218",
        "control-type",
        "a control record of an unknown type",
        "A control record has a type that no Kafka known here knows, or a transaction marker is neither COMMIT nor "
        "ABORT. Recovery fails if it belongs to a producer. The transaction stays open.",
        Severity.WARNING,
    )
    PAYLOAD_UNKNOWN = Code(
        "KD219",
        "payload-unknown",
        "a record type or version that the decoder does not know",
        "A record of one of Kafka's internal topics has a type, or its value has a version, that no Kafka known here "
        "has. A newer broker wrote it, or the name of the topic is wrong. Instead, dump shows the bytes or the text of "
        "the Java tool.",
        Severity.INFO,
    )
    WRAPPER_KEY = Code(
        "KD220",
        "wrapper-key",
        "a wrapper with a key",
        "A compressed message of magic 0 or 1 has a key. Kafka's documentation says that it is null, because keys "
        "belong to the inner messages. Kafka reads the inner keys and never this one. No client or broker of Kafka "
        "writes it.",
        Severity.WARNING,
    )
    INNER_TIMESTAMP_TYPE = Code(
        "KD221",
        "inner-timestamp-type",
        "a message inside a wrapper claims a time of append",
        "A message inside a compressed message has the bit for LogAppendTime. Producers must leave this bit 0. A "
        "broker sets it only together with the bit of the wrapper, and then gives both the same timestamp; this is "
        "not the case here. Kafka uses the timestamp type of the wrapper.",
        Severity.WARNING,
    )

    INDEX = Code(
        "KD301",
        "index",
        "an index file does not pass the sanity check",
        "An index does not pass the sanity check that a broker runs when it loads the index.",
        Severity.WARNING,
    )
    INDEX_ENTRY = Code(
        "KD302",
        "index-entry",
        "an index entry points to no batch",
        "An entry of an index points outside of the log, or to a position where no whole batch starts.",
        Severity.WARNING,
    )
    TXN_INDEX_VERSION = Code(
        "KD303",
        "txnindex-version",
        "unknown version of an aborted transaction",
        "A transaction index has an entry of an unknown version. A broker does not start on it; those of older "
        "releases start on versions below 256.",
        Severity.WARNING,
    )
    SNAPSHOT_SCHEMA = Code(
        "KD304",
        "snapshot-schema",
        "a producer snapshot that fits no schema",
        "A producer snapshot has another version, is cut short, or has an impossible count.",
        Severity.WARNING,
    )
    SNAPSHOT_CRC = Code(
        "KD305",
        "snapshot-crc",
        "a producer snapshot with a wrong CRC",
        "The CRC of a producer snapshot is wrong.",
        Severity.WARNING,
    )
    INDEX_MISSING = Code(
        "KD306",
        "index-missing",
        "an index file is missing",
        "A log has no .index or no .timeindex beside it. At its start a broker recovers a segment without an "
        ".index, and truncates it at the first damage. It creates a missing .timeindex with 0 bytes. Check the log "
        "first, then rebuild the indexes with repair.",
        Severity.WARNING,
    )
    INDEX_ORDER = Code(
        "KD307",
        "index-order",
        "the entries of an index do not rise",
        "Offsets and positions of an index, or timestamps of a time index, go backwards or stay the same. A broker "
        "uses binary search in them and finds the wrong place. Rebuild the indexes with repair.",
        Severity.WARNING,
    )
    INDEX_BEYOND_LOG = Code(
        "KD308",
        "index-beyond-log",
        "an index knows of offsets after the end of the log",
        "The last entries of an index name batches that are not in the log. The log was cut after it was indexed, "
        "or copied before its last batches were written. Until the segment is recovered, a broker finds nothing in "
        "it. Look for a replica that has these offsets.",
    )
    INDEX_SPARSE = Code(
        "KD309",
        "index-sparse",
        "an index leaves out a long stretch of the log",
        "Entries are missing at the end or in the middle. Nothing is lost, but each fetch from there walks through "
        "all batches since the last entry. Rebuild the indexes with repair.",
        Severity.WARNING,
    )
    INDEX_LATER_BATCH = Code(
        "KD310",
        "index-later-batch",
        "index entries name the last offset of a later batch",
        "If several batches were appended at once, as a follower does, brokers up to 3.8 index them with the "
        "position of the first batch and the last offset of the last batch. Such entries are valid, although the "
        "Java tool calls them mismatches.",
        Severity.INFO,
    )
    TIME_INDEX_ENTRY = Code(
        "KD311",
        "timeindex-entry",
        "a time index entry that does not fit the log",
        "The offset of the entry is in no batch, or its timestamp is not the largest one up to that batch. "
        "Searches by time start at the wrong place. Rebuild the indexes with repair.",
        Severity.WARNING,
    )
    TIME_INDEX_SHORT = Code(
        "KD312",
        "timeindex-short",
        "a closed time index without the largest timestamp of its log",
        "If a segment is closed, the last entry of its time index should have the largest timestamp of the "
        "segment. Retention by time uses that entry. Rebuild the indexes with repair.",
        Severity.WARNING,
    )
    TXN_INDEX_ENTRY = Code(
        "KD313",
        "txnindex-entry",
        "the aborted transactions do not fit the log",
        "An aborted transaction of the log is not in the .txnindex, or an entry of the .txnindex does not match "
        "the log. Consumers with read_committed get records that were aborted, or miss records that were "
        "committed. Rebuild the .txnindex with repair.",
        Severity.WARNING,
    )
    SNAPSHOT_ENTRY = Code(
        "KD314",
        "snapshot-entry",
        "a producer snapshot that does not fit the log",
        "An entry has an offset at or after that of the snapshot, or contradicts the log. A broker that starts "
        "from this snapshot accepts duplicates or refuses good batches. Rebuild the snapshot with repair.",
        Severity.WARNING,
    )
    LOG_MISSING = Code(
        "KD315",
        "log-missing",
        "a file of a segment whose log is missing",
        "The log was lost, or it is elsewhere. A broker removes index files without a log when it starts. Copy "
        "them first: they tell which offsets the log had.",
        Severity.WARNING,
    )
    UNNUMBERED_NAME = Code(
        "KD316",
        "unnumbered-name",
        "a file whose name should hold an offset and does not",
        "A broker does not start if a name ends with a suffix of segment files and does not begin with a number. "
        "Move the file elsewhere.",
        Severity.WARNING,
    )
    NAME_PADDING = Code(
        "KD317",
        "name-padding",
        "an offset in a file name that has not 20 digits",
        "A broker opens the name with 20 digits instead, and creates it if it is missing. Find out which file is "
        "the right one, and rename it.",
        Severity.WARNING,
    )
    LEFTOVER = Code(
        "KD318",
        "leftover",
        "a file on its way in or out",
        "The name ends in .deleted, .cleaned or .swap: a deletion or a cleaning was not finished. A broker that "
        "starts removes .deleted and .cleaned files. It puts .swap files in the place of the segments that they "
        "cover.",
        Severity.INFO,
    )
    TEXT_FILE = Code(
        "KD319",
        "text-file",
        "a text file of Kafka that cannot be read",
        "A broker takes the whole log directory offline if leader-epoch-checkpoint is malformed. It does not start "
        "if meta.properties is malformed. It treats malformed offset checkpoints as empty. Compare the file with "
        "that of another replica before you change it.",
    )
    LEADER_EPOCH_ORDER = Code(
        "KD320",
        "leader-epoch-order",
        "leader epochs that do not rise",
        "If a later entry of leader-epoch-checkpoint has a lower epoch or offset, a broker drops the entries "
        "before it. Followers that ask for the end of such an epoch truncate too much or too little.",
        Severity.WARNING,
    )
    LEADER_EPOCH_RANGE = Code(
        "KD321",
        "leader-epoch-range",
        "leader epochs that do not fit the log",
        "leader-epoch-checkpoint has an epoch that begins after the end of the log, or an epoch that contradicts "
        "the batches. Followers that ask for the end of such an epoch truncate too much or too little.",
        Severity.WARNING,
    )
    SNAPSHOT_BEYOND_LOG = Code(
        "KD322",
        "snapshot-beyond-log",
        "a producer snapshot of offsets after the end of the log",
        "The broker had written everything up to the offset in the name of the snapshot, and the log ends before "
        "it: records are lost. Look for a replica that has them. The finding is a warning if the number is far "
        "from all others: then the name is wrong.",
    )

    RECOVERY_POINT = Code(
        "KD401",
        "recovery-point",
        "the recovery point is after the end of the log",
        "The broker had written and flushed everything up to the recovery point, and the log ends before it: "
        "records are lost. Look for a replica that has them.",
    )
    LOG_START = Code(
        "KD402",
        "log-start",
        "the log start offset is after the end of the log",
        "A broker that starts removes every segment of a log that ends before its log start offset. Copy the "
        "directory before the broker starts.",
    )
    HIGH_WATERMARK = Code(
        "KD403",
        "high-watermark",
        "the high watermark is after the end of the log",
        "Every in-sync replica had the records up to the high watermark, and this log ends before it. After a "
        "crash of the machine this is normal until the replica has caught up. Otherwise compare the log with the "
        "other replicas.",
        Severity.WARNING,
    )
    CLEANER_OFFSET = Code(
        "KD404",
        "cleaner-offset",
        "the cleaner checkpoint does not fit the log",
        "The cleaner checkpoint is after the end of the log, or in the last segment, which is never cleaned. "
        "Records were lost, or the file is from another time. If it is after the end, a broker starts to clean the "
        "log from its beginning again.",
        Severity.WARNING,
    )
    PARTITION_MISSING = Code(
        "KD405",
        "partition-missing",
        "a checkpoint names a partition that has no directory",
        "The partition was deleted or moved recently, or its directory was lost.",
        Severity.WARNING,
    )
    SEGMENT_MISSING = Code(
        "KD406",
        "segment-missing",
        "offsets are missing between two segments",
        "The next segment begins after the end of the previous one, in a log that does not look compacted: a "
        "segment is missing or was truncated. A broker does not notice this. Consumers continue after the gap. "
        "Between logs of Kafka 0.7 it is an error: a broker of Kafka 0.7 does not start.",
        Severity.WARNING,
    )
    SEGMENT_GAP = Code(
        "KD407",
        "segment-gap",
        "a gap between two segments of a compacted log",
        "The cleaner also removes records at the end of a segment, so the next segment may begin at a higher offset.",
        Severity.INFO,
    )
    SEGMENT_OVERLAP = Code(
        "KD408",
        "segment-overlap",
        "a segment begins before the end of the one before",
        "Both segments have the same offsets. A broker reads them from the later file and hides the end of the "
        "earlier one. A broker of Kafka 0.7 does not start.",
    )
    DIRECTORY_NAME = Code(
        "KD409",
        "directory-name",
        "a directory whose name is no topic and partition",
        "A broker does not start if a directory in a log directory is not called <topic>-<n>. Move it elsewhere.",
        Severity.WARNING,
    )
    DUPLICATE_PARTITION = Code(
        "KD410",
        "duplicate-partition",
        "two directories of one partition",
        "A broker does not start, and the directories may differ. Find out which one the broker served last, and "
        "move the other one elsewhere.",
    )
    DIRECTORY_STATE = Code(
        "KD411",
        "directory-state",
        "a partition on its way in or out",
        "The directory is about to be deleted (-delete), is a copy that is being moved here (-future), or is a "
        "partition that the metadata does not place on this broker (-stray).",
        Severity.INFO,
    )
    META_PROPERTIES = Code(
        "KD412",
        "meta-properties",
        "meta.properties is missing or names another cluster or node",
        "Nothing tells which cluster and node the directory belongs to, or the directories beside it belong to "
        "others. A broker does not start with the files of another cluster or node.",
        Severity.WARNING,
    )
    LOCK_FILE = Code(
        "KD413",
        "lock-file",
        "a .lock file",
        "A running broker holds a lock on this file. The file stays after the broker stops. While the lock is "
        "held, the files may change at any time.",
        Severity.INFO,
    )
    UNCLEAN_SHUTDOWN = Code(
        "KD414",
        "unclean-shutdown",
        "no .kafka_cleanshutdown",
        "The broker is running, or was not stopped cleanly, or this is a copy. A broker that starts here recovers "
        "every segment from the recovery point on, and truncates the log at the first damage there.",
        Severity.INFO,
    )
    TOPIC_ID = Code(
        "KD415",
        "topic-id",
        "partitions of one topic with different topic ids",
        "The directories belong to different topics of the same name: a topic was deleted and created again. A "
        "broker treats a partition as stray if the metadata does not know its topic id. Find out which id is the "
        "current one.",
        Severity.WARNING,
    )

    ALREADY_LOST = Code(
        "KD416",
        "already-lost",
        "offsets that the log once had are gone",
        "Files beside the logs have offsets that were in the log: a producer snapshot, the recovery point, the "
        "high watermark, a leader epoch, an index, or the log start offset. No segment has these offsets, and no "
        "start of a broker restores them. A broker does not notice this. Look for a replica that has them.",
    )

    SEGMENTS_SWAPPED = Code(
        "KD417",
        "segments-swapped",
        "the logs of two segments are exchanged",
        "Each of two logs begins with the offsets that belong to the name of the other. A broker that starts after "
        "a clean stop serves wrong offsets from them. A broker that recovers them stops. Exchange the names of the "
        "two logs; then nothing is lost. Until then kdump checks neither of them further.",
    )
    START_STOPS = Code(
        "KD418",
        "start-stops",
        "a start fails because of these files",
        "What is wrong with the files of the partition loses no data. But a broker that starts after a clean stop "
        "reads them and fails: it stops, or its log directory goes offline. Rebuild what is wrong (kdump repair "
        "--indexes), or move the file that is named elsewhere.",
    )

    METADATA_CUT = Code(
        "KD421",
        "metadata-log-cut",
        "a node that starts would cut the metadata log",
        "A batch of the metadata log is damaged or incomplete. A node that starts recovers the whole log, and cuts it "
        "at the first damage with one line of warning. With a single voter, all that follows is lost: topics, "
        "configs and ACLs become what they were before. Do not start the node. Copy the log from another controller, "
        "or repair it with kdump repair --salvage.",
    )
    METADATA_UNREADABLE = Code(
        "KD422",
        "metadata-unreadable",
        "a metadata record that no node reads",
        "The batch is valid, and a record in it is not: an unknown type or frame version, bytes left over, no value. "
        "Brokers and controllers stop when they read it. Either a newer version of Kafka wrote it, or the log is from "
        "something else.",
    )
    METADATA_NOT_APPLIED = Code(
        "KD423",
        "metadata-not-applied",
        "a metadata record that does not apply to the image",
        "The record changes something that is not there, such as a partition of an unknown topic. A broker logs an "
        "error and goes on without the record, or without its whole batch. A controller stops. Records before it "
        "were lost, or the log is a mixture.",
    )
    METADATA_REFUSED = Code(
        "KD424",
        "metadata-refused",
        "a metadata record at which a controller stops",
        "A broker applies the record, but a controller that replays it stops with a fatal fault, at every start. "
        "Records before it were lost or are there twice.",
    )
    METADATA_ODD = Code(
        "KD425",
        "metadata-odd",
        "a metadata log that is odd",
        "Offsets do not follow one another, a leader epoch falls, or a metadata transaction is open at the end. "
        "Kafka says nothing of the first two. A new leader aborts the open transaction.",
        Severity.INFO,
    )
    METADATA_SNAPSHOT = Code(
        "KD426",
        "metadata-snapshot",
        "a metadata snapshot that is missing or cannot be used",
        "A node does not start: the snapshot is damaged, or the log starts above 0 and no snapshot has what was "
        "before it. If the snapshot ends after the log, a node that starts throws the log away. Copy the snapshot "
        "from another node.",
    )
    METADATA_DIFFERS = Code(
        "KD427",
        "metadata-differs",
        "a metadata snapshot that differs from the log",
        "The snapshot and the records of the log give different images. Nodes that load the snapshot and nodes that "
        "read the log then disagree about the cluster. One of the two was changed. Of snapshots that are much smaller "
        "than what the log gives, kdump compares as many as it can in a time in proportion to the bytes, and says "
        "which ones it does not compare.",
    )
    NEWER_KAFKA = Code(
        "KD428",
        "newer-kafka",
        "written by a newer Kafka than kdump knows",
        "A level, a type of record, a version, a tagged field or a config is in no release of Kafka that this kdump "
        "knows (kdump --version names the newest). That is no damage. It is told once for each kind, and stays as it "
        "is stored. The metadata image has levels, configs and the fields that are known, and does without records "
        "that do not decode: what does not apply after one of them may need it, and is no error. A broker of a release "
        "that does not know it may stop.",
        Severity.INFO,
    )
    STRAY = Code(
        "KD431",
        "stray-partition",
        "a directory that the metadata does not place on this broker",
        "The topic was deleted or made again, or the partition was moved away, while the broker did not run; or "
        "partition.metadata is missing. When the broker starts, it gives the directory a name that ends in -stray and "
        "does not serve it. Nothing deletes it. Look whether somebody still needs the data.",
        Severity.WARNING,
    )
    WRONG_TOPIC_ID = Code(
        "KD432",
        "wrong-topic-id",
        "a directory with the topic id of another topic",
        "The topic id in partition.metadata belongs to a topic of another name, and the broker has this partition of "
        "it. A broker loads the log and does not serve it: fetches fail with an inconsistent topic id. Put the "
        "partition.metadata back that belongs here.",
    )
    PARTITION_NOT_HERE = Code(
        "KD433",
        "partition-not-here",
        "a partition that the metadata places here has no directory",
        "When the broker starts, it makes an empty log. The records come back from the leader. If no other replica "
        "has them, they are lost, and nothing says so.",
        Severity.WARNING,
    )

    ZOOKEEPER_LOG = Code(
        "KD441",
        "zookeeper-log",
        "a damaged transaction log of ZooKeeper",
        "The header of the log is wrong, or the checksum or the length of a transaction. ZooKeeper throws an exception "
        "there, and does not start. Use the data directory of another server of the ensemble, or move the log and "
        "those after it away: what they hold is then lost.",
    )
    ZOOKEEPER_TORN = Code(
        "KD442",
        "zookeeper-torn",
        "a transaction of ZooKeeper that is not whole",
        "The log ends in a part of a transaction. ZooKeeper takes this for the end of the log and says nothing. At the "
        "end of the newest log it is what a crash leaves: no client was told that the transaction succeeded.",
        Severity.WARNING,
    )
    ZOOKEEPER_SNAPSHOT = Code(
        "KD443",
        "zookeeper-snapshot",
        "a snapshot of ZooKeeper that cannot be used",
        "The snapshot does not end as a snapshot ends, its checksum is wrong, or it breaks the format. ZooKeeper takes "
        "the next older one, and needs the logs since then. Without an older one it may not start, or start empty.",
    )
    ZOOKEEPER_GAP = Code(
        "KD444",
        "zookeeper-gap",
        "transactions of ZooKeeper are missing",
        "The zxids of the transactions are not consecutive: a log is gone, or was cut. ZooKeeper does not notice it, "
        "and restores a tree without the changes of the missing transactions, if no snapshot has them.",
    )
    ZOOKEEPER_LOST = Code(
        "KD445",
        "zookeeper-lost",
        "transactions that ZooKeeper does not read",
        "Whole transactions lie after the place where ZooKeeper stops reading the log. If it starts, their changes are "
        "lost, unless a snapshot has them.",
    )
    ZOOKEEPER_NO_START = Code(
        "KD446",
        "zookeeper-no-start",
        "ZooKeeper does not start",
        "ZooKeeper throws this exception when it restores the tree of the directory, and ends. Other findings say "
        "where the damage is.",
    )
    ZOOKEEPER_DIGEST = Code(
        "KD447",
        "zookeeper-digest",
        "the tree of ZooKeeper has another digest than its log says",
        "ZooKeeper 3.6 and later write a digest of the whole tree beside each transaction. The restored tree has "
        "another one: a snapshot or a log was changed or exchanged, or transactions are missing. ZooKeeper only logs "
        "it.",
    )
    ZOOKEEPER_STATE = Code(
        "KD448",
        "zookeeper-state",
        "the files of ZooKeeper do not go back so far",
        "The tree at a moment needs a snapshot from before it, or all logs from the first one on. There are none.",
    )
    ZOOKEEPER_RESTORE = Code(
        "KD449",
        "zookeeper-restore",
        "what ZooKeeper restores",
        "What a server restores of the directory when it starts: how many nodes and sessions, up to which transaction, "
        "from which snapshot.",
        Severity.INFO,
    )

    ZOOKEEPER_OWNER = Code(
        "KD481",
        "zookeeper-owner",
        "the owner of a partition is no live consumer",
        "A node below owners names a consumer that is not below ids: its session ended and the node stayed, or the "
        "group was about to rebalance. Nobody reads the partition until a rebalance succeeds.",
        Severity.WARNING,
    )
    ZOOKEEPER_ASSIGNMENT = Code(
        "KD482",
        "zookeeper-assignment",
        "the owners of partitions are not those of the rule",
        "Each consumer of a group takes its share of the sorted partitions of a topic, by its place among the sorted "
        "threads. The owners are others: a rebalance was under way, or the consumers have the strategy roundrobin.",
        Severity.INFO,
    )

    REMOTE_MISSING = Code(
        "KD451",
        "remote-missing",
        "an object of a remote segment is missing",
        "The bucket lacks an object of a segment whose copy is finished. Without its log or its manifest a broker "
        "cannot read the segment; without its indexes it cannot find an offset in it. Look for the object among older "
        "versions in the bucket. Where no broker's metadata is at hand, it may be a deletion that has not finished.",
    )
    REMOTE_OBJECT = Code(
        "KD452",
        "remote-object",
        "an object of a remote segment is damaged",
        "An object has another size than its manifest or the metadata states, or a part of it does not decode. The "
        "plugin does not notice bytes after the last chunk, nor a changed byte in a chunk that is not encrypted. Look "
        "for an older version of the object in the bucket. Chunks that decode are read.",
    )
    REMOTE_MANIFEST = Code(
        "KD453",
        "remote-manifest",
        "the manifest of a remote segment cannot be used",
        "The manifest is no JSON, lacks a field, has a version that kdump does not know, or contradicts its name or "
        "the metadata of the cluster. Without it nothing tells where the chunks of the log lie.",
    )
    REMOTE_KEY = Code(
        "KD454",
        "remote-key",
        "a remote segment is encrypted with a key that is not at hand",
        "The key ring has no key of the id that the manifest states, or another key under this id. Give the private "
        "key with --key-ring ID=FILE.",
    )
    REMOTE_COPY = Code(
        "KD455",
        "remote-copy",
        "a copy to remote storage that never finished",
        "A broker stopped inside a copy. It copies the segment again under a new id, and never deletes these objects. "
        "Nothing is lost. A person may delete them, but while brokers run, the newest copies may still be under way.",
        Severity.WARNING,
    )
    REMOTE_DELETION = Code(
        "KD456",
        "remote-deletion",
        "a deletion in remote storage that never finished",
        "A broker stopped inside the deletion of a segment. Of a deleted topic no broker goes on with it. What is left "
        "may still be read. A person may delete it.",
        Severity.WARNING,
    )
    REMOTE_ORPHAN = Code(
        "KD457",
        "remote-orphan",
        "an object that no remote segment owns",
        "No segment that the metadata of the cluster lists has this object, so no broker reads or deletes it. Where "
        "the metadata is not complete, does not know the partition, or ends before the object was written, it may "
        "still belong to one.",
        Severity.WARNING,
    )
    REMOTE_GAP = Code(
        "KD458",
        "remote-gap",
        "offsets that can be read nowhere",
        "Neither a remote segment nor the local log holds these offsets, and both hold offsets around them. A consumer "
        "that reaches them gets an error or waits.",
    )
    REMOTE_DOUBLED = Code(
        "KD459",
        "remote-doubled",
        "offsets that two remote segments hold",
        "Two segments whose copies are finished hold the same offsets in the same leader epoch. A broker reads one of "
        "them. The other one only takes space.",
        Severity.WARNING,
    )
    REMOTE_DIFFERS = Code(
        "KD461",
        "remote-differs",
        "remote storage and the local log differ",
        "Both hold an offset, with another leader epoch or other bytes. One of them is of a leader whose records were "
        "cut. Compare them with diff before a broker starts.",
    )
    REMOTE_FOREIGN = Code(
        "KD462",
        "remote-foreign",
        "an object that kdump does not read",
        "The object is of another plugin, or of something else. Nothing is said about what it holds.",
        Severity.INFO,
    )
    REMOTE_TOTALS = Code(
        "KD464",
        "remote-totals",
        "what a bucket holds",
        "How many segments of a topic are in a state, and how many objects and bytes they have.",
        Severity.INFO,
    )
    REMOTE_METADATA = Code(
        "KD463",
        "remote-metadata",
        "the metadata of remote storage is not complete",
        "Logs of __remote_log_metadata are missing, begin after offset 0 or are damaged. What is not listed may still "
        "be known to a broker, so kdump calls no object an orphan.",
        Severity.WARNING,
    )
    REGISTRY_RETURNS = Code(
        "KD466",
        "registry-returns",
        "a start of the schema registry would change what it knows",
        "The topic of a schema registry has two keys for one version of a subject, which the registry takes for one: "
        "old records have the magic 0, newer ones 1. A tombstone of the one key hides the record of the other, until "
        "the cleaner removes it. After that, a start of the registry brings back what was deleted. Write a tombstone "
        "for the other key, too.",
        Severity.WARNING,
    )

    OFFSETS_BACKWARDS = Code(
        "KD501",
        "offsets-backwards",
        "a batch below the one before it",
        "A batch starts below the start of the previous batch. Fetches do not find one of the two. Recovery fails "
        "if an index entry would go backwards; otherwise it does not notice this. Examine both batches with kdump "
        "dump --explain: no CRC covers base offsets.",
    )
    OFFSETS_OVERLAP = Code(
        "KD502",
        "offsets-overlap",
        "a batch that overlaps the one before it",
        "A batch starts inside the offsets of the previous batch, so two records have the same offset. Recovery "
        "does not check this.",
    )
    DUPLICATE_BATCH = Code(
        "KD503",
        "duplicate-batch",
        "a batch that is there twice",
        "A batch has the same bytes as an earlier one. Consumers read its records twice, or read nothing after it. "
        "Recovery fails if an index entry would go backwards; otherwise it does not notice this.",
    )
    OFFSET_RANGE = Code(
        "KD504",
        "offset-range",
        "offsets that the file name cannot hold",
        "A batch has offsets below the number in the file name, or more than 2147483647 above it. Recovery fails "
        "with an offset overflow, and the broker does not start on the log. Examine the batch with kdump dump "
        "--explain, and check the file name.",
    )
    OFFSET_GAP = Code(
        "KD505",
        "offset-gap",
        "offsets are missing between two batches",
        "Offsets are missing, and there is no damage in between. In a compacted log the cleaner removed them, and "
        "the finding is info. In other logs batches were removed or never written. Recovery does not check this. "
        "Compare the log with another replica.",
        Severity.WARNING,
    )
    LEADER_EPOCH_BACKWARDS = Code(
        "KD506",
        "leader-epoch-backwards",
        "a lower leader epoch than before",
        "The leader epoch of a batch is below that of the previous batch. No broker writes that, but no CRC covers "
        "the field. A follower may be truncated wrongly.",
        Severity.WARNING,
    )
    MAGIC_BACKWARDS = Code(
        "KD507",
        "magic-backwards",
        "an older format after a newer one",
        "A message of magic 0 or 1 follows a batch of magic 2. This is normal only if message.format.version was "
        "set back.",
        Severity.WARNING,
    )

    SEQUENCE_GAP = Code(
        "KD601",
        "sequence-gap",
        "sequence numbers of a producer are missing",
        "The first sequence number of a batch is above the one that follows its producer's last sequence number, "
        "or it is not 0 in a new producer epoch. A broker refuses such a batch, so a batch before it is missing. "
        "In compacted logs this is normal and not reported.",
        Severity.WARNING,
    )
    SEQUENCE_DUPLICATE = Code(
        "KD602",
        "sequence-duplicate",
        "sequence numbers of a producer come twice",
        "A batch has sequence numbers that its producer has used before in the same epoch. A broker drops such a "
        "batch, so something else wrote it here.",
        Severity.WARNING,
    )
    PRODUCER_EPOCH_BACKWARDS = Code(
        "KD603",
        "producer-epoch-backwards",
        "a lower producer epoch than before",
        "A batch has a lower producer epoch than an earlier batch of its producer. A broker refuses batches of "
        "such a producer (fencing).",
        Severity.WARNING,
    )
    COORDINATOR_EPOCH_BACKWARDS = Code(
        "KD604",
        "coordinator-epoch-backwards",
        "a lower coordinator epoch than before",
        "A transaction marker has a lower (or a negative) coordinator epoch than an earlier marker of its "
        "producer. A broker refuses it.",
        Severity.WARNING,
    )
    MARKER_WITHOUT_TRANSACTION = Code(
        "KD605",
        "marker-without-transaction",
        "a marker that ends no transaction",
        "The producer of a transaction marker has no open transaction here. This is normal if the producer wrote "
        "nothing to the partition, if its records were compacted away, or if they are before the first segment "
        "that was read.",
        Severity.INFO,
    )
    TRANSACTION_OPEN = Code(
        "KD606",
        "transaction-open",
        "a transaction that no marker ends",
        "A transaction is open at the end. Readers with read_committed wait at its first offset. The log of its "
        "coordinator in the same log directory tells whether a broker will commit or abort it; without that log "
        "nobody can know. If it is older than transaction.max.timeout.ms (15 minutes by default) and no coordinator "
        "ends it, it hangs: find its producer with kafka-transactions.sh find-hanging and end it with "
        "kafka-transactions.sh abort. For a younger transaction the finding is info.",
        Severity.WARNING,
    )
    TRANSACTION_STATE = Code(
        "KD607",
        "transaction-state",
        "a plain batch inside a transaction of its producer",
        "A batch without the transactional bit lies inside an open transaction of its producer. Recovery fails on "
        "it with an invalid transaction state, and the broker does not start on the log.",
    )
    REPAIR_REFUSED = Code(
        "KD701",
        "repair-refused",
        "repair refused",
        "The request would lose good data without a message, give offsets to new records twice, or write where "
        "nothing may be written. The message tells the reason and names the option that decides it. Nothing was "
        "written.",
    )
    RECOVERY_FAILS = Code(
        "KD702",
        "recovery-fails",
        "Kafka's recovery fails or empties the segment",
        "Kafka's recovery of the log ends in an exception, and the broker empties the segment or does not start, "
        "so repair --like-broker has nothing to follow. Nothing was written. Use repair --salvage.",
    )
    CHANGED_WHILE_READ = Code(
        "KD703",
        "changed-while-read",
        "the file changed while it was read",
        "Another process wrote to the file meanwhile, probably a running broker. Nothing was written. Stop it, or "
        "repair a copy.",
    )
    LOCK_HELD = Code(
        "KD704",
        "lock-held",
        "a broker holds the lock of the log directory",
        "A broker runs on the log directory; or, on a network file system, kdump cannot tell. repair --in-place "
        "does not write there. Stop the broker. A partition that lies in no log directory is locked by another kdump.",
    )
    TXN_INDEX_KEPT = Code(
        "KD705",
        "txnindex-kept",
        "the transaction index is not rebuilt",
        "A marker of the segment ends a transaction that did not begin in it. Neither the previous segments nor a "
        "producer snapshot are there to tell where it began. The .txnindex stays as it was. If the segment is the "
        "first one of its log, use repair --first-segment.",
        Severity.WARNING,
    )
    MANIFEST = Code(
        "KD706",
        "manifest",
        "a repair's manifest does not fit",
        "The manifest of a repair cannot be read, names files that no repair names, or could have been written by "
        "another user; or something wrote to the files since that repair. Nothing was done. The backup is beside "
        "the manifest.",
    )

    NO_CODEC = Code(
        "KD801",
        "no-codec",
        "a codec that the message format does not have",
        "Messages of magic 0 and 1 cannot be compressed with zstd. A broker refuses a fetch that would need it. "
        "Use convert --codec to recompress with another codec.",
    )
    JSON_LINE = Code(
        "KD802",
        "json-line",
        "not a line that a record can be made of",
        "A line of the JSON lines to convert is no record as dump --output jsonl writes it, or its offset or its "
        "bytes are impossible. Nothing was written.",
    )
    SLICE_OPEN = Code(
        "KD803",
        "slice-open",
        "a part of a log with records of an open transaction",
        "The requested part of a log has records of a transaction that no marker in the source ends: it is open "
        "there, or its marker is lost. Readers with read_committed would wait at its first record for ever. "
        "Nothing was written. Use convert --open-transactions keep to write the part with the transaction open.",
    )
    OFFSET_TOO_LARGE = Code(
        "KD804",
        "offset-too-large",
        "an offset above the largest one",
        "If records were numbered from the offset that --renumber gives, their offsets would exceed "
        "9223372036854775807, the largest that Kafka has. Nothing was written. Give a smaller offset.",
    )
    OUTPUT_EXISTS = Code(
        "KD805",
        "output-exists",
        "an output file is there already",
        "An output file of convert or repair -o exists already, or an index file beside it. Nothing was written. "
        "Name another place, or use --overwrite.",
    )

    COPY_RECORD = Code(
        "KD901",
        "copy-record",
        "another record at the same offset",
        "Two copies hold different records at the same offsets, under the same leader epoch, and the CRCs of both "
        "are right. No broker writes that: one copy was changed, or restored from something else. Kafka never "
        "compares contents, so the copies stay different. Show the records with kdump diff --records.",
    )
    COPY_EPOCH = Code(
        "KD902",
        "copy-epoch",
        "another leader epoch at the same offset",
        "Two copies hold batches of different leader epochs at the same offsets: their histories parted there, as "
        "after an unclean election. When one of them leads, the other truncates to the first of these offsets. The "
        "truncation lines of kdump diff say what each would lose.",
    )
    COPY_DAMAGE = Code(
        "KD903",
        "copy-damage",
        "damage in one copy",
        "A copy is damaged at these offsets: a wrong CRC, a length that leads nowhere, a file that was cut, or "
        "files on which a broker does not start. Followers do not notice this. Run kdump verify on the copy; "
        "repair --from takes what is missing from another copy.",
    )
    COPY_GAP = Code(
        "KD904",
        "copy-gap",
        "a gap in one copy where another has records",
        "A copy has no records at offsets at which another one has some, and neither retention nor the log cleaner "
        "explains this: a segment was lost or deleted, or batches were removed. A broker serves what follows "
        "without an error. repair --from takes what is missing from another copy.",
    )
    COPY_TOPIC_ID = Code(
        "KD905",
        "copy-topic-id",
        "copies with different topic ids",
        "The copies belong to different topics of the same name: the topic was deleted and created again. Their "
        "records are not compared. A broker refuses to replicate between them. Find out which id is the current "
        "one, in the metadata.",
    )
    COPY_HIGH_WATERMARK = Code(
        "KD906",
        "copy-high-watermark",
        "a copy ends below its own high watermark",
        "The replication-offset-checkpoint of the copy has a high watermark after its log end offset: records that "
        "were replicated are gone from this copy. It was truncated after an unclean election, or its end was lost. "
        "Look for the records in the other copies before this one leads.",
    )
    COPY_EPOCH_START = Code(
        "KD907",
        "copy-epoch-start",
        "a leader epoch starts at another offset",
        "The first batch of a leader epoch has another offset in each of two copies, both hold both offsets, and "
        "the log cleaner was at neither. One of the two histories is not what a leader wrote, or the epoch of a "
        "batch, which no CRC covers, was changed.",
    )
    COPY_TAIL = Code(
        "KD908",
        "copy-tail",
        "records after the offset at which two histories part",
        "The copy goes on after the end of another one, and their histories parted before. So this is no lag: when "
        "the other copy leads, these records are truncated.",
    )
    COPY_CLUSTER = Code(
        "KD909",
        "copy-cluster",
        "copies of different clusters",
        "The log directories belong to different clusters, so the copies are no replicas of one another. Compare "
        "mirrored topics with kdump diff --content.",
        Severity.WARNING,
    )
    COPY_CHANGED = Code(
        "KD910",
        "copy-changed",
        "batches that are not what the manifest says",
        "The batches of a range of offsets are not those that were there when the manifest was written: records were "
        "changed, removed or added, or the log cleaner has been there. Run kdump verify on the copy, and compare it "
        "with another one.",
    )
    COPY_LAG = Code(
        "KD911",
        "copy-lag",
        "a copy ends before another one",
        "The copy has not yet got the newest records. It would fetch them as a follower. As a leader it would make "
        "the other copies truncate them.",
        Severity.INFO,
    )
    COPY_RETENTION = Code(
        "KD912",
        "copy-retention",
        "a copy begins after another one",
        "The copy has already deleted old segments: each broker applies retention on its own.",
        Severity.INFO,
    )
    COPY_DELETED = Code(
        "KD913",
        "copy-deleted",
        "deleted records that another copy still serves",
        "The log start offset of the copy was raised by kafka-delete-records.sh or by its leader. The other copy "
        "has not seen that yet.",
        Severity.INFO,
    )
    COPY_COMPACTED = Code(
        "KD914",
        "copy-compacted",
        "records that the log cleaner removed from one copy",
        "Each broker cleans its copy of a compacted topic when it likes. What is missing here has a later record of "
        "its key in this copy, or is an old tombstone, a marker or a record of an aborted transaction; or nothing "
        "replaces it, because the log was truncated after it was cleaned, or a tombstone expired.",
        Severity.INFO,
    )
    COPY_REWRITTEN = Code(
        "KD915",
        "copy-rewritten",
        "the same records in other batches",
        "The batches differ, and the records in them are the same: the log cleaner or kdump convert wrote them again.",
        Severity.INFO,
    )
    COPY_SEGMENTS = Code(
        "KD916",
        "copy-segments",
        "segments that begin at other offsets",
        "The copies are cut into other segments. Each broker begins new segments on its own.",
        Severity.INFO,
    )
    MANIFEST_FILE = Code(
        "KD921",
        "manifest-file",
        "a file that is not what the manifest says",
        "A file has another size or another SHA-256 than when the manifest was written, or it is gone. A log that is "
        "cut into other segments has other files, too: whether its records are those of the manifest is told of the "
        "partition.",
    )
    MANIFEST_NEW_FILE = Code(
        "KD922",
        "manifest-new-file",
        "a file that the manifest does not know",
        "The file was not there when the manifest was written.",
        Severity.WARNING,
    )


HOSTILE_CODES: Final = frozenset({Codes.SPECIAL_FILE, Codes.LINK_OUTSIDE, Codes.FILE_SIZE})
"""Of a file that kdump found by itself and does not read, as it may be there to do harm: verify has a finding."""
REMOTE_CODES: Final = frozenset({Codes.REMOTE_MISSING, Codes.REMOTE_OBJECT, Codes.REMOTE_MANIFEST})
"""Errors of objects of a remote segment that cannot be opened: verify has findings about them."""
FOUND_CODES: Final = HOSTILE_CODES | {Codes.OBJECT_CHANGED}
"""Errors of a log that cannot be read, or not as one whole: verify has a finding."""
INPUT_CODES: Final = FOUND_CODES | {
    Codes.MISSING,
    Codes.UNREADABLE,
    Codes.NOT_A_SEGMENT_FILE,
    Codes.NO_SEGMENTS,
    Codes.REMOTE_KEY,
    Codes.UNWRITABLE,
    Codes.ZOOKEEPER_STATE,
}
"""Errors of the input or the output itself, not damage in it: exit status 3."""
REFUSALS: Final = frozenset(
    {
        Codes.REPAIR_REFUSED,
        Codes.RECOVERY_FAILS,
        Codes.CHANGED_WHILE_READ,
        Codes.LOCK_HELD,
        Codes.MANIFEST,
        Codes.FOREIGN_FILE,
        Codes.OUTPUT_EXISTS,
    }
)
"""What repair does not do, though it could read the input: exit status 1."""


class KdumpError(Exception):
    """The root of all errors kdump raises on purpose.

    ``str()`` gives one line for people: file, position and what is wrong.
    """

    def __init__(self, code: Codes, message: str, *, path: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.path = path
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        # Workers send it to their driver.
        return _error, (type(self), self.code, self.message, self.path, self.position)

    def located(self, path: str | None = None, position: int | None = None) -> KdumpError:
        """Fill in what the raising code did not know; what is known stays. Returns self."""
        if self.path is None:
            self.path = path
        if self.position is None:
            self.position = position
        return self

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path}: "
        at = "" if self.position is None else f"at {self.position}: "
        return f"{where}{at}{self.message}"


OnError: TypeAlias = "Callable[[KdumpError], None]"
"""Takes errors of single files: the others follow."""


def ignore_error(error: KdumpError) -> None:
    """An ``OnError``: nobody wants to know."""


def raise_error(error: KdumpError) -> NoReturn:
    """An ``OnError``: the first error ends the call."""
    raise error


def _error(kind: type[KdumpError], code: Codes, message: str, path: str | None, position: int | None) -> KdumpError:
    return kind(code, message, path=path, position=position)


class DamageError(KdumpError):
    """The bytes are not what the format asks for; everything decoded before it stands."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage in a file: what, where, and what it costs.

    ``length``: bytes concerned, None where that is not known. ``first_offset`` to ``last_offset`` (inclusive) are lost
    at most; ``continue_at`` is the first offset that a broker can serve after the damage. ``path``: the file, where
    that is not the one being read. ``graded``: a severity other than the code's. ``segment_id``: of the remote segment.
    """

    code: Codes
    message: str
    position: int
    length: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    continue_at: int | None = None
    path: str | None = None
    graded: Severity | None = None
    segment_id: str | None = None

    @property
    def severity(self) -> Severity:
        """Its own, else its code's."""
        return self.graded or self.code.value.severity

    def __str__(self) -> str:
        goes_on = "" if self.continue_at is None else f"; next readable offset {self.continue_at}"
        return self._loss + goes_on

    @property
    def skipped(self) -> str:
        """What is said where a reader passes over the bytes: that a broker would not is another question."""
        end = self.position + (self.length or 0)
        return self._loss + ("" if self.continue_at is None else f"; reading goes on at position {end}")

    @property
    def _loss(self) -> str:
        extent = "" if self.length is None else f" ({self.length:,} bytes)"
        lost = ""
        # Compaction takes what nobody needs; the message of what was lost before names the offsets itself.
        is_left_out = self.code is Codes.OFFSET_GAP and self.severity is Severity.INFO
        is_lost = self.code not in (Codes.ALREADY_LOST, Codes.SEGMENT_GAP) and not is_left_out
        if self.first_offset is not None and is_lost:
            end = " on" if self.last_offset is None else f"..{self.last_offset}"
            lost = f"; offsets {'from ' if self.last_offset is None else ''}{self.first_offset}{end} lost (at most)"
        return f"at {self.position}{extent}: {self.message}{lost}"
