"""The flag sets under which outputs are compared, for the Java tool's command line and for kdump in process."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.dump.output import DumpOptions
from kdump.dump.text.options import DECODER_CLASSES, DECODER_PACKAGE
from kdump.payloads.choice import DecoderChoice
from tests.harness.dumpoptions import text_dump


@dataclass(frozen=True, slots=True)
class FlagSet:
    """One way to call the tool: its name in the goldens, the Java arguments, and the same as kdump's options."""

    name: str
    arguments: tuple[str, ...]
    options: DumpOptions


DEFAULT = FlagSet("default", (), text_dump())
DEEP = FlagSet("deep", ("--deep-iteration",), text_dump(deep_iteration=True))
PRINT = FlagSet("print", ("--print-data-log",), text_dump(print_data_log=True))
SKIP_METADATA = FlagSet(
    "skipmeta",
    ("--print-data-log", "--skip-record-metadata"),
    text_dump(print_data_log=True, skip_record_metadata=True),
)
VERIFY = FlagSet("verify", ("--verify-index-only",), text_dump(verify_index_only=True))
SANITY = FlagSet("sanity", ("--index-sanity-check",), text_dump(index_sanity_check=True))
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


def topic_decoder_flags(decoder: str) -> tuple[FlagSet, FlagSet]:
    """With the decoder of an internal topic: ``decoder`` and ``decoder-skipmeta``."""
    argument, decoding = f"--{decoder}-decoder", DecoderChoice(internal=decoder)
    return (
        FlagSet("decoder", (argument,), text_dump(print_data_log=True, decoding=decoding)),
        FlagSet(
            "decoder-skipmeta",
            (argument, "--skip-record-metadata"),
            text_dump(print_data_log=True, skip_record_metadata=True, decoding=decoding),
        ),
    )


def flags_of_golden(name: str, partition: str) -> FlagSet:
    """The flag set of that name; the decoder is the one that the topic of a captured partition calls for."""
    if name in BY_NAME:
        return BY_NAME[name]
    decoder = next(decoder for mark, decoder in _DECODERS.items() if mark in partition)
    return next(flags for flags in topic_decoder_flags(decoder) if flags.name == name)


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

BY_NAME = {flags.name: flags for flags in (DEFAULT, DEEP, PRINT, SKIP_METADATA, VERIFY, SANITY, max_bytes(1000))}
"""The flag sets that have goldens, decoder flags aside."""
