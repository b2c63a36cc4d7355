"""The releases of Kafka that kdump knows: what each of them knows itself, and which rules differ between them.

``releases.json`` beside this module holds levels, features, states and configs of each release, and
``format/messages.json`` its messages. ``packaging/take_release.py`` makes both from the jars of releases. The rules
that differ are here, by hand: each is a field of ``Release``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

FACTS: Final = os.path.join(os.path.dirname(__file__), "releases.json")


class Release(NamedTuple):
    """A release whose broker kdump models. The rules are those of the newest, unless they say something else."""

    name: str
    """As options name it: ``4.4``."""
    has_txn_schema: bool = True
    """An entry of a .txnindex is a message with a schema, whose version is a whole int16, 0 only. Before, the first
    byte was the version, and a negative one passed (TransactionIndex.iterable)."""
    keeps_batch_at_high_watermark: bool = True
    """The log cleaner keeps an empty last batch only where the high watermark follows it. Before, it kept the batch
    before the end of what one round of cleaning reads (Cleaner.cleanInto, checkBatchRetention)."""
    counts_last_copied_as_local: bool = False
    """A local segment that begins at the last offset in remote storage counts as one that is not there
    (UnifiedLog.onlyLocalLogSegmentsSize)."""

    @property
    def version(self) -> str:
        """The version that is modelled: ``4.4.0``."""
        return str(_facts()[self.name]["version"])

    @property
    def levels(self) -> Mapping[int, str]:
        """The name of each level of metadata.version (MetadataVersion)."""
        return _levels(self.name)

    @property
    def features(self) -> Mapping[str, tuple[int, int]]:
        """The lowest and the highest level of each feature that a controller takes (QuorumFeatures)."""
        return {name: (lowest, highest) for name, (lowest, highest) in _facts()[self.name]["features"].items()}

    @property
    def transaction_states(self) -> tuple[str, ...]:
        """The names of the states of a transaction by their numbers (TransactionState)."""
        return tuple(_facts()[self.name]["transactionStates"])

    @property
    def configs(self) -> Mapping[str, frozenset[str]]:
        """Configs that a topic, and a group, may have (LogConfig, GroupConfig), or had in earlier releases."""
        return _configs(self.name)


def newer(what: str) -> str:
    """How something is told that no release known here has."""
    return f"{what}: written by a newer Kafka than {NEWEST.name}, which this kdump knows"


KAFKA_4_3: Final = Release(
    "4.3", has_txn_schema=False, keeps_batch_at_high_watermark=False, counts_last_copied_as_local=True
)
NEWEST: Final = Release("4.4")
"""Whose output and brokers are meant where nobody says another release."""
RELEASES: Final[Mapping[str, Release]] = {release.name: release for release in (KAFKA_4_3, NEWEST)}
DIALECTS: Final = ("0.8.2", "0.10.2", "1.0", "1.1", "2.8", "3.9", "4.1", *RELEASES)
"""The releases whose text of DumpLogSegments kdump knows, see ``dump/dialects/versions.py``."""


@cache
def _facts() -> Any:
    import json  # most commands ask for none of it

    with open(FACTS, encoding="utf-8") as file:
        return json.load(file)


@cache
def _levels(name: str) -> Mapping[int, str]:
    facts = _facts()[name]
    return dict(enumerate(facts["levels"], facts["firstLevel"]))


_FORMER: Final = frozenset(
    {"message.format.version", "message.downconversion.enable", "message.timestamp.difference.max.ms"}
)
"""Topic configs up to Kafka 3.9."""


@cache
def _configs(name: str) -> Mapping[str, frozenset[str]]:
    facts = _facts()[name]
    return {"topic": frozenset(facts["topicConfigs"]) | _FORMER, "group": frozenset(facts["groupConfigs"])}
