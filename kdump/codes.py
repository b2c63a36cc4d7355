"""The one catalogue of what can be wrong: a stable code, its name and a title.

Findings (damage in a file) and errors (a file that cannot be looked at) carry a code from here. Codes are never
reused; messages may change, codes may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Severity(Enum):
    """What a finding means for whoever owns the data."""

    ERROR = "error"
    """Data is lost or wrong, or Kafka's recovery cuts or fails there."""
    WARNING = "warning"
    """Derived data to rebuild, or something that a person should look at."""
    INFO = "info"
    """Normal, but worth knowing."""


@dataclass(frozen=True, slots=True)
class Code:
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
        "The operating system refuses to open or to read it (a directory where a file is needed belongs here too). "
        "Within a log: blocks that cannot be read (EIO). A broker takes the log directory offline at the first such "
        "block. Copy the file with ddrescue first, then verify the copy.",
    )
    NOT_A_SEGMENT_FILE = Code(
        "KD003",
        "not-a-segment-file",
        "not a file of a Kafka partition",
        "By its name it is no file of a Kafka partition, or one of the text files, which only dump shows.",
    )
    NO_SEGMENTS = Code(
        "KD004",
        "no-segments",
        "a directory without segments",
        "The directory holds no segment, and neither does a partition directory in it. The message says what it is: a "
        "partition directory without a .log file, a log directory and its broker, or no directory of Kafka.",
    )
    NAME = Code(
        "KD005",
        "file-name",
        "the file name holds no offset",
        "The offset that belongs in front of the first dot of the name (in a checkpoint: offset and epoch) is not "
        "there. A broker does not start on such a name. Give the file its 20 digits back: the base offset of its "
        "first batch.",
    )
    SIBLING_MISSING = Code(
        "KD006",
        "sibling-missing",
        "another file of the segment is needed and missing",
        "An index can only be checked with the log (a time index: also with the offset index) beside it, and that is "
        "missing.",
    )
    UNWRITABLE = Code(
        "KD007",
        "unwritable",
        "cannot be written",
        "The operating system refuses to make, to write or to rename an output file, or there is no room. What was "
        "there before is still there; what repair --in-place had begun is finished by repair --finish.",
    )
    SPECIAL_FILE = Code(
        "KD008",
        "special-file",
        "a pipe, a socket or a device in place of a file",
        "What lies in place of a segment, an index, a checkpoint or another file that kdump looks for by itself is a "
        "named pipe, a socket or a device. No broker makes one; somebody may have put it there to hold up or mislead "
        "whoever reads the directory. It is not read, and the rest is. Name it as a PATH to read it all the same.",
    )
    LINK_OUTSIDE = Code(
        "KD009",
        "link-outside",
        "a link that leads out of the log directory",
        "A symbolic link that kdump finds by itself leads out of the log directory (the one above the partition "
        "directory). What it leads to may be anybody's file, so it is not read, and the rest is. A log directory may "
        "be a link as a whole. Name as a PATH what the link leads to, or the link, to read it all the same.",
    )
    FILE_SIZE = Code(
        "KD010",
        "file-size",
        "larger than a file of its kind can be",
        "A checkpoint or another text file has more than 16 MiB, or an index or a snapshot more than 128 MiB. Such "
        "files are read whole, and brokers do not make them so large: it may be sparse, or another file under this "
        "name. It is not read, and the rest is.",
    )

    LENGTH_TOO_SMALL = Code(
        "KD101",
        "length-too-small",
        "length field below the smallest entry",
        "The length field of an entry is below the least that its format takes, so nothing says where the next entry "
        "starts. A preallocated tail of zeros of 18 bytes or more looks like this to the Java tool, which ends there. "
        "Recovery cuts the log here; a fetch that reaches it fails. Look with kdump dump --explain, then plan with "
        "repair.",
    )
    MAGIC = Code(
        "KD102",
        "magic",
        "magic byte of no known format",
        "The magic byte, which no CRC covers, is not 0, 1 or 2. Brokers read 3 to 127 as 2 and notice nothing; "
        "recovery cuts the log at a negative one whose CRC is then wrong. Look with kdump dump --explain.",
    )
    HEADER_CUT = Code(
        "KD103",
        "header-cut",
        "the file ends inside a batch header",
        "The file ends inside the header of an entry. Recovery cuts it off; repair shows the plan.",
    )
    TRAILING_BYTES = Code(
        "KD104",
        "trailing-bytes",
        "bytes behind the last whole entry",
        "Bytes that are no entry lie behind the last one. Recovery cuts them off; repair shows the plan.",
    )
    TRUNCATED = Code(
        "KD105",
        "truncated",
        "the file ends inside an entry",
        "The file ends before the entry does: a write that was not finished, or a file cut short. Recovery cuts the "
        "part off and a replica fetches it again. On the newest segment of a running broker this is an append in "
        "progress.",
    )
    ZERO_FILL = Code(
        "KD106",
        "zero-fill",
        "zeros in place of an entry",
        "Zeros stand where an entry should start, and something else follows them: a page that was lost. Recovery "
        "cuts the log here, with everything behind. repair shows what could be saved.",
    )
    LENGTH_TOO_LARGE = Code(
        "KD107",
        "length-too-large",
        "length field that reaches into other entries",
        "The length field of an entry, which no CRC covers, reaches into or over the entries behind it. Recovery cuts "
        "the log here or takes the wrong bytes for one batch. Look with kdump dump --explain, which finds the true "
        "end where "
        "it can.",
    )
    BATCH_CRC = Code(
        "KD108",
        "batch-crc",
        "a batch with a wrong CRC",
        "The CRC of an entry is wrong: it was changed after it was written. One flipped bit that explains it is "
        "named. Recovery cuts the log here, with all that follows; consumers that check CRCs stop here until they "
        "seek behind it. repair shows what could be saved.",
    )
    ZERO_TAIL = Code(
        "KD109",
        "zero-tail",
        "nothing but zeros to the end of the file",
        "From here to the end of the file there is nothing but zeros. With log.preallocate the newest segment of a "
        "broker that runs or was killed looks the same and nothing is lost; after a power failure it is what was not "
        "written. Recovery cuts the zeros off.",
    )
    FOREIGN_FILE = Code(
        "KD110",
        "foreign-file",
        "a file of another type",
        "The file has the name of a log and is something else: compressed, encrypted, an archive, a text, a database. "
        "The message says what, and how to look into it. Nothing of it is cut, salvaged or converted. A broker that "
        "recovers it cuts it to nothing (verify --startup says so): unpack it, or put the file that belongs there in "
        "its place.",
    )

    CODEC = Code(
        "KD201",
        "codec",
        "unknown compression codec",
        "The attributes name a compression codec that does not exist (5, 6 or 7). Recovery does not look; consumers "
        "fail on the batch.",
    )
    PAYLOAD = Code(
        "KD202",
        "payload",
        "the compressed records cannot be decompressed",
        "The compressed records cannot be decompressed, although the CRC is right: they were damaged before the CRC "
        "was made. Recovery does not look; consumers and the log cleaner fail on the batch.",
    )
    PAYLOAD_TOO_LARGE = Code(
        "KD203",
        "payload-too-large",
        "decompressed records over the limit",
        "The records decompress to more than --max-decompressed-size allows, or one record has more headers than that "
        "allows: each takes 64 bytes of it, and 1,000 are free. A broker has no such limit. Raise it, if that much "
        "memory is there.",
    )
    RECORD_COUNT = Code(
        "KD204",
        "record-count",
        "the record count does not fit the records",
        "The header counts more or fewer records than there are, or a negative number of them, or bytes are left "
        "over. Recovery does not look; consumers fail on the batch, or silently read less.",
    )
    RECORD = Code(
        "KD205",
        "record",
        "a record is malformed",
        "A record does not fit its length, or a field of it does not fit the record. Recovery does not look; "
        "consumers fail on the batch.",
    )
    CONTROL_RECORD = Code(
        "KD206",
        "control-record",
        "a control record is malformed",
        "A transaction marker or a KRaft control record has a key or value that cannot be read. Recovery cuts the log "
        "behind a marker whose key is short or of a negative version, and fails on one without key or with a short "
        "value.",
    )
    LEGACY_WRAPPER = Code(
        "KD207",
        "legacy-wrapper",
        "a compressed message set is malformed",
        "A compressed message of magic 0 or 1 has no value, holds no message, a compressed one or a part of one, or "
        "its offset contradicts those inside. Recovery does not look; consumers fail or read less.",
    )
    LEGACY_MESSAGE = Code(
        "KD208",
        "legacy-message",
        "a message of magic 0 or 1 is malformed",
        "Key and value of a message of magic 0 or 1 do not fit it. Recovery does not look; consumers fail.",
    )
    DECODER = Code(
        "KD209",
        "decoder",
        "the chosen decoder cannot decode a key or value",
        "A key or value is not what the decoder that was asked for takes: too short, not of its form, or a message "
        "with a field that does not fit. dump shows the bytes instead, or what the Java tool says. Kafka's own reader "
        "of the topic fails on such a record, or skips it.",
        Severity.WARNING,
    )
    INNER_CRC = Code(
        "KD210",
        "inner-crc",
        "a message inside a wrapper has a wrong CRC",
        "A message inside a compressed message of magic 0 or 1 has a wrong CRC, while that of the whole is right. "
        "Recovery does not look; consumers fail on it.",
    )
    INNER_MAGIC = Code(
        "KD211",
        "inner-magic",
        "a message inside a wrapper has another magic",
        "A message inside a compressed message has another magic than the whole. Kafka reads it, but no writer makes "
        "it.",
        Severity.WARNING,
    )
    INNER_OFFSET = Code(
        "KD212",
        "inner-offset",
        "offsets inside a wrapper are out of order",
        "The offsets inside a compressed message of magic 0 or 1 do not rise, or do not end with the one of the "
        "whole. Recovery does not look; consumers see offsets jump.",
    )
    OFFSET_DELTA = Code(
        "KD213",
        "offset-delta",
        "offset deltas out of order or out of range",
        "The offset deltas of the records do not rise, or leave the range from 0 to lastOffsetDelta. Recovery does "
        "not look; consumers see offsets twice, out of order, or of another batch.",
    )
    MAX_TIMESTAMP = Code(
        "KD214",
        "max-timestamp",
        "timestamps that contradict maxTimestamp",
        "A record is newer than the largest timestamp in the header, or none is as new, or a timestamp is negative. "
        "Retention and searches by time go by the header. Nothing is lost.",
        Severity.WARNING,
    )
    HEADER_ENCODING = Code(
        "KD215",
        "header-encoding",
        "a header key that is not UTF-8",
        "A key of a record header is not valid UTF-8. Brokers never look; Java clients show replacement characters.",
        Severity.INFO,
    )
    UNUSED_ATTRIBUTES = Code(
        "KD216",
        "unused-attributes",
        "attribute bits that have no meaning",
        "Attribute bits are set that have no meaning in this format. Kafka ignores them; a newer or foreign writer "
        "may have set them.",
        Severity.INFO,
    )
    PRODUCER_FIELDS = Code(
        "KD217",
        "producer-fields",
        "producer fields that contradict each other",
        "Producer id, epoch, base sequence and the transactional bit do not fit together, or one of them, or the "
        "leader epoch, is below -1. No broker accepts such a batch from a producer.",
        Severity.WARNING,
    )
    CONTROL_TYPE = Code(
        "KD218",
        "control-type",
        "a control record of an unknown type",
        "A control record has a type that Kafka 4.3.1 does not know, or a transaction marker is neither COMMIT nor "
        "ABORT. Recovery fails where it belongs to a producer. The transaction stays open.",
        Severity.WARNING,
    )
    PAYLOAD_UNKNOWN = Code(
        "KD219",
        "payload-unknown",
        "a record type or version that the decoder does not know",
        "A record of one of Kafka's internal topics has a type, or its value a version, that Kafka 4.3.1 does not "
        "have: a newer broker wrote it, or the topic is not what its name says. dump shows the bytes instead, or what "
        "the Java tool says.",
        Severity.INFO,
    )
    WRAPPER_KEY = Code(
        "KD220",
        "wrapper-key",
        "a wrapper with a key",
        "A compressed message of magic 0 or 1 has a key. Kafka's documentation says that it is null; keys belong to "
        "the messages inside. Kafka reads those and never this one; no client or broker of Kafka writes it.",
        Severity.WARNING,
    )
    INNER_TIMESTAMP_TYPE = Code(
        "KD221",
        "inner-timestamp-type",
        "a message inside a wrapper claims a time of append",
        "A message inside a compressed message has the bit for LogAppendTime, which producers must leave 0, and not "
        "from a broker: one that writes the messages inside anew sets it together with that of the whole, and gives "
        "both the same timestamp. Kafka goes by the timestamp type of the whole.",
        Severity.WARNING,
    )

    INDEX = Code(
        "KD301",
        "index",
        "an index file does not pass the sanity check",
        "An index does not pass the check that a broker made when it loaded it.",
        Severity.WARNING,
    )
    INDEX_ENTRY = Code(
        "KD302",
        "index-entry",
        "an index entry points to no batch",
        "An entry of an index leads outside the log or to a place where no whole batch starts.",
        Severity.WARNING,
    )
    TXN_INDEX_VERSION = Code(
        "KD303",
        "txnindex-version",
        "unknown version of an aborted transaction",
        "A transaction index has an entry of an unknown version. A broker does not start on one of 256 and above.",
        Severity.WARNING,
    )
    SNAPSHOT_SCHEMA = Code(
        "KD304",
        "snapshot-schema",
        "a producer snapshot that fits no schema",
        "A producer snapshot has another version, is cut short or has an impossible count.",
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
        "A log has no .index or no .timeindex beside it. When a broker starts it recovers a segment without an "
        ".index at once and cuts it at the first damage; a missing .timeindex is made with 0 bytes. Check the log "
        "first, then rebuild the indexes with repair.",
        Severity.WARNING,
    )
    INDEX_ORDER = Code(
        "KD307",
        "index-order",
        "the entries of an index do not rise",
        "Offsets and positions of an index, or timestamps of a time index, go backwards or stand still. A broker "
        "searches them by halving and lands in the wrong place. Rebuild the indexes with repair.",
        Severity.WARNING,
    )
    INDEX_BEYOND_LOG = Code(
        "KD308",
        "index-beyond-log",
        "an index knows of offsets behind the end of the log",
        "The last entries of an index name batches that are not in the log: the log was cut after it was indexed, "
        "or copied before it was written on. Until the segment is recovered a broker finds nothing in it. Look for "
        "a replica that has these offsets.",
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
        "Brokers up to 3.8 index several batches that were appended at once, as a follower does, by the position of "
        "the first and the last offset of the last. Such entries are sound, though the Java tool calls them "
        "mismatches.",
        Severity.INFO,
    )
    TIME_INDEX_ENTRY = Code(
        "KD311",
        "timeindex-entry",
        "a time index entry that does not fit the log",
        "The offset of the entry is in no batch, or its timestamp is not the largest up to and in that batch. "
        "Searches by time begin in the wrong place. Rebuild the indexes with repair.",
        Severity.WARNING,
    )
    TIME_INDEX_SHORT = Code(
        "KD312",
        "timeindex-short",
        "a closed time index without the largest timestamp of its log",
        "The last entry of a segment that is not written to any more should name its largest timestamp. Retention "
        "by time goes by that entry. Rebuild the indexes with repair.",
        Severity.WARNING,
    )
    TXN_INDEX_ENTRY = Code(
        "KD313",
        "txnindex-entry",
        "the aborted transactions do not fit the log",
        "An aborted transaction of the log is not in the .txnindex, or an entry of it does not fit the log. "
        "Consumers with read_committed get records that were aborted, or do not get records that were committed. "
        "Rebuild it with repair.",
        Severity.WARNING,
    )
    SNAPSHOT_ENTRY = Code(
        "KD314",
        "snapshot-entry",
        "a producer snapshot that does not fit the log",
        "An entry names an offset at or behind that of the snapshot, or another state than the log has. A broker "
        "that starts from it takes duplicates or refuses good batches. repair writes it anew.",
        Severity.WARNING,
    )
    LOG_MISSING = Code(
        "KD315",
        "log-missing",
        "a file of a segment whose log is missing",
        "The log was lost, or it is elsewhere. A broker removes index files without a log when it starts, so copy "
        "them first: they tell which offsets there were.",
        Severity.WARNING,
    )
    UNNUMBERED_NAME = Code(
        "KD316",
        "unnumbered-name",
        "a file whose name should hold an offset and does not",
        "A broker does not start while a name that ends in a suffix of segment files begins with no number. Move "
        "the file elsewhere.",
        Severity.WARNING,
    )
    NAME_PADDING = Code(
        "KD317",
        "name-padding",
        "an offset in a file name that has not 20 digits",
        "A broker opens the name with 20 digits instead, and makes it when it is missing. Find out which file is "
        "the right one, and rename it.",
        Severity.WARNING,
    )
    LEFTOVER = Code(
        "KD318",
        "leftover",
        "a file on its way in or out",
        "A name ending in .deleted, .cleaned or .swap: a deletion or a cleaning that was not finished. A broker "
        "that starts removes the first two, and puts .swap files in the place of the segments that they cover.",
        Severity.INFO,
    )
    TEXT_FILE = Code(
        "KD319",
        "text-file",
        "a text file of Kafka that cannot be read",
        "A broker takes the whole log directory offline over a malformed leader-epoch-checkpoint, does not start "
        "with a malformed meta.properties, and takes malformed offset checkpoints for empty ones. Compare it with "
        "the same file of another replica before you change it.",
    )
    LEADER_EPOCH_ORDER = Code(
        "KD320",
        "leader-epoch-order",
        "leader epochs that do not rise",
        "When a broker reads leader-epoch-checkpoint, a later entry with a lower epoch or offset drops the ones "
        "before it. Followers that ask for the end of such an epoch cut too much or too little.",
        Severity.WARNING,
    )
    LEADER_EPOCH_RANGE = Code(
        "KD321",
        "leader-epoch-range",
        "leader epochs that do not fit the log",
        "leader-epoch-checkpoint names an epoch that begins behind the end of the log, or another one than the "
        "batches carry. Followers that ask for the end of such an epoch cut too much or too little.",
        Severity.WARNING,
    )
    SNAPSHOT_BEYOND_LOG = Code(
        "KD322",
        "snapshot-beyond-log",
        "a producer snapshot of offsets behind the end of the log",
        "The broker had written everything up to the offset in the name of the snapshot, and the log ends before "
        "it: records are lost. Look for a replica that has them. A warning where the number is far from all others: "
        "the name is wrong then.",
    )

    RECOVERY_POINT = Code(
        "KD401",
        "recovery-point",
        "the recovery point is behind the end of the log",
        "The broker had written and flushed everything up to the recovery point, and the log ends before it: "
        "records are lost. Look for a replica that has them.",
    )
    LOG_START = Code(
        "KD402",
        "log-start",
        "the log start offset is behind the end of the log",
        "A broker that starts removes every segment of a log that ends before its log start offset. Copy the "
        "directory before the broker starts.",
    )
    HIGH_WATERMARK = Code(
        "KD403",
        "high-watermark",
        "the high watermark is behind the end of the log",
        "Every replica in sync had records up to the high watermark, and this log ends before it. After a crash of "
        "the machine this is so until the replica has caught up; otherwise compare it with the others.",
        Severity.WARNING,
    )
    CLEANER_OFFSET = Code(
        "KD404",
        "cleaner-offset",
        "the cleaner checkpoint does not fit the log",
        "The cleaner has been beyond the end of the log, or in its last segment, which it never cleans: records "
        "were lost, or the file is of another time. A broker that finds it beyond the end begins to clean the log "
        "from its start again.",
        Severity.WARNING,
    )
    PARTITION_MISSING = Code(
        "KD405",
        "partition-missing",
        "a checkpoint names a partition that has no directory",
        "The partition was deleted or moved not long ago, or its directory was lost.",
        Severity.WARNING,
    )
    SEGMENT_MISSING = Code(
        "KD406",
        "segment-missing",
        "offsets are missing between two segments",
        "The next segment begins behind the end of the one before, in a log that does not look compacted: a segment "
        "is missing or was cut. A broker does not notice, consumers get on behind the gap.",
        Severity.WARNING,
    )
    SEGMENT_GAP = Code(
        "KD407",
        "segment-gap",
        "a gap between two segments of a compacted log",
        "The cleaner removes records also at the end of a segment, so the next one need not begin right behind it.",
        Severity.INFO,
    )
    SEGMENT_OVERLAP = Code(
        "KD408",
        "segment-overlap",
        "a segment begins before the end of the one before",
        "Both segments claim the same offsets. A broker reads the later file for them and hides the end of the "
        "earlier one.",
    )
    DIRECTORY_NAME = Code(
        "KD409",
        "directory-name",
        "a directory whose name is no topic and partition",
        "A broker does not start while a directory in a log directory is not called <topic>-<n>. Move it elsewhere.",
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
        "The directory is about to be deleted (-delete), a copy that is being moved here (-future), or one that the "
        "metadata does not place on this broker (-stray).",
        Severity.INFO,
    )
    META_PROPERTIES = Code(
        "KD412",
        "meta-properties",
        "meta.properties is missing or names another cluster or node",
        "Nothing says which cluster and node the directory belongs to, or it says another one than the directories "
        "beside it. A broker does not start with the files of another cluster or node.",
        Severity.WARNING,
    )
    LOCK_FILE = Code(
        "KD413",
        "lock-file",
        "a .lock file",
        "A broker holds a lock on it while it runs and leaves the file behind. While it is held the files may "
        "change at any time.",
        Severity.INFO,
    )
    UNCLEAN_SHUTDOWN = Code(
        "KD414",
        "unclean-shutdown",
        "no .kafka_cleanshutdown",
        "The broker is running, or was not stopped properly, or this is a copy. A broker that starts here recovers "
        "every segment from the recovery point on, and cuts the log at the first damage there.",
        Severity.INFO,
    )
    TOPIC_ID = Code(
        "KD415",
        "topic-id",
        "partitions of one topic with different topic ids",
        "The directories belong to different topics of the same name: one was deleted and made again. A broker "
        "takes the partition whose id the metadata does not know for a stray one. Find out which id is the current "
        "one.",
        Severity.WARNING,
    )

    ALREADY_LOST = Code(
        "KD416",
        "already-lost",
        "offsets that the log once had are gone",
        "Files beside the logs name offsets that were in the log: a producer snapshot, the recovery point, the high "
        "watermark, a leader epoch, an index, or the log start offset. No segment has them, and no start of a broker "
        "brings them back. A broker does not notice. Look for a replica that has them.",
    )

    SEGMENTS_SWAPPED = Code(
        "KD417",
        "segments-swapped",
        "the logs of two segments are exchanged",
        "Each of two logs begins with the offsets of the other one's name. A broker that starts after a clean stop "
        "serves wrong offsets from them, and one that recovers them stops. Give each log the other one's name; "
        "nothing is lost then. Until then neither is checked any further.",
    )

    OFFSETS_BACKWARDS = Code(
        "KD501",
        "offsets-backwards",
        "a batch below the one before it",
        "A batch starts below the start of the batch before it. Fetches do not find one of the two; recovery fails "
        "when an index entry would go backwards, else it does not look. Look at both with kdump dump --explain: "
        "base offsets "
        "are under no CRC.",
    )
    OFFSETS_OVERLAP = Code(
        "KD502",
        "offsets-overlap",
        "a batch that overlaps the one before it",
        "A batch starts inside the offsets of the batch before it. The same offsets mean two records. Recovery does "
        "not look.",
    )
    DUPLICATE_BATCH = Code(
        "KD503",
        "duplicate-batch",
        "a batch that is there twice",
        "The same bytes as an earlier batch: consumers read its records twice, or not at all behind it. Recovery does "
        "not look, unless an index entry would go backwards, which makes it fail.",
    )
    OFFSET_RANGE = Code(
        "KD504",
        "offset-range",
        "offsets that the file name cannot hold",
        "A batch has offsets below the number in the file name, or more than 2147483647 above it. Recovery fails with "
        "an offset overflow and the broker does not start on the log. Look with kdump dump --explain; check the name.",
    )
    OFFSET_GAP = Code(
        "KD505",
        "offset-gap",
        "offsets are missing between two batches",
        "Offsets are missing and no damage is in between. On a compacted log that is what the cleaner does, and the "
        "finding is info; elsewhere batches were removed or never written. Recovery does not look. Compare with "
        "another replica.",
        Severity.WARNING,
    )
    LEADER_EPOCH_BACKWARDS = Code(
        "KD506",
        "leader-epoch-backwards",
        "a lower leader epoch than before",
        "The leader epoch of a batch is below that of the batch before it. No broker writes that; the field is under "
        "no CRC. A follower may be truncated wrongly.",
        Severity.WARNING,
    )
    MAGIC_BACKWARDS = Code(
        "KD507",
        "magic-backwards",
        "an older format behind a newer one",
        "A message of magic 0 or 1 follows a batch of magic 2. It is normal only where message.format.version was set "
        "back.",
        Severity.WARNING,
    )

    SEQUENCE_GAP = Code(
        "KD601",
        "sequence-gap",
        "sequence numbers of a producer are missing",
        "The first sequence number of a batch is above the one that follows the last of its producer, or not 0 in a "
        "new producer epoch. A broker refuses such a batch, so one before it is missing. Normal on compacted logs, "
        "where it is not reported.",
        Severity.WARNING,
    )
    SEQUENCE_DUPLICATE = Code(
        "KD602",
        "sequence-duplicate",
        "sequence numbers of a producer come twice",
        "A batch has sequence numbers that its producer has used before in the same epoch. A broker drops such a "
        "batch, so it came here by another way.",
        Severity.WARNING,
    )
    PRODUCER_EPOCH_BACKWARDS = Code(
        "KD603",
        "producer-epoch-backwards",
        "a lower producer epoch than before",
        "A batch has a lower producer epoch than an earlier one of its producer. A broker fences such a producer off.",
        Severity.WARNING,
    )
    COORDINATOR_EPOCH_BACKWARDS = Code(
        "KD604",
        "coordinator-epoch-backwards",
        "a lower coordinator epoch than before",
        "A transaction marker has a lower (or a negative) coordinator epoch than an earlier one of its producer. A "
        "broker refuses it.",
        Severity.WARNING,
    )
    MARKER_WITHOUT_TRANSACTION = Code(
        "KD605",
        "marker-without-transaction",
        "a marker that ends no transaction",
        "A transaction marker whose producer has no transaction open here. That is normal where the producer wrote "
        "nothing to the partition, where the data was compacted away, or lies before the first segment looked at.",
        Severity.INFO,
    )
    TRANSACTION_OPEN = Code(
        "KD606",
        "transaction-open",
        "a transaction that no marker ends",
        "A transaction is open at the end. Readers with read_committed wait at its first offset. When it is older "
        "than transaction.max.timeout.ms (15 minutes by default) it hangs: find its producer with "
        "kafka-transactions.sh find-hanging and end it with kafka-transactions.sh abort. Younger ones are info.",
        Severity.WARNING,
    )
    TRANSACTION_STATE = Code(
        "KD607",
        "transaction-state",
        "a plain batch inside a transaction of its producer",
        "A batch without the transactional bit lies inside an open transaction of its producer. Recovery fails on it "
        "with an invalid transaction state and the broker does not start on the log.",
    )
    REPAIR_REFUSED = Code(
        "KD701",
        "repair-refused",
        "repair refused",
        "What was asked for would lose sound data without a word, hand out offsets twice, or write where nothing "
        "may be written; the message says what and names the option that decides it. Nothing was written.",
    )
    RECOVERY_FAILS = Code(
        "KD702",
        "recovery-fails",
        "Kafka's recovery fails or empties the segment",
        "There is no broker's way to follow: recovery of the log ends in an exception, and the broker empties the "
        "segment or does not start. Nothing was written. Use repair --salvage.",
    )
    CHANGED_WHILE_READ = Code(
        "KD703",
        "changed-while-read",
        "the file changed while it was read",
        "Another process wrote to the file meanwhile, most likely a running broker. Nothing was written. Stop it, or "
        "repair a copy.",
    )
    LOCK_HELD = Code(
        "KD704",
        "lock-held",
        "a broker holds the lock of the log directory",
        "A broker runs on the log directory, or, on a network file system, nobody can tell. repair --in-place does not "
        "write there. Stop the broker.",
    )
    TXN_INDEX_KEPT = Code(
        "KD705",
        "txnindex-kept",
        "the transaction index is not rebuilt",
        "A marker of the segment ends a transaction that did not begin in it, and neither the segments before it nor a "
        "producer snapshot are there to tell where. The .txnindex stays as it was. If the segment is the first of its "
        "log, repair --first-segment says so.",
        Severity.WARNING,
    )
    MANIFEST = Code(
        "KD706",
        "manifest",
        "a repair's manifest does not fit",
        "The manifest of a repair cannot be read, names what no repair names, or another user may have written it; or "
        "the files are not as that repair left them: something wrote to them since. Nothing was done; the backup lies "
        "beside the manifest.",
    )

    NO_CODEC = Code(
        "KD801",
        "no-codec",
        "a codec that the message format does not have",
        "Messages of magic 0 and 1 cannot be compressed with zstd. A broker refuses a fetch that would need it; "
        "convert recompresses with another codec when it is named (--codec).",
    )
    JSON_LINE = Code(
        "KD802",
        "json-line",
        "not a line that a record can be made of",
        "A line of the JSON lines to convert is no record as dump --output jsonl writes it, or its offset or its bytes "
        "cannot be. Nothing was written.",
    )
    SLICE_OPEN = Code(
        "KD803",
        "slice-open",
        "a part of a log with records of an open transaction",
        "The part of the log that was asked for has records of a transaction that no marker in the source ends: it is "
        "open there, or its marker is lost. Readers with read_committed would wait at its first record for ever. "
        "Nothing was written; convert --open-transactions keep writes the part with the transaction open.",
    )
    OFFSET_TOO_LARGE = Code(
        "KD804",
        "offset-too-large",
        "an offset above the largest one",
        "Numbered from the offset that --renumber gives, records would get offsets above 9223372036854775807, the "
        "largest that Kafka has. Nothing was written; give a smaller offset.",
    )
    OUTPUT_EXISTS = Code(
        "KD805",
        "output-exists",
        "an output file is there already",
        "convert and repair -o write over nothing that is there, index files beside a log included. Nothing was "
        "written. Give another place, or --overwrite.",
    )


