"""The batches of a run of the pipeline, and the checkpoint.

A run plans what is new in the partitions of SOURCE (``landplan``), and lands it in batches (``landing``). The names of
all files of a batch begin with its number and the token of the attempt. The checkpoint (``TARGET/_checkpoint``) holds:

- ``state.json``: what has landed, after the last batch that is complete.
- ``open``: the token of a batch that is on its way. Whoever finds it there removes the files of that batch, puts a new
  token in its place, and plans anew. Tasks of the old attempt that still run see the token and write nothing.
- ``staged.json``: for Delta and Iceberg, the state after a batch whose rows are in files, and go into the table next.

So a batch is there once, wherever a run was killed, and however often it was repeated.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kdump import __version__
from kdump.codes import Codes, KdumpError, ignore_error
from kdump.inputs import inputs_of
from kdump.log import files
from kdump.log.context import as_text
from kdump.log.names import parse_partition_directory
from kdump.spark.lake import Lake
from kdump.spark.landing import COUNTS, LANDED, OPEN_BATCH, Checked, Landed, Landing, LandRange, LandTask, prefix_of
from kdump.spark.landplan import PLANS, Known, LandingPlan, gone_partition, part_known, plan_partition, seen_files
from kdump.spark.partitions import PartitionLog, list_partitions
from kdump.spark.pipelineoptions import FORMATS, ISOLATIONS, PipelineOptions, PipelineRun
from kdump.spark.readfindings import FindingTask, SizedGroup
from kdump.spark.sessions import translated_errors
from kdump.spark.tasks import on_spark
from kdump.system.paths import absolute_path
from kdump.tasks.logs import Wanted, packed
from kdump.tasks.work import Work, Workplace
from kdump.verify.readings import Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE: Final = "_checkpoint/state.json"
_STAGED: Final = "_checkpoint/staged.json"
LOCK: Final = "_checkpoint/lock"
_STAGING: Final = "staging"
_FOLDERS: Final = ("records", "quarantine", "findings", "runs", _STAGING)
_CORE_BYTES: Final = 8 << 30
"""Bytes of logs of a batch for each core: some minutes of work, which is what a killed run repeats at most."""
_ATTEMPTS: Final = 5
"""How often a batch is planned anew where files were changed while it was read."""
_PLANS_A_TASK: Final = 32
_FIRST_LAND: Final = 500_000
"""The number of the first task that lands. Those that check have lower ones."""
_BALANCE: Final = pa.struct(
    [
        ("directory", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("from", pa.int64()),
        ("to", pa.int64()), *((name, pa.int64()) for name in COUNTS), ("again", pa.int64()),
        ("repeated", pa.int64()), ("bytes", pa.int64()), ("pendingBytes", pa.int64()), ("errors", pa.int64()),
        ("held", pa.bool_()), ("notes", pa.list_(pa.string())),
    ]
)  # fmt: skip
_CATALOG: Final = "kdump"
"""Of Iceberg: its warehouse is TARGET, its table is ``records``."""
_MARK: Final = "kdump-batch"
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


@dataclass(slots=True)
class _RunState:
    """The checkpoint: the last batch that is complete, and what has landed of each partition by its directory."""

    target: str
    batch: int
    options: dict[str, Any]
    partitions: dict[str, Known] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes, path: str) -> _RunState:
        """Raises KdumpError UNREADABLE; ``path``: of the file, for the message."""
        try:
            value = json.loads(data)
            known = {directory: Known(**each) for directory, each in value.pop("partitions").items()}
            return cls(**value, partitions=known)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            raise KdumpError(Codes.UNREADABLE, "is no checkpoint of a pipeline", path=path) from None

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()


@dataclass(slots=True)
class _Account:
    """A partition in a batch: its part of the plan, and what became of it."""

    plan: LandingPlan
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


class Pipeline:
    """One run.

    Args:
        spark: the session.
        sources: as they were given.
        target: as it was given.
        lake: its files; nobody else writes them.
        options: see PipelineOptions.

    Raises:
        KdumpError: see ``pipeline.run``; so is ValueError.
    """

    def __init__(
        self, spark: SparkSession, sources: list[str], target: str, lake: Lake, options: PipelineOptions
    ) -> None:
        self._spark = spark
        self._given = sources
        self._paths = [files.strip_credentials(path) for path in sources]
        self._target = target if "://" in target else absolute_path(target)
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

    def _begun(self) -> _RunState:
        """The checkpoint, after what another run left unfinished was finished or removed."""
        state = self._read(_STATE) or _RunState(secrets.token_hex(8), 0, self._options.lasting)
        if state.options != self._options.lasting:
            raise ValueError(f"{self._lake.shown} was begun with other options: {json.dumps(state.options)}")
        self._state = state
        staged = self._read(_STAGED)
        if staged is not None:
            # It may even be complete, with files that are still to be removed.
            self._finish(staged)
        elif self._lake.read(OPEN_BATCH) is not None:
            self._discard()
        return self._state

    def _read(self, name: str) -> _RunState | None:
        data = self._lake.read(name)
        return None if data is None else _RunState.of(data, f"{self._lake.shown}/{name}")

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
    ) -> tuple[list[str], dict[str, PartitionLog], int, list[LandingPlan]]:
        """What of SOURCE cannot be listed, all partitions, how many have no news, and the plans of the others."""
        errors: list[KdumpError] = []
        for path in self._given:
            # What was known of its directories is forgotten.
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
        plans: list[LandingPlan] = list(
            on_spark(self._spark, tasks, Work(function, PLANS.pack, PLANS.unpack, Workplace.of(self._paths)))
        )
        gone = [gone_partition(name, known[name]) for name in sorted(known.keys() - logs) if not known[name].is_gone]
        return list(map(str, errors)), logs, len(logs) - len(news), [*plans, *gone]

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
        tasks = packed(ranges)
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

    def _finish(self, after: _RunState) -> None:
        """The batch has landed, except for the rows of a table."""
        staged: list[str] = []
        if self._is_table:
            prefix = f"{_STAGING}/{prefix_of(after.batch)}"
            staged = [name for name in self._lake.names(_STAGING) if name.startswith(prefix)]
            form, by = self._options.format, self._options.partition_by
            with translated_errors(form, self._lake.shown):
                _append_batch(
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
            groups.append(SizedGroup(Group(paths, log.directory if is_whole else None), size))
        stores = tuple(files.with_credentials(path) for path in self._paths)
        inputs = inputs_of(self._given, ignore_error, with_patterns=True)
        own = FindingTask(stores, inputs=tuple(inputs))
        tasks = packed(groups)
        partitions = [FindingTask(stores, tuple(sized.group for sized in task)) for task in tasks]
        return [LandTask(number, check=task) for number, task in enumerate([own, *partitions])]

    def _work(self, landing: Landing, tasks: Sequence[LandTask]) -> Iterator[Landed | Checked]:
        work = Work(landing, LANDED.pack, LANDED.unpack, Workplace.of(self._paths))
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


def _batches(plans: Sequence[LandingPlan], most: int, *, cuts: bool) -> Iterator[list[_Account]]:
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


def _append_batch(
    spark: SparkSession, target: str, names: Sequence[str], *, form: str, by: Sequence[str], writer: str, batch: int
) -> None:
    """Append the staged files ``names`` of a batch to ``TARGET/records``, unless it has them. Raises what Spark does.

    Source: Delta's "Idempotent table writes in foreachBatch" (txnAppId, txnVersion); Iceberg's snapshot properties
    (``snapshot-property.``) and its metadata table ``snapshots``.

    Args:
        spark: a session that has the package of the format.
        target: as Spark's own file systems call it.
        names: of files in the target.
        form: delta or iceberg.
        by: columns that the table is partitioned by.
        writer: names this pipeline in the table.
        batch: its number.
    """
    if not names:
        return
    from pyspark.sql.functions import col

    rows = spark.read.parquet(*(f"{target}/{name}" for name in names))
    if form == "delta":
        once = {"txnAppId": writer, "txnVersion": str(batch)}
        rows.write.format("delta").mode("append").partitionBy(*by).options(**once).save(f"{target}/records")
        return
    catalog = f"spark.sql.catalog.{_CATALOG}"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.warehouse", target)
    table = f"{_CATALOG}.records"
    mark = f"{writer}-{batch}"
    to = rows.sortWithinPartitions(*by).writeTo(table).option(f"snapshot-property.{_MARK}", mark)
    if not spark.catalog.tableExists(table):
        to = to.using("iceberg")
        (to.partitionedBy(*map(col, by)) if by else to).create()
    elif not spark.table(f"{table}.snapshots").where(f"summary['{_MARK}'] = '{mark}'").count():
        to.append()
