"""The flag sets under which outputs are compared, for the Java tool's command line and for kdump in process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kdump.dump.dialects.versions import DIALECTS
from kdump.dump.output import DumpOptions
from kdump.dump.text.options import DECODER_CLASSES, DECODER_PACKAGE
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.topics import INTERNAL_TOPICS
from tests.harness.dumpoptions import text_dump


@dataclass(frozen=True, slots=True)
class FlagSet:
    """One way to call the tool: its name in the goldens, the Java arguments, and the same as kdump's options."""

    name: str
    arguments: tuple[str, ...]
    options: DumpOptions
    batches_shown: bool = True
    """False: an older tool shows no batches beside their records."""

    @property
    def hides_damage(self) -> bool:
        """A wrong CRC is met but not shown."""
        return "--skip-record-metadata" in self.arguments or not self.batches_shown


_RECORDS_ONLY = ("0.8.2", "0.10.2", "1.0", "1.1")
"""The tools that show records without their batches."""


@cache
def by_dialect(dialect: str | None) -> dict[str, FlagSet]:
    """The flag sets that have goldens of the tool of that version, by their names. None: of the newest."""

    def flags(name: str, *arguments: str, **options: Any) -> FlagSet:
        dump = text_dump(dialect=dialect, **options)
        return FlagSet(name, arguments, dump, batches_shown=dialect not in _RECORDS_ONLY or not dump.view.with_records)

    def decoder(name: str) -> Iterator[FlagSet]:
        decoding = DecoderChoice(internal=name)
        argument = f"--{name}-decoder"
        yield flags(f"{name}", argument, print_data_log=True, decoding=decoding)
        yield flags(
            f"{name}-skipmeta",
            argument,
            "--skip-record-metadata",
            print_data_log=True,
            skip_record_metadata=True,
            decoding=decoding,
        )

    sets = [
        flags("default"),
        flags("deep", "--deep-iteration", deep_iteration=True),
        flags("print", "--print-data-log", print_data_log=True),
        flags("deepprint", "--deep-iteration", "--print-data-log", deep_iteration=True, print_data_log=True),
        flags(
            "skipmeta",
            "--print-data-log",
            "--skip-record-metadata",
            print_data_log=True,
            skip_record_metadata=True,
        ),
        flags("maxbytes1000", "--deep-iteration", "--max-bytes", "1000", deep_iteration=True, max_bytes=1000),
        flags("verify", "--verify-index-only", verify_index_only=True),
        flags("sanity", "--index-sanity-check", index_sanity_check=True),
        *(one for name in INTERNAL_TOPICS for one in decoder(name)),
    ]
    lacks = DIALECTS[dialect].lacks if dialect else frozenset()
    return {one.name: one for one in sets if lacks.isdisjoint(one.arguments)}


DEFAULT, DEEP, PRINT, SKIP_METADATA, VERIFY, SANITY = (
    by_dialect(None)[name] for name in ("default", "deep", "print", "skipmeta", "verify", "sanity")
)
NUMBERS = FlagSet(
    "numbers",
    (
        "--key-decoder-class",
        f"{DECODER_PACKAGE}IntegerDecoder",
        "--value-decoder-class",
        f"{DECODER_PACKAGE}LongDecoder",
    ),
    text_dump(
        print_data_log=True, key_decoder=DECODER_CLASSES["IntegerDecoder"], value_decoder=DECODER_CLASSES["LongDecoder"]
    ),
)


def max_bytes(count: int) -> FlagSet:
    """Deep iteration over the first ``count`` bytes."""
    return FlagSet(
        f"maxbytes{count}",
        ("--deep-iteration", "--max-bytes", str(count)),
        text_dump(deep_iteration=True, max_bytes=count),
    )


def max_message_size(size: int) -> FlagSet:
    """An index check that reads ``size`` bytes of the log at each entry."""
    return FlagSet(f"maxmessage{size}", ("--max-message-size", str(size)), text_dump(max_message_size=size))


def topic_decoder_flags(decoder: str, dialect: str | None = None) -> tuple[FlagSet, FlagSet]:
    """With the decoder of an internal topic: ``decoder`` and ``decoder-skipmeta``."""
    sets = by_dialect(dialect)
    return replace(sets[decoder], name="decoder"), replace(sets[f"{decoder}-skipmeta"], name="decoder-skipmeta")


def flags_of_golden(name: str, partition: str, dialect: str | None = None) -> FlagSet:
    """The flag set of that name; the decoder is the one that the topic of a captured partition calls for."""
    if name in (sets := by_dialect(dialect)):
        return sets[name]
    decoder = topic_decoder(partition)
    assert decoder is not None
    return next(flags for flags in topic_decoder_flags(decoder, dialect) if flags.name == name)


def topic_decoder(partition: str) -> str | None:
    """The decoder that the topic of a captured partition calls for; None: it is of no internal topic."""
    return next((decoder for mark, decoder in _DECODERS.items() if mark in partition), None)


_DECODERS = {
    "__consumer_offsets-": "offsets",
    "__transaction_state-": "transaction-log",
    "__cluster_metadata-": "cluster-metadata",
    "_bootstrap": "cluster-metadata",
    "__remote_log_metadata-": "remote-log-metadata",
    "__share_group_state-": "share-group-state",
    "dec-offsets-": "offsets",
    "dec-txn-": "transaction-log",
    "dec-metadata-": "cluster-metadata",
    "dec-remote-": "remote-log-metadata",
    "dec-share-": "share-group-state",
}
"""By a part of the captured partition's name, or of the damaged case's."""