HOSTILE_CODES: Final = frozenset({Codes.SPECIAL_FILE, Codes.LINK_OUTSIDE, Codes.FILE_SIZE})
"""Of a file that kdump found by itself and does not read, as it may be there to do harm: verify has a finding."""
INPUT_CODES: Final = HOSTILE_CODES | {
    Codes.MISSING,
    Codes.UNREADABLE,
    Codes.NOT_A_SEGMENT_FILE,
    Codes.NO_SEGMENTS,
    Codes.UNWRITABLE,
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


def _error(kind: type[KdumpError], code: Codes, message: str, path: str | None, position: int | None) -> KdumpError:
    return kind(code, message, path=path, position=position)


class DamageError(KdumpError):
    """The bytes are not what the format asks for; everything decoded before it stands."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage in a file: what, where, and what it costs.

    ``length``: bytes concerned, None where that is not known. ``first_offset`` to ``last_offset`` (inclusive) are lost
    at most; ``continue_at`` is the first offset that a broker can serve behind the damage. ``path``: the file, where
    that is not the one being read. ``graded``: a severity other than the code's.
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

    @property
    def severity(self) -> Severity:
        """Its own, else its code's."""
        return self.graded or self.code.value.severity

    def __str__(self) -> str:
        extent = "" if self.length is None else f" ({self.length:,} bytes)"
        lost = ""
        # The message of what was lost before names the offsets itself.
        if self.first_offset is not None and self.code is not Codes.ALREADY_LOST:
            end = " on" if self.last_offset is None else f"..{self.last_offset}"
            lost = f"; offsets {'from ' if self.last_offset is None else ''}{self.first_offset}{end} lost (at most)"
        goes_on = "" if self.continue_at is None else f"; continues at offset {self.continue_at}"
        return f"at {self.position}{extent}: {self.message}{lost}{goes_on}"
