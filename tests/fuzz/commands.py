"""Command lines for the fuzzer: every command, with options that change what is read or written."""

from __future__ import annotations

from random import Random
from typing import Final

OUTPUTS: Final = ("out", "out.jsonl", "out.csv", "out.parquet", "out.html")
"""Where commands write, relative to their working directory."""
REPAIRS: Final = (
    ["--salvage", "--correct"],
    ["--like-broker"],
    ["--indexes"],
    ["--salvage", "--deep", "--txn", "abort"],
)
FROM_JSON: Final = (
    [],
    ["--to-magic", "1"],
    ["--to-magic", "0"],
    ["--codec", "gzip"],
    ["--codec", "zstd"],
    ["--codec", "snappy", "--split-bytes", "500"],
    ["--renumber", "7"],
    ["--renumber", "9223372036854775807"],
    ["--strict"],
)
_INTERNAL: Final = (
    "--offsets-decoder",
    "--transaction-log-decoder",
    "--cluster-metadata-decoder",
    "--remote-log-metadata-decoder",
    "--share-group-state-decoder",
)
_NUMBERS: Final = ("0", "5", "100", "-1", "9223372036854775807", "1700000000000")
_FORMAT: Final = "%t %p %o %T %k %v %K %V %h %H %e %x %y %f %i\\n"


def for_file(random: Random, path: str) -> list[list[str]]:
    """Three commands over one file of a segment."""
    is_log = ".log" in path or path.endswith(".checkpoint")
    return [*random.sample(_log_commands(random, path), 3)] if is_log else _sibling_commands(random, path)


def for_directory(random: Random, path: str) -> list[list[str]]:
    """Three commands over a partition directory or a log directory."""
    number = random.choice([number for number in _NUMBERS if not number.startswith("-")])
    return random.sample(
        [
            ["verify", path],
            ["verify", "--quick", path],
            ["verify", "--output", "jsonl", "--strict", path],
            ["verify", "--output", random.choice(["junit", "sarif", "github"]), path],
            ["verify", "--startup", path],
            ["verify", "--startup", "--unclean", path],
            ["verify", "--startup", "--unclean", f"--recovery-point={number}", path],
            ["verify", "--startup", "--clean", "--output", "jsonl", path],
            ["verify", "--quick", "--manifest", "out", path],
            ["diff", "--records", path, path],
            ["diff", "--content", "--output", "jsonl", path, path],
            ["stats", path],
            ["stats", "--by", _by(random), "--output", "jsonl", path],
            ["state", "--at", "2026-11-20T12:00", path],
            ["stats", "--offsets-for", "2026-11-20", "--output", random.choice(("table", "jsonl", "reset-csv")), path],
            ["explain", "--offset", number, path],
            ["stats", "--what-if", "compaction", "--what-if", "retention=1d,1MB", path],
            ["stats", "--html", "out.html", path],
            ["repair", path],
            ["repair", "--salvage", "--correct", path],
            ["repair", *random.choice(REPAIRS), "-o", "out", path],
            ["repair", "--salvage", "--deep", "--txn", _txn(random), "--output", "jsonl", path],
            ["dump", path],
            ["dump", "--all-files", path],
            ["dump", "--output", "jsonl", "--records", "--isolation", "read_committed", "--resync", path],
            ["dump", "--output", "jsonl", "--decode", "auto", path],
            ["dump", "--output", "csv", "--batches", path],
            ["dump", "--tail", "5", "--output", "jsonl", "--records", path],
            ["convert", path, "-o", "out", "--to-magic", "1", "--skip-damaged"],
            ["convert", path, "-o", "out", "--codec", _codec(random), "--skip-damaged"],
            ["convert", path, "-o", "out", "--codec", "gzip", "--isolation", "read_committed", "--skip-damaged"],
            ["convert", path, "-o", "out.jsonl", "--to", "jsonl"],
        ],
        3,
    )


