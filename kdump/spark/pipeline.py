"""Log directories become tables, run after run: ``run(spark, source, target)``, ``python -m kdump.spark.pipeline``."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kdump.codes import Codes, KdumpError
from kdump.log.names import is_uri
from kdump.log.partition import log_directory_above
from kdump.repair.refusals import is_below
from kdump.spark.options import parse_size
from kdump.spark.pipelineoptions import FORMATS, ISOLATIONS, PipelineOptions, PipelineRun
from kdump.spark.sessions import session, where, why_not
from kdump.system.units import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PipelineOptions", "PipelineRun", "run"]

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}


def run(
    spark: SparkSession,
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    options: PipelineOptions | None = None,
) -> PipelineRun:
    """Land what is new in ``source``: log directories, partitions, patterns, URIs.

    Raises:
        KdumpError: SOURCE or TARGET cannot be read or written, or a job fails. The next run goes on.
        ValueError: the options are not those with which ``target`` was begun.
    """
    from kdump.spark.lake import Lake
    from kdump.spark.landrun import LOCK, Pipeline

    options = options or PipelineOptions()
    sources = [os.fspath(one) for one in ([source] if isinstance(source, str | os.PathLike) else source)]
    target = os.fspath(target)
    _refuse_logs(sources, target)
    lake = Lake(target)
    with lake.locked(LOCK):
        return Pipeline(spark, sources, target, lake, options).run()


def _refuse_logs(sources: Sequence[str], target: str) -> None:
    """Raises KdumpError UNWRITABLE for a TARGET among logs: a broker does not start with tables there."""
    if is_uri(target):
        return
    above = log_directory_above(target)
    if above is None:
        above = next((one for one in sources if not is_uri(one) and is_below(target, one)), None)
    if above is not None:
        raise KdumpError(Codes.UNWRITABLE, f"{above} holds logs; give a directory outside of it", path=target)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status: 0 landed, 1 the gate, 2 usage, 3 what cannot be read or written."""
    parser = command_parser()
    given = parser.parse_args(arguments)
    if (missing := why_not(given.master)) is not None:
        print(f"kdump: {missing}", file=sys.stderr)
        return 3
    try:
        columns = tuple(name for name in given.partition_by.split(",") if name != "none")
        options = PipelineOptions(
            given.format, columns, given.decode, given.key_decoder, given.value_decoder, given.isolation, given.fail_on,
            given.batch_bytes, given.schemas,
        )  # fmt: skip
    except ValueError as error:
        parser.error(str(error))
    except KdumpError as error:
        print(f"kdump: {error}", file=sys.stderr)
        return 3
    sources, target = given.paths[:-1], given.paths[-1]
    if not sources:
        parser.error("SOURCE and TARGET are needed")
    try:
        spark = session(given.master, dict(given.conf), app_name=f"kdump pipeline on {where(given.master)}")
        while True:
            try:
                done = run(spark, sources, target, options=options)
                status = done.status
                _print_report(done)
                for text in done.errors:
                    print(f"kdump: {text}", file=sys.stderr)
            except KdumpError as error:
                print(f"kdump: {error}", file=sys.stderr)
                status = 3
            if given.every is None:
                return status
            time.sleep(given.every)
    except ValueError as error:
        parser.error(str(error))
    except KdumpError as error:
        print(f"kdump: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


def command_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        "python -m kdump.spark.pipeline",
        usage="%(prog)s [OPTIONS] SOURCE... TARGET",
        description="Land the records of log directories in tables, each once, run after run.",
        epilog="Exit status: 0 landed, 1 --fail-on error held a partition back, 2 usage, 3 cannot be read or written.",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="SOURCE... TARGET", help="log directories, partitions, patterns, URIs"
    )
    parser.add_argument("--master", metavar="URL", help="of Spark; default: local[*], or what spark-submit says")
    parser.add_argument(
        "--conf", metavar="NAME=VALUE", action="append", type=_setting, default=[], help="a setting of Spark"
    )
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="of the records (%(default)s)")
    parser.add_argument(
        "--partition-by", metavar="COLUMNS", default="topic,date", help="topic, partition, date, or none (%(default)s)"
    )
    parser.add_argument("--decode", choices=["auto"], help="add decoded contents of internal topics")
    parser.add_argument("--key-decoder", metavar="NAME", help="decode keys, as kdump dump does")
    parser.add_argument("--value-decoder", metavar="NAME", help="decode values")
    parser.add_argument("--schemas", metavar="PATH", help="decode values by the schemas of a registry: _schemas-0")
    parser.add_argument("--isolation", choices=ISOLATIONS, default=ISOLATIONS[0], help="(%(default)s)")
    parser.add_argument(
        "--fail-on",
        choices=["error", "never"],
        default="never",
        help="land nothing of a damaged partition (%(default)s)",
    )
    parser.add_argument("--batch-bytes", metavar="SIZE", type=_size, help="of logs in a batch (8 GiB per core)")
    often = parser.add_mutually_exclusive_group()
    often.add_argument("--once", action="store_true", help="land what there is, and end (default)")
    often.add_argument("--every", metavar="TIME", type=_time, help="again and again: 30s, 5m, 1h")
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"NAME=VALUE was expected, not '{text}'")
    return name, value


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _time(text: str) -> int:
    match = re.fullmatch(r"(\d{1,9})([smh])", text.strip().lower())
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"a time like 30s, 5m or 1h was expected, not '{text}'")
    return int(match[1]) * _SECONDS[match[2]]


def _print_report(done: PipelineRun) -> None:
    try:
        for line in _report(done):
            print(line, flush=True)
    except BrokenPipeError:
        # The reader has left, and the rows have landed. Nothing more goes into the pipe when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(done: PipelineRun) -> Iterator[str]:
    """What the command prints: a line for each batch, and one for each partition with something to tell."""
    for row in done.rows:
        yield (
            f"batch {row['batch']}: {counted(row['landed'], 'record')} landed of "
            f"{counted(row['partitionsSeen'] - row['partitionsUnchanged'], 'partition')} with news, "
            f"{row['partitionsUnchanged']:,} unchanged; {row['control']:,} control, {row['aborted']:,} aborted, "
            f"{row['missing']:,} missing, {row['quarantined']:,} quarantined; {counted(row['errors'], 'error')} in "
            f"{counted(row['findings'], 'finding')}"
        )
        for each in row["partitions"]:
            notes = [*(["held back"] if each["held"] else []), *each["notes"]]
            for note in notes:
                yield f"{each['directory']}: {note.removeprefix(each['directory'] + ': ')}"


if __name__ == "__main__":
    sys.exit(main())
