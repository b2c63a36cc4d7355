"""Findings as Arrow record batches: partition by partition, and those that only a whole PATH shows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from kdump.codes import Codes, Finding, KdumpError, raise_error
from kdump.inputs import Input, inputs_of
from kdump.log import files
from kdump.log.context import FileContext
from kdump.rows.arrow import row_batch
from kdump.rows.columns import Row
from kdump.rows.filetables import finding_row
from kdump.tasks.logs import NO_LOG_CODES, OPEN_COST, Wanted, packed
from kdump.verify.logdir import PartitionExtent
from kdump.verify.partition import Item, Judgement, PartitionCheck, base_offset_of, end_offset_of
from kdump.verify.readings import Group
from kdump.verify.run import Verification
from kdump.verify.segment import CheckOptions

_LOG: Final = logging.getLogger("kdump")
_ROWS_AT_A_TIME: Final = 4096


class SizedGroup(NamedTuple):
    """A group of segments with its size in bytes."""

    group: Group
    size: int


@dataclass(frozen=True, slots=True)
class FindingTask:
    """Partitions that are checked whole, and paths of which only names, checkpoints and the like are.

    ``stores``: paths that are entered before, with their credentials. That one which a pattern fits holds no
    segments is nothing to tell.
    """

    stores: tuple[str, ...] = field(default=(), repr=False)
    groups: tuple[Group, ...] = ()
    inputs: tuple[Input, ...] = ()


def read_findings(
    task: FindingTask, schema: pa.Schema, options: CheckOptions, *, fails_fast: bool = False
) -> Iterator[pa.RecordBatch]:
    """What ``verify`` finds. An error of reading a file is a finding too, with the code of the error.

    Raises:
        KdumpError: with ``fails_fast``, the first file or path that cannot be read.
    """
    rows: list[Row] = []
    for item in _items(task, options):
        if isinstance(item, KdumpError):
            if fails_fast:
                raise item
            _LOG.warning("kdump: %s", item)
            finding = Finding(item.code, item.message, item.position or 0, path=item.path)
        elif isinstance(item, Finding):
            finding = item
        else:
            continue
        rows.append(finding_row(finding))
        if len(rows) == _ROWS_AT_A_TIME:
            yield row_batch(rows, schema)
            rows = []
    if rows:
        yield row_batch(rows, schema)


def _items(task: FindingTask, options: CheckOptions) -> Iterator[Judgement]:
    for store in task.stores:
        files.strip_credentials(store)
    check = PartitionCheck(options)
    for group in task.groups:
        absolute = group.absolute()
        for item in check.segments(absolute.segments, absolute.folder):
            yield group.as_given(item)
    for found in task.inputs:
        for item in _input_items(found):
            if found.is_named or not (isinstance(item, KdumpError) and item.code in NO_LOG_CODES):
                yield item


def _input_items(found: Input) -> Iterator[Item | KdumpError]:
    errors: list[KdumpError] = []
    try:
        yield from Verification(_Extents(), on_error=errors.append).items(found)
    except KdumpError as error:
        errors.append(error.located(found.path))
    yield from errors


class _Extents:
    """Tells which offsets segments cover, without findings; see ``verify.run.Judge``."""

    def segments(self, segments: Sequence[str], folder: str | None) -> Iterator[Judgement]:
        """The extent by the names of the segments, and the last one that has batches."""
        first_base, last_base = base_offset_of(segments[0]), base_offset_of(segments[-1])
        end = None if folder is None else end_offset_of(segments)
        if first_base is not None and last_base is not None and end is not None:
            yield PartitionExtent(first_base, end, last_base)


def plan_findings(paths: Iterable[str], wanted: Wanted, task_bytes: int) -> list[FindingTask]:
    """Partitions put together until a task has ``task_bytes``, the largest ones first, and a task for the paths.

    Raises:
        KdumpError: a path that is not there.
    """
    # What is named comes before what only a pattern fits.
    inputs: dict[str, Input] = {}
    for one in sorted(inputs_of(paths, raise_error, with_patterns=True), key=lambda one: not one.is_named):
        inputs.setdefault(files.absolute(one.path), one)
    groups: list[Group] = []
    for one in inputs.values():
        own = Group.all_of(one)
        if not own and not files.exists(one.path):
            raise KdumpError(Codes.MISSING, "no such file or directory", path=one.path)
        groups += (group for group in own if wanted.accepts(FileContext.of(group.segments[0])))
    stores = tuple(files.with_credentials(one.path) for one in inputs.values())
    sized = [SizedGroup(group, _size(group)) for group in _each_once(groups)]
    tasks = packed(sized, task_bytes=task_bytes, open_cost=0)
    of_groups = [FindingTask(stores, tuple(one.group for one in task)) for task in tasks]
    return [FindingTask(stores, inputs=tuple(inputs.values())), *of_groups]


def _each_once(groups: Iterable[Group]) -> list[Group]:
    """Without those that are there already, and segments alone that are in a partition that is there too."""
    distinct = {group.absolute(): group for group in groups}
    whole = {group for group in distinct if group.folder is not None}
    covered = {path for group in whole for path in group.segments}
    return [given for group, given in distinct.items() if group in whole or covered.isdisjoint(group.segments)]


def _size(group: Group) -> int:
    size = 0
    for path in group.segments:
        with suppress(KdumpError):
            size += files.size(path) + OPEN_COST
    return size
