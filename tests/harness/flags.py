"""The flag sets under which outputs are compared, for the Java tool's command line and for kdump in process."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.kafka.dumplog.options import DECODER_PACKAGE, DECODERS, DumpOptions


@dataclass(frozen=True, slots=True)
class FlagSet:
    """One way to call the tool: its name in the goldens, the Java arguments, and the same as kdump's options."""

    name: str
    arguments: tuple[str, ...]
    options: DumpOptions


DEFAULT = FlagSet("default", (), DumpOptions())
DEEP = FlagSet("deep", ("--deep-iteration",), DumpOptions(deep_iteration=True))
PRINT = FlagSet("print", ("--print-data-log",), DumpOptions(print_data_log=True))
SKIP_METADATA = FlagSet(
    "skipmeta",
    ("--print-data-log", "--skip-record-metadata"),
    DumpOptions(print_data_log=True, skip_record_metadata=True),
)
VERIFY = FlagSet("verify", ("--verify-index-only",), DumpOptions(verify_index_only=True))
SANITY = FlagSet("sanity", ("--index-sanity-check",), DumpOptions(index_sanity_check=True))
NUMBERS = FlagSet(
    "numbers",
    (
        "--key-decoder-class",
        f"{DECODER_PACKAGE}IntegerDecoder",
        "--value-decoder-class",
        f"{DECODER_PACKAGE}LongDecoder",
    ),
    DumpOptions(print_data_log=True, key_decoder=DECODERS["IntegerDecoder"], value_decoder=DECODERS["LongDecoder"]),
)


def max_bytes(count: int) -> FlagSet:
    """Deep iteration over the first ``count`` bytes."""
    return FlagSet(
        f"maxbytes{count}",
        ("--deep-iteration", "--max-bytes", str(count)),
        DumpOptions(deep_iteration=True, max_bytes=count),
    )


def max_message_size(size: int) -> FlagSet:
    """An index check that reads ``size`` bytes of the log at each entry."""
    return FlagSet(f"maxmessage{size}", ("--max-message-size", str(size)), DumpOptions(max_message_size=size))


BY_NAME = {flags.name: flags for flags in (DEFAULT, DEEP, PRINT, SKIP_METADATA, VERIFY, SANITY, max_bytes(1000))}
"""The flag sets that have goldens, decoder flags aside."""
