"""``python -m tests.bench [ROUNDS]``: speed against the Java tool and other peers, and memory."""

from __future__ import annotations

import sys
from subprocess import CalledProcessError

from tests.bench.conversions import client_lines, conversion_lines, down_convert_lines
from tests.bench.tables import decoder_lines, memory_lines, speed_lines, stats_lines
from tests.oracle.toolchain import ToolchainMissingError


def main(rounds: int) -> None:
    """Print the tables as they grow."""
    for lines in (
        speed_lines(rounds=rounds),
        decoder_lines(rounds),
        memory_lines(),
        conversion_lines(rounds=rounds),
        down_convert_lines(rounds=rounds),
        stats_lines(rounds=rounds),
    ):
        for line in lines:
            print(line, flush=True)
        print()
    try:
        print(*client_lines(rounds=rounds), sep="\n")
    except CalledProcessError:
        print("aiokafka or kafka-python is not installed")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    except ToolchainMissingError as error:
        sys.exit(str(error))
