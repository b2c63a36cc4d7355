"""``kdump repair`` in this process: plans, repaired copies, repairs in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kdump.codes import Codes, KdumpError
from kdump.log.names import Kind, parse_file_name, sibling
from kdump.log.partition import segment_files
from kdump.log.source import STDIN, Source, open_source, reads_once
from kdump.mend.copies import CopyWriter
from kdump.mend.partitionfiles import PartitionFiles
from kdump.mend.place import log_directory_above
from kdump.mend.plan import PartitionPlan, Way
from kdump.mend.planning import Planner, Settings
from kdump.mend.staging import Staging


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What is asked for.

    ``way`` None: nothing in particular. ``output``: the directory for repaired copies, None: none are written.
    """

    way: Way | None = None
    settings: Settings = field(default_factory=Settings)
    output: str | None = None


class Repair:
    """One run over any number of paths.

    Args:
        options: what is asked for.
        opened: opens a log; to be replaced where reading is to be watched.
        on_error: takes what is wrong with one partition of several.
    """

    def __init__(
        self,
        options: RepairOptions,
        *,
        on_error: Callable[[KdumpError], None],
        opened: Callable[[str], Source] = open_source,
    ) -> None:
        self._options = options
        self._way = options.way or Way.LIKE_BROKER
        self._open = opened
        self._on_error = on_error

    def path(self, path: str) -> Iterator[PartitionPlan]:
        """Plan, or do, what one PATH stands for; a plan comes when its partition is done.

        Raises:
            KdumpError: the path cannot be looked at, or nothing is done about it.
        """
        if os.path.isdir(path):
            yield from self._directory(path)
        else:
            yield self._partition(path, [_log_of(path)], is_whole=False)

    def _directory(self, directory: str) -> Iterator[PartitionPlan]:
        partitions: dict[str, list[str]] = {}
        for segment in segment_files(directory, self._on_error):
            partitions.setdefault(os.path.dirname(segment), []).append(segment)
        for folder, segments in partitions.items():
            try:
                yield self._partition(folder, segments, is_whole=True)
            except KdumpError as error:
                self._on_error(error.located(folder))

    def _partition(self, target: str, segments: list[str], *, is_whole: bool) -> PartitionPlan:
        if self._options.output is not None:
            return self._copy(self._options.output, target, segments, is_whole=is_whole)
        return self._planner().partition(target, segments, is_whole=is_whole)

    def _planner(self, copies: CopyWriter | None = None) -> Planner:
        return Planner(self._way, self._options.settings, self._open, copies)

    def _copy(self, output: str, target: str, segments: list[str], *, is_whole: bool) -> PartitionPlan:
        above = log_directory_above(output)
        if above is not None:
            message = f"{above} is the log directory of a broker; give a directory outside of it"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=output)
        name = os.path.basename(os.path.abspath(target))
        with Staging(output) as staging:
            staging.refuse_existing([name] if is_whole else [])
            copies = CopyWriter(staging)
            plan = self._planner(copies).partition(target, segments, is_whole=is_whole)
            if plan.failed is None:
                if is_whole:
                    end = plan.segments[-1].recovered.recovery.next_offset
                    loss = plan.broker_loss()
                    end = loss.end_offset if loss is not None else end
                    copies.write_others(PartitionFiles.of(target), end_offset=end, sound_up_to=end)
                    staging.commit_directory(name)
                else:
                    staging.commit_files()
        return plan


def _log_of(path: str) -> str:
    """The log that a file stands for. Raises KdumpError MISSING, NOT_A_SEGMENT_FILE or UNREADABLE."""
    if path == STDIN or reads_once(path):
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "only files can be repaired", path=path)
    name = parse_file_name(path)
    if not os.path.lexists(path):
        raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=path)
    if name is None or name.kind is Kind.SNAPSHOT:
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, Codes.NOT_A_SEGMENT_FILE.value.title, path=path)
    return path if name.kind in (Kind.LOG, Kind.CHECKPOINT) else sibling(path, Kind.LOG)
