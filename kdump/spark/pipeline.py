"""Log directories become tables, run after run: ``run(spark, source, target)``, ``python -m kdump.spark.pipeline``.

A run plans what is new in the partitions of SOURCE (``landplan``), and lands it in batches (``landing``). The names of
all files of a batch begin with its number and the token of the attempt. The checkpoint (``TARGET/_checkpoint``) holds:

- ``state.json``: what has landed, after the last batch that is complete.
- ``open``: the token of a batch that is on its way. Whoever finds it there removes the files of that batch, puts a new
  token in its place, and plans anew. Tasks of the old attempt that still run see the token and write nothing.
- ``staged.json``: for Delta and Iceberg, the state after a batch whose rows are in files, and go into the table next.

So a batch is there once, wherever a run was killed, and however often it was repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kdump import __version__
from kdump.codes import Codes, KdumpError
from kdump.inputs import inputs_of
from kdump.log import files
from kdump.log.context import as_text
from kdump.log.names import parse_partition_directory
from kdump.payloads.choice import DecoderChoice
from kdump.spark.lake import Lake
from kdump.spark.landing import COUNTS, LANDED, OPEN_BATCH, Checked, Landed, Landing, LandRange, LandTask, prefix_of
from kdump.spark.landplan import PLANS, Known, PartitionPlan, part_known, plan_partition, seen_files
from kdump.spark.options import parse_options
from kdump.spark.partitions import PartitionLog, list_partitions
from kdump.spark.readfindings import FindingTask
from kdump.spark.sessions import session, translated_errors, where
from kdump.spark.tasks import on_spark
from kdump.system.units import counted
from kdump.tasks.logs import OPEN_COST, TASK_BYTES, Wanted, packed
from kdump.tasks.work import Work, Workplace
from kdump.verify.readings import Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS: Final = ("parquet", "delta", "iceberg")
PARTITION_COLUMNS: Final = ("topic", "partition", "date")
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
_STATE: Final = "_checkpoint/state.json"
_STAGED: Final = "_checkpoint/staged.json"
_LOCK: Final = "_checkpoint/lock"
_STAGING: Final = "staging"
_FOLDERS: Final = ("records", "quarantine", "findings", "runs", _STAGING)
_CORE_BYTES: Final = 8 << 30
"""Bytes of logs of a batch for each core: some minutes of work, which is what a killed run repeats at most."""
_ATTEMPTS: Final = 5
"""How often a batch is planned anew where files were changed while it was read."""
_PLANS_A_TASK: Final = 32
_FIRST_LAND: Final = 500_000
"""The number of the first task that lands. Those that check have lower ones."""
_EVERY: Final = re.compile(r"(\d{1,9})(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_BALANCE: Final = pa.struct(
    [
        ("directory", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("from", pa.int64()),
        ("to", pa.int64()), *((name, pa.int64()) for name in COUNTS), ("again", pa.int64()),
        ("repeated", pa.int64()), ("bytes", pa.int64()), ("pendingBytes", pa.int64()), ("errors", pa.int64()),
        ("held", pa.bool_()), ("notes", pa.list_(pa.string())),
    ]
)  # fmt: skip
RUN_SCHEMA: Final = pa.schema(
    [
        ("batch", pa.int64()), ("run", pa.string()), ("startedAt", pa.timestamp("us", "UTC")),
        ("endedAt", pa.timestamp("us", "UTC")), ("source", pa.list_(pa.string())), ("options", pa.string()),
        ("kdump", pa.string()), ("spark", pa.string()), ("partitionsSeen", pa.int64()),
        ("partitionsUnchanged", pa.int64()), ("segmentsSeen", pa.int64()), ("segmentsRead", pa.int64()),
        ("bytesRead", pa.int64()), *((name, pa.int64()) for name in COUNTS), ("again", pa.int64()),
        ("repeated", pa.int64()), ("damagedPlaces", pa.int64()), ("findings", pa.int64()), ("errors", pa.int64()),
        ("notes", pa.list_(pa.string())), ("partitions", pa.list_(_BALANCE)),
    ]
)  # fmt: skip
"""The rows of ``runs``, one per batch; a run without news writes one too."""


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What lands, and how. All but ``fail_on`` and ``batch_bytes`` must stay the same for a TARGET.

    Attributes:
        format: of the records: parquet, delta or iceberg.
        partition_by: columns that are directories: topic, partition, date.
        decode: ``auto`` adds columns with decoded contents of internal topics.
        key_decoder: of keys; ``value_decoder``: of values. As in ``kdump dump``.
        isolation: read_uncommitted or read_committed.
        fail_on: ``error`` lands nothing of a partition with damage; ``never`` lands what can be read.
        batch_bytes: of logs; None: 8 GiB for each core.

    Raises:
        ValueError: a value that cannot be.
    """

    format: str = "parquet"
    partition_by: tuple[str, ...] = ("topic", "date")
    decode: str | None = None
    key_decoder: str | None = None
    value_decoder: str | None = None
    isolation: str = "read_uncommitted"
    fail_on: str = "never"
    batch_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("format", self.format, FORMATS),
            ("isolation", self.isolation, ISOLATIONS),
            ("fail_on", self.fail_on, ("error", "never")),
            *(("partition_by", each, PARTITION_COLUMNS) for each in self.partition_by),
        ):
            if value not in known:
                raise ValueError(f"{name}: one of {', '.join(known)} was expected, not '{value}'")
        if len(set(self.partition_by)) < len(self.partition_by):
            raise ValueError("partition_by: a column is named twice")
        _ = self.decoding

    @property
    def decoding(self) -> DecoderChoice:
        """See ``options.parse_options``."""
        given = {"decode": self.decode, "keyDecoder": self.key_decoder, "valueDecoder": self.value_decoder}
        return parse_options({"path": ".", **{name: value for name, value in given.items() if value}}).decoding

    @property
    def lasting(self) -> dict[str, Any]:
        """What must stay the same, as the checkpoint has it."""
        changing = ("fail_on", "batch_bytes")
        return {name: value for name, value in json.loads(json.dumps(asdict(self))).items() if name not in changing}


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What a run did. ``rows``: those of ``runs`` that it wrote. ``errors``: what could not be read.

    ``status``: 0 landed, 1 a partition was held back by the gate, 3 something cannot be read.
    """

    rows: list[dict[str, Any]]
    errors: list[str]

    @property
    def landed(self) -> int:
        """Records."""
        return sum(row["landed"] for row in self.rows)

    @property
    def held(self) -> list[str]:
        """The partitions that the gate held back."""
        return [each["directory"] for row in self.rows for each in row["partitions"] if each["held"]]

    @property
    def status(self) -> int:
        """As the exit status of the command."""
        return 3 if self.errors else int(bool(self.held))


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
    options = options or PipelineOptions()
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    lake = Lake(os.fspath(target))
    with lake.locked(_LOCK):
        return _Pipeline(spark, [os.fspath(one) for one in sources], os.fspath(target), lake, options).run()


@dataclass(slots=True)
class _State:
    """The checkpoint: the last batch that is complete, and what has landed of each partition by its directory."""

    target: str
    batch: int
    options: dict[str, Any]
    partitions: dict[str, Known] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> _State:
        value = json.loads(data)
        known = {directory: Known(**each) for directory, each in value.pop("partitions").items()}
        return cls(**value, partitions=known)

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()


@dataclass(slots=True)
class _Account:
    """A partition in a batch: its part of the plan, and what became of it."""

    plan: PartitionPlan
    ranges: list[LandRange]
    known: Known | None
    first: int
    errors: int = 0
    is_held: bool = False
    landed: list[Landed] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.landed[-1].end if self.landed else self.first

    def row(self) -> dict[str, Any]:
        """As ``runs`` has it."""
        plan = self.plan
        topic, partition = parse_partition_directory(os.path.basename(plan.directory)) or (None, None)
        is_begun = not self.ranges or self.ranges[0] is plan.ranges[0]
        again = max(0, (plan.previous or 0) - plan.first) if is_begun else 0
        return {
            "directory": as_text(plan.directory),
            "topic": None if topic is None else as_text(topic),
            "partition": partition,
            "from": self.first,
            "to": self.end,
            **{name: sum(each.counts[name] for each in self.landed) for name in COUNTS},
            "again": again,
            "repeated": sum(each.repeated for each in self.landed),
            "bytes": 0 if self.is_held else sum(each.size for each in self.ranges),
            "pendingBytes": plan.pending,
            "errors": self.errors,
            "held": self.is_held,
            "notes": list(map(as_text, plan.notes)) if is_begun else [],
        }


class _Pipeline:
    def __init__(
        self, spark: SparkSession, sources: list[str], target: str, lake: Lake, options: PipelineOptions
    ) -> None:
        self._spark = spark
        self._given = sources
        self._paths = [files.strip_credentials(path) for path in sources]
        self._target = target if "://" in target else os.path.abspath(target)
        self._lake = lake
        self._options = options
        self._run = secrets.token_hex(4)
        self._cores = 2
        # A Spark Connect server does not tell.
        with suppress(Exception):
            self._cores = spark.sparkContext.defaultParallelism
        self._is_table = options.format != FORMATS[0]
        self._state = self._begun()

    def run(self) -> PipelineRun:
        """All batches of one run; at least one."""
        rows: list[dict[str, Any]] = []
        unreadable: dict[str, str] = {}
        attempts = 0
        while True:
            errors, logs, unchanged, plans = self._planned(unreadable)
            batches = _batches(
                plans,
                self._options.batch_bytes or _CORE_BYTES * self._cores,
                cuts=self._options.fail_on == "never",
            )
            try:
                rows.extend(self._batch(accounts, logs, unchanged) for accounts in [*batches] or [[]])
            except _SourceChangedError as error:
                attempts += not error.unreadable
                if attempts == _ATTEMPTS:
                    what = f"files change again and again while they are read: {error}"
                    raise KdumpError(Codes.UNREADABLE, what) from None
                unreadable |= error.unreadable
                self._discard()
                continue
            errors += (plan.error for plan in plans if plan.error is not None)
            return PipelineRun(rows, [*errors, *unreadable.values()])

    def _begun(self) -> _State:
        """The checkpoint, after what another run left unfinished was finished or removed."""
        data = self._lake.read(_STATE)
        state = _State(secrets.token_hex(8), 0, self._options.lasting) if data is None else _State.of(data)
        if state.options != self._options.lasting:
            raise ValueError(f"{self._lake.shown} was begun with other options: {json.dumps(state.options)}")
        self._state = state
        staged = self._lake.read(_STAGED)
        if staged is not None and (after := _State.of(staged)).batch == state.batch + 1:
            self._finish(after)
        elif self._lake.read(OPEN_BATCH) is not None:
            self._discard()
        return self._state

    def _discard(self) -> None:
        """Remove all files of the batch that was begun last. Tasks that still run write nothing any more."""
        self._lake.write(OPEN_BATCH, b"none")
        prefix = prefix_of(self._state.batch + 1)
        for folder in _FOLDERS:
            for name in self._lake.names(folder):
                if os.path.basename(name).lstrip(".").startswith(prefix):
                    self._lake.remove(name)
        self._lake.remove(OPEN_BATCH)

    def _planned(
        self, unreadable: Collection[str]
    ) -> tuple[list[str], dict[str, PartitionLog], int, list[PartitionPlan]]:
        """What of SOURCE cannot be listed, all partitions, how many have no news, and the plans of the others."""
        errors: list[KdumpError] = []
        for path in self._given:
            files.strip_credentials(path)
        listed = list_partitions(self._paths, Wanted(), errors.append)
        logs = {name: log for name, log in listed.items() if log.bases}
        if errors and not logs:
            raise errors[0]
        known = self._state.partitions
        news = [
            (log, known.get(name))
            for name, log in logs.items()
            if name not in known or known[name].seen is None or known[name].seen != seen_files(log)
        ]
        items = [item for item in news if item[0].directory not in unreadable]
        tasks = [items[start : start + _PLANS_A_TASK] for start in range(0, len(items), _PLANS_A_TASK)]
        function = partial(plan_partition, only_committed=self._options.isolation == ISOLATIONS[1])
        plans: list[PartitionPlan] = list(
            on_spark(self._spark, tasks, Work(function, PLANS.pack, PLANS.unpack, self._place()))
        )
        gone = [PartitionPlan(name, [], notes=["the partition is not there any more"]) for name in known.keys() - logs]
        return list(map(str, errors)), logs, len(logs) - len(news), [*plans, *gone]

    def _place(self) -> Workplace:
        return Workplace.of(self._paths)

    def _batch(self, accounts: Sequence[_Account], logs: Mapping[str, PartitionLog], unchanged: int) -> dict[str, Any]:
        """Land one batch; gives its row of ``runs``. _SourceChangedError: nothing of it counts."""
        began = datetime.now(UTC)
        batch, token = self._state.batch + 1, secrets.token_hex(4)
        self._lake.write(OPEN_BATCH, token.encode())
        landing = Landing(
            self._target,
            batch,
            token,
            _STAGING if self._is_table else "records",
            None if self._is_table else self._options.partition_by,
            self._options.isolation == ISOLATIONS[1],
            self._options.decoding,
        )
        checks = self._checks([each for each in accounts if each.ranges], logs)
        checked: list[Checked] = []
        if self._options.fail_on == "error":
            checked += (each for each in self._work(landing, checks) if isinstance(each, Checked))
            checks = []
            errors = {directory: count for each in checked for directory, count in each.errors.items()}
            for account in accounts:
                account.is_held = bool(errors.get(as_text(account.plan.directory)))
        ranges = [each for account in accounts if not account.is_held for each in account.ranges]
        tasks = packed(ranges, task_bytes=TASK_BYTES, open_cost=OPEN_COST)
        lands = [LandTask(_FIRST_LAND + number, tuple(task)) for number, task in enumerate(tasks)]
        done = list(self._work(landing, [*checks, *lands]))
        checked += (each for each in done if isinstance(each, Checked))
        landed = {each.path: each for each in done if isinstance(each, Landed)}
        unreadable = {os.path.dirname(path): each.error for path, each in landed.items() if each.error is not None}
        changed = [each.changed for each in landed.values() if each.changed is not None]
        if unreadable or changed:
            raise _SourceChangedError("; ".join(changed[:1]), unreadable)
        errors = {directory: count for each in checked for directory, count in each.errors.items()}
        for account in accounts:
            account.errors = errors.get(as_text(account.plan.directory), 0)
            account.landed = [] if account.is_held else [landed[each.path] for each in account.ranges]
        partitions = [account.row() for account in accounts if account.ranges or account.plan.notes]
        row = {
            "batch": batch,
            "run": self._run,
            "startedAt": began,
            "endedAt": datetime.now(UTC),
            "source": list(map(as_text, self._paths)),
            "options": json.dumps(asdict(self._options)),
            "kdump": __version__,
            "spark": self._spark.version,
            "partitionsSeen": len(logs),
            "partitionsUnchanged": unchanged,
            "segmentsSeen": sum(len(log.bases) for log in logs.values()),
            "segmentsRead": len(ranges),
            "bytesRead": sum(each["bytes"] for each in partitions),
            **{name: sum(each[name] for each in partitions) for name in (*COUNTS, "again", "repeated")},
            "damagedPlaces": sum(each.damaged for each in landed.values()),
            "findings": sum(each.findings for each in checked),
            "errors": sum(sum(each.errors.values()) for each in checked),
            "notes": [as_text(account.plan.error) for account in accounts if account.plan.error is not None],
            "partitions": partitions,
        }
        self._write_run(row, token)
        after = replace(self._state, batch=batch, partitions=dict(self._state.partitions))
        for account in accounts:
            if account.known is not None and not account.is_held:
                end = max(account.known.next, account.end)
                after.partitions[account.plan.directory] = replace(account.known, next=end)
        if self._is_table:
            self._lake.write(_STAGED, after.to_bytes())
        self._finish(after)
        return row

    def _finish(self, after: _State) -> None:
        """The batch has landed, except for the rows of a table."""
        staged: list[str] = []
        if self._is_table:
            from kdump.spark.tableformats import append_batch

            prefix = f"{_STAGING}/{prefix_of(after.batch)}"
            staged = [name for name in self._lake.names(_STAGING) if name.startswith(prefix)]
            form, by = self._options.format, self._options.partition_by
            with translated_errors(form, self._lake.shown):
                append_batch(
                    self._spark, self._target, staged, form=form, by=by, writer=after.target, batch=after.batch
                )
        self._lake.write(_STATE, after.to_bytes())
        self._state = after
        for name in (*staged, *([_STAGED] if self._is_table else []), OPEN_BATCH):
            self._lake.remove(name)

    def _checks(self, accounts: Sequence[_Account], logs: Mapping[str, PartitionLog]) -> list[LandTask]:
        """What ``verify`` is asked: the segments that land, and SOURCE itself. A partition is whole where all do."""
        if not accounts:
            return []
        groups = []
        for account in accounts:
            log = logs[account.plan.directory]
            paths = tuple(dict.fromkeys(each.path for each in account.ranges))
            is_whole = len(paths) == len(log.bases)
            size = sum(each.size for each in account.ranges)
            groups.append(_SizedGroup(Group(paths, log.directory if is_whole else None), size))
        stores = tuple(files.with_credentials(path) for path in self._paths)
        inputs = inputs_of(self._given, lambda error: None, with_patterns=True)
        own = FindingTask(stores, inputs=tuple(inputs))
        tasks = packed(groups, task_bytes=TASK_BYTES, open_cost=OPEN_COST)
        partitions = [FindingTask(stores, tuple(sized.group for sized in task)) for task in tasks]
        return [LandTask(number, check=task) for number, task in enumerate([own, *partitions])]

    def _work(self, landing: Landing, tasks: Sequence[LandTask]) -> Iterator[Landed | Checked]:
        work = Work(landing, LANDED.pack, LANDED.unpack, self._place())
        return on_spark(self._spark, [[task] for task in tasks], work)

    def _write_run(self, row: Mapping[str, Any], token: str) -> None:
        file = self._lake.new_file(f"runs/{prefix_of(row['batch'])}{token}.parquet")
        with open(file.temporary, "wb") as output:
            pq.write_table(pa.Table.from_pylist([row], RUN_SCHEMA), output, compression="zstd")
        self._lake.publish(file)


class _SourceChangedError(Exception):
    """A file changed while it was read, or cannot be read: partitions with the reason."""

    def __init__(self, message: str, unreadable: dict[str, str]) -> None:
        super().__init__(message)
        self.unreadable = unreadable


class _SizedGroup(NamedTuple):
    group: Group
    size: int


def _batches(plans: Sequence[PartitionPlan], most: int, *, cuts: bool) -> Iterator[list[_Account]]:
    """The plans in batches of ``most`` bytes or a little more. No log is cut, and a partition only with ``cuts``."""
    accounts: list[_Account] = []
    room = most
    for plan in plans:
        ranges = [replace(each, given=files.with_credentials(each.path)) for each in plan.ranges]
        whole = plan._replace(ranges=ranges)
        begin, first = 0, plan.first
        for number, each in enumerate(ranges, 1):
            room -= each.size
            if cuts and room <= 0 and number < len(ranges):
                following = ranges[number]
                yield [*accounts, _Account(whole, ranges[begin:number], part_known(plan, following), first)]
                accounts, room, begin, first = [], most, number, following.low
        accounts.append(_Account(whole, ranges[begin:], plan.known, first))
        if room <= 0:
            yield accounts
            accounts, room = [], most
    if accounts:
        yield accounts


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status: 0 landed, 1 the gate, 2 usage, 3 what cannot be read or written."""
    parser = command_parser()
    given = parser.parse_args(arguments)
    try:
        columns = tuple(name for name in given.partition_by.split(",") if name != "none")
        options = PipelineOptions(
            given.format, columns, given.decode, given.key_decoder, given.value_decoder, given.isolation, given.fail_on,
            given.batch_bytes,
        )  # fmt: skip
        conf = dict(pair.split("=", 1) for pair in given.conf)
    except ValueError as error:
        parser.error(str(error))
    sources, target = given.paths[:-1], given.paths[-1]
    if not sources:
        parser.error("SOURCE and TARGET are needed")
    try:
        spark = session(given.master, conf, app_name=f"kdump pipeline on {where(given.master)}")
        while True:
            try:
                done = run(spark, sources, target, options=options)
                status = done.status
                for line in _report(done):
                    print(line, flush=True)
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
    parser.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="of the records (%(default)s)")
    parser.add_argument(
        "--partition-by", metavar="COLUMNS", default="topic,date", help="topic, partition, date, or none (%(default)s)"
    )
    parser.add_argument("--decode", choices=["auto"], help="add decoded contents of internal topics")
    parser.add_argument("--key-decoder", metavar="NAME", help="decode keys, as kdump dump does")
    parser.add_argument("--value-decoder", metavar="NAME", help="decode values")
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


def _argument(pattern: re.Pattern[str], factors: Mapping[str, int], text: str, example: str) -> int:
    match = pattern.fullmatch(text.strip().lower())
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{example} was expected, not '{text}'")
    return int(match[1]) * factors[match[2]]


def _size(text: str) -> int:
    factors = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    return _argument(re.compile(r"(\d{1,15})([kmgt]?)b?"), factors, text, "a size like 64g")


def _time(text: str) -> int:
    return _argument(_EVERY, _SECONDS, text, "a time like 30s, 5m or 1h")


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
