"""What a conversion cannot keep, counted by kind."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TypeAlias


class LossKind(Enum):
    """Kinds: the name in JSON lines, the unit that is counted, and a sentence for people."""

    HEADERS = "headers", "records", "lose their headers"
    CONTROL_RECORDS = "control-records", "records", "are control records and are dropped"
    TRANSACTIONS = "transactional-flags", "batches", "are no longer transactional"
    PRODUCERS = "producer-fields", "batches", "lose producer id, epoch and sequence"
    ABORTED = "aborted-records", "records", "of aborted transactions become visible"
    OPEN = "open-records", "records", "of transactions without an end become visible"
    UNDECIDED = "undecided-records", "records", "become visible whose transactions cannot be followed in a stream"
    TIMESTAMPS = "timestamps", "records", "lose their timestamps"
    ZSTD = "zstd", "batches", "are recompressed: the format has no zstd"

    def __init__(self, label: str, unit: str, sentence: str) -> None:
        self.label = label
        self.unit = unit
        self.sentence = sentence


Losses: TypeAlias = Counter[LossKind]