def _log_commands(random: Random, path: str) -> list[list[str]]:
    position, first, last = (str(random.randrange(limit)) for limit in (3000, 50, 200))
    time = f"{random.choice(_NUMBERS)}..{random.choice(_NUMBERS)}"
    return [
        ["dump", path],
        ["dump", "--print-data-log", path],
        ["dump", "--deep-iteration", "--skip-record-metadata", path],
        ["dump", "--print-data-log", "--resync", path],
        ["dump", "--print-data-log", f"--offset={first}:{last}", path],
        ["dump", "--print-data-log", f"--time={time}", path],
        ["dump", "--print-data-log", "--tail", "3", path],
        ["dump", "--max-bytes", position, "--deep-iteration", path],
        ["dump", "--max-decompressed-size", position.lstrip("0") or "1", "--print-data-log", path],
        ["dump", "--explain", position, path],
        ["explain", path, position],
        ["explain", "--offset", last, path],
        ["dump", "--output", "jsonl", "--records", path],
        ["dump", "--output", random.choice(("arrow", "parquet")), "--records", path],
        ["dump", "--output", "jsonl", "--batches", path],
        ["dump", "--output", "jsonl", "--records", "--resync", path],
        ["dump", "--output", "jsonl", "--records", "--isolation", "read_committed", path],
        ["dump", "--output", "jsonl", "--records", "--key", "a", "--header", "h=.", path],
        ["dump", "--output", "jsonl", "--records", "--key-decoder", _decoder(random), path],
        ["dump", "--output", "jsonl", "--decode", "auto", path],
        ["dump", "--output", "csv", "--records", path],
        ["dump", "--output", "table", "--records", path],
        ["dump", "--output", "table", "-n", "5", path],
        ["dump", "--format", _FORMAT, path],
        ["dump", "--redact", "--output", "jsonl", "--records", path],
        ["dump", random.choice(_INTERNAL), path],
        ["dump", random.choice(_INTERNAL), "--output", "jsonl", path],
        ["verify", path],
        ["verify", "--quick", path],
        ["verify", "--output", "jsonl", path],
        ["verify", "--output", "junit", path],
        ["stats", path],
        ["stats", "--output", "jsonl", "--by", _by(random), path],
        ["stats", "--quick", path],
        ["stats", "--what-if", "codec", path],
        ["stats", "--what-if", "magic", "--what-if", "compaction", path],
        ["stats", "--html", "out.html", path],
        ["repair", path],
        ["repair", "--salvage", "--correct", path],
        ["repair", "--salvage", "--deep", "--txn", _txn(random), "--output", "jsonl", path],
        ["repair", *random.choice(REPAIRS), "-o", "out", path],
        ["convert", path, "-o", "out/", "--to-magic", random.choice("012"), "--skip-damaged"],
        ["convert", path, "-o", "out/", "--codec", _codec(random), "--skip-damaged"],
        ["convert", path, "-o", "out/", "--codec", _codec(random)],
        [
            "convert",
            path,
            "-o",
            "out/",
            "--renumber",
            random.choice(("0", "5", "9223372036854775807")),
            "--skip-damaged",
        ],
        ["convert", path, "-o", "out.jsonl", "--to", "jsonl", "--skip-damaged"],
        ["convert", path, "-o", "out.csv", "--to", "csv", "--skip-damaged"],
        ["convert", path, "-o", "out.parquet", "--to", "parquet", "--skip-damaged"],
    ]


def _sibling_commands(random: Random, path: str) -> list[list[str]]:
    return random.sample(
        [
            ["dump", path],
            ["dump", "--verify-index-only", path],
            ["dump", "--index-sanity-check", path],
            ["dump", "--explain", str(random.randrange(100)), path],
            ["explain", path, str(random.randrange(100))],
            ["dump", "--output", random.choice(("jsonl", "csv", "table")), path],
            ["verify", path],
            ["stats", path],
            ["repair", path],
        ],
        3,
    )


def _by(random: Random) -> str:
    return random.choice(("segment", "partition", "topic", "producer", "codec", "magic", "hour"))


def _txn(random: Random) -> str:
    return random.choice(("abort", "drop", "leave"))


def _codec(random: Random) -> str:
    return random.choice(("none", "gzip", "snappy", "lz4", "zstd"))


def _decoder(random: Random) -> str:
    return random.choice(("hex", "json", "int64", "float64", "uuid", "base64", "int32"))
