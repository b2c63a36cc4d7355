"""``kdump convert``: which segments become which files, and how all files get their names together."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias
from uuid import uuid4

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.convert.conversion import Conversion, LossKind
from kdump.convert.export import ExportJob, Form, export_segment
from kdump.convert.offsetmap import OFFSET_MAP
from kdump.convert.output import WrittenSegment
from kdump.convert.segment import SegmentJob, SegmentResult, convert_segment, count_records, world_conversion
from kdump.convert.slices import EndMarker
from kdump.inputs import (
    Input,
    LogSegment,
    OtherFile,
    PathDirectory,
    Sibling,
    Stream,
    WorldLog,
    file_by_name,
)
from kdump.kafka.startup.logdirectory import DELETE, parse_folder
from kdump.log import files
from kdump.log.lock import is_held
from kdump.log.named import is_stream
from kdump.log.names import MAX_OFFSET, Kind, sibling
from kdump.log.partition import log_directory_above
from kdump.payloads.choice import DecoderChoice
from kdump.reading.transactionreader import TransactionReader
from kdump.system.files import (
    Staged,
    discard,
    discard_others,
    like_of,
    make_directories,
    publish,
    remove_empty,
    written_by,
)
from kdump.system.paths import absolute_path, normal_path
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Runner, Work, Workplace
from kdump.worlds import World

if TYPE_CHECKING:
    from kdump.rows.arrowparts import Reshape

_OFFSET_NAME: Final = re.compile(r"(\d{20})\.log")
_INDEX_FILES: Final = (Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)

_RESULT: Final = PlainData((Codes, Finding, LossKind, EndMarker, SegmentResult, Severity, Staged, WrittenSegment))

Job: TypeAlias = SegmentJob | ExportJob
AnyLog: TypeAlias = Stream | LogSegment | WorldLog


class DestinationError(Exception):
    """A destination that cannot be used: one line for people."""


def run_job(job: Job, followed: TransactionReader | None = None) -> SegmentResult:
    """Run one job; errors are in the result. See ``convert_segment``."""
    if isinstance(job, SegmentJob):
        return convert_segment(job, followed)
    return export_segment(job, followed)


def run_in_order(jobs: Iterable[Job]) -> Generator[SegmentResult, None, None]:
    """The results of all jobs, one after the other; what is read of a partition's transactions is read once."""
    followed = TransactionReader()
    for job in jobs:
        yield run_job(job, followed)


def run_jobs(jobs: Sequence[Job], run: Runner, source: str) -> Generator[SegmentResult, None, None]:
    """The results of all jobs, in their order. Nothing is left of tasks that failed, or were run again.

    Args:
        jobs: their sources and targets must mean the same files in every process.
        run: runs the tasks.
        source: the PATH for which the jobs were planned.

    Raises:
        KdumpError: the job fails.
    """
    name = uuid4().hex
    place = Workplace.of([source], (job.target for job in jobs))
    work = Work(partial(_run_job, name), _RESULT.pack, _RESULT.unpack, place, lost=_died, size=_size)
    staged: list[Staged] = []
    try:
        with closing(run([[job] for job in jobs], work)) as results:
            for result in results:
                staged += result.staged
                yield result
    finally:
        discard_others(dict.fromkeys(os.path.dirname(job.target) for job in jobs), name, staged)


def _run_job(name: str, job: Job) -> Iterator[SegmentResult]:
    """The result of a job of the run ``name``."""
    with written_by(name):
        yield run_job(job)


def _died(job: Job, count: int, error: KdumpError) -> Iterator[SegmentResult]:
    """The process was killed that did a job; see ``Work.lost``."""
    yield SegmentResult(job.source, error.located(job.source))


def _size(job: Job) -> int:
    with suppress(KdumpError):
        return files.size(job.source)
    return 0


def plan_conversion(
    found: Input,
    destination: str,
    conversion: Conversion,
    *,
    world: World | None = None,
    maps_offsets: bool = False,
) -> list[SegmentJob]:
    """The segments of a path and the logs that they become.

    Args:
        found: the source.
        world: all logs of a directory are of this world, too.
        destination: for the logs.
        conversion: what they become.
        maps_offsets: write the map from byte positions of such logs, or from offsets that are renumbered, too.

    Raises:
        KdumpError: MISSING, UNREADABLE, NO_SEGMENTS, NOT_A_SEGMENT_FILE, OFFSET_TOO_LARGE.
        DestinationError: a log would replace a file of the source.
    """
    is_alone = not isinstance(found, PathDirectory)
    jobs: list[SegmentJob] = []
    for log, target in _pairs(found, destination, Kind.LOG.value):
        if (its_world := log.world or world) is not None:
            # The segments of a partition come after one another, and each is named by what those before it hold.
            job = SegmentJob(log.path, target, None, conversion, is_alone=is_alone, world=its_world)
            jobs.append(_numbered_in_world(job, jobs, maps_offsets=maps_offsets))
            continue
        base_offset = _offset_in(target)
        if base_offset is None:
            base_offset = _base_offset(log)
        jobs.append(SegmentJob(log.path, target, base_offset, conversion, is_alone=is_alone))
    if conversion.renumber is not None and not any(job.world is not None for job in jobs):
        jobs = list(_numbered(jobs, conversion.renumber, not is_alone or _is_directory(destination)))
        if maps_offsets:
            jobs = [replace(job, offset_map=_map_of(job.target)) for job in jobs]
    _refuse_sources(jobs)
    return jobs


def _base_offset(log: AnyLog) -> int | None:
    return None if isinstance(log, Stream) else log.base_offset


def _numbered_in_world(job: SegmentJob, before: Sequence[SegmentJob], *, maps_offsets: bool) -> SegmentJob:
    """A job for a log of another world, with the number of its first message, which follows those of ``before``.

    Raises KdumpError where a log before it cannot be read.
    """
    source, target, conversion = job.source, job.target, job.conversion
    number = conversion.renumber or 0
    last = before[-1] if before else None
    if last is not None and last.world is not None and os.path.dirname(last.source) == os.path.dirname(source):
        number = last.first + world_conversion(last.world).count_messages(last.source, conversion.limit)
        _refuse_too_large(number, conversion.renumber or 0, source)
    if not job.is_alone or target.endswith("/") or os.path.isdir(target):
        target = os.path.join(os.path.dirname(target), _log_name(number))
    named = _offset_in(target)
    return replace(
        job,
        target=target,
        base_offset=number if named is None else named,
        conversion=replace(conversion, renumber=None),
        first=number,
        offset_map=_map_of(target) if maps_offsets else None,
    )


def plan_import(found: Input, destination: str, conversion: Conversion) -> list[SegmentJob]:
    """The log that a file of JSON lines becomes. Raises as ``plan_conversion``."""
    source = found.path
    if isinstance(found, PathDirectory):
        raise KdumpError(Codes.UNREADABLE, "is a directory, JSON lines are read from a file", path=source)
    target = destination
    if _is_directory(destination):
        target = os.path.join(destination, "" if conversion.renumber is None else _log_name(conversion.renumber))
    base_offset = _offset_in(target)
    jobs = [SegmentJob(source, target, conversion.renumber if base_offset is None else base_offset, conversion, True)]
    _refuse_sources(jobs)
    return jobs


def plan_export(
    found: Input,
    destination: str,
    form: Form,
    conversion: Conversion,
    *,
    is_safe: bool = False,
    world: World | None = None,
    decoding: DecoderChoice | None = None,
    reshape: Callable[[str | None], Reshape | None] = lambda topic: None,
) -> list[ExportJob]:
    """The segments of a source and the files to make of them; see ``plan_conversion``.

    ``decoding`` and, by the topic of a log, ``reshape``: see ExportJob.
    """
    choice = decoding or DecoderChoice()
    jobs = [
        ExportJob(
            log.path,
            target,
            form,
            conversion,
            is_safe,
            log.world or world,
            _base_offset(log),
            choice,
            reshape(log.topic if isinstance(log, LogSegment) else None),
        )
        for log, target in _pairs(found, destination, f".{form}")
    ]
    _refuse_sources(jobs)
    return jobs


class Outputs:
    """What the jobs of a run have written. Only ``publish`` gives files their names; without it nothing is left.

    Args:
        jobs: of the run.
        overwrites: replace files that are there.

    Raises:
        KdumpError: UNWRITABLE: a directory cannot be made, or belongs to a running broker, or would stop one at its
            next start, or what has the name of a file is none. OUTPUT_EXISTS.
    """

    def __init__(self, jobs: Sequence[Job], *, overwrites: bool = False) -> None:
        self._jobs = jobs
        self._overwrites = overwrites
        self._staged: list[Staged] = []
        self._logs: list[str] = []
        self._made: list[str] = []
        self._targets = {job.source: job.target for job in jobs}
        self._counts = Counter(job.target for job in jobs)

    def __enter__(self) -> Self:
        directories = _target_directories(self._jobs)
        for directory in directories:
            for log_directory in (directory, os.path.dirname(absolute_path(directory))):
                if is_held(log_directory):
                    raise KdumpError(Codes.UNWRITABLE, "a broker runs on this log directory", path=log_directory)
            _refuse_folder(directory)
        for job in self._jobs:
            for path in _files_of(job):
                self._check_place(path)
        try:
            for directory, like in directories.items():
                self._made += make_directories(directory, like)
        except OSError as error:
            self._remove_directories()
            raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=error.filename) from None
        return self

    def add(self, result: SegmentResult) -> SegmentResult:
        """Note what a job has staged; returns the result.

        Segments with nothing in the range are not written if there are several: they would be empty logs. An empty one
        is not written either where it would have the name of another one, as when it is renumbered.
        """
        if len(self._jobs) > 1 and self._jobs[0].conversion.selects and result.is_empty:
            result.discard("nothing of it is in the range, it is not written")
        elif result.is_empty and self._counts[self._targets[result.source]] > 1:
            result.discard("it is empty, and another segment has its name; it is not written")
        self._staged += result.staged
        self._logs += (segment.path for segment in result.segments if segment.base_offset is not None)
        return result

    def publish(self) -> None:
        """Give all files their names.

        Raises:
            KdumpError: UNWRITABLE or OUTPUT_EXISTS, with everything as before. A segment that was split off never
                replaces a file beside the source, and no file another one of the run.
        """
        planned = {path for job in self._jobs for path in _files_of(job)}
        sources, beside = _sources(self._jobs), _beside(self._jobs)
        for _, path in self._staged:
            is_beside = os.path.lexists(path) and _directory_of(path) in beside
            if path not in planned and (_identity(path) in sources or is_beside):
                raise KdumpError(Codes.UNWRITABLE, "exists beside the source", path=path)
            self._check_place(path)
        try:
            written = {path for _, path in self._staged}
            # An old index does not fit the new log.
            stale = {path for log in self._logs for path in _with_indexes(log)} - written
            for path in stale:
                self._check_place(path)
            publish(self._staged, stale)
        except OSError as error:
            raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=error.filename) from None
        self._staged = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        discard(self._staged)
        self._remove_directories()

    def _check_place(self, path: str) -> None:
        """Raises KdumpError UNWRITABLE or OUTPUT_EXISTS for what a file must not replace.

        Directories, devices and pipes are never replaced. A link of /proc, such as /dev/stdout, is what is open there.
        """
        with suppress(FileNotFoundError, NotADirectoryError):
            is_open_file = os.path.islink(path) and os.readlink(path).startswith("/proc/")
            if is_open_file or not stat.S_ISREG(os.stat(path).st_mode):
                raise KdumpError(Codes.UNWRITABLE, "is there and is no regular file", path=path)
        if os.path.lexists(path) and not self._overwrites:
            raise KdumpError(Codes.OUTPUT_EXISTS, "is there already; --overwrite replaces it", path=path)

    def _remove_directories(self) -> None:
        """Remove directories that were made and are empty, the innermost first."""
        remove_empty(sorted(self._made, key=len, reverse=True))


def _pairs(source: Input, destination: str, suffix: str) -> Iterator[tuple[AnyLog, str]]:
    """Each segment of ``source``, and the file that it becomes."""
    match source:
        case PathDirectory() as directory:
            yield from _pairs_below(directory, destination, suffix)
        case Stream() | LogSegment() | WorldLog() as log:
            if _is_directory(destination):
                if isinstance(log, Stream) or is_stream(log.path):
                    raise DestinationError("a stream has no name: give the name of the file to write")
                destination = os.path.join(destination, log.stem + suffix)
            yield log, destination
        case Sibling(path=path):
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "only a log can be converted", path=path)
        case OtherFile() as file:
            raise file.error


def _pairs_below(directory: PathDirectory, destination: str, suffix: str) -> Iterator[tuple[AnyLog, str]]:
    if os.path.lexists(destination) and not os.path.isdir(destination):
        raise DestinationError(f"{directory.path} is a directory, {destination} is a file")
    errors: list[KdumpError] = []
    for log in directory.files(errors.append):
        if isinstance(log, Sibling):
            continue
        folder = os.path.relpath(os.path.dirname(log.path), directory.path)
        yield log, normal_path(os.path.join(destination, folder, log.stem + suffix))
    if errors:
        raise errors[0]


def _numbered(jobs: Sequence[SegmentJob], first: int, names_logs: bool) -> Iterator[SegmentJob]:
    """The jobs with their first offsets; those of a partition continue one another."""
    followed = TransactionReader()
    for _, partition in groupby(jobs, key=lambda job: os.path.dirname(job.source)):
        of_partition = list(partition)
        offset = first
        for number, job in enumerate(of_partition):
            _refuse_too_large(offset, first, job.source)
            target = os.path.join(os.path.dirname(job.target), _log_name(offset)) if names_logs else job.target
            base_offset = _offset_in(target)
            yield replace(
                job,
                target=target,
                base_offset=offset if base_offset is None else base_offset,
                conversion=replace(job.conversion, renumber=offset),
            )
            if number < len(of_partition) - 1:
                offset += count_records(job, followed)


def _refuse_too_large(offset: int, first: int, source: str) -> None:
    """Raises KdumpError for a log that, renumbered from ``first`` on, would begin at an offset that there is not."""
    if offset > MAX_OFFSET:
        message = f"renumbered from {first} on, this segment would begin at offset {offset}, above {MAX_OFFSET}"
        raise KdumpError(Codes.OFFSET_TOO_LARGE, message, path=source)


def _refuse_sources(jobs: Sequence[Job]) -> None:
    """Raises DestinationError if a job would replace a file of a source, or another segment beside a source."""
    sources, beside = _sources(jobs), _beside(jobs)
    for job in jobs:
        for path in _files_of(job):
            if _identity(path) in sources:
                raise DestinationError(f"{path} is (or belongs to) the source")
        if _offset_in(job.target) is not None and os.path.lexists(job.target) and _directory_of(job.target) in beside:
            raise DestinationError(f"{job.target} is another segment beside the source")


def _refuse_folder(directory: str) -> None:
    """Raises KdumpError UNWRITABLE for a directory in a log directory that stops a broker, or that it deletes."""
    above = log_directory_above(directory)
    first = None if above is None else os.path.relpath(os.path.realpath(directory), above).split(os.sep)[0]
    if first is None or first == os.curdir:
        return
    folder = parse_folder(first)
    if folder is None or folder[1] == DELETE:
        what = "does not start with" if folder is None else "deletes"
        message = f"{above} is a log directory, and a broker {what} a directory {first} in it"
        raise KdumpError(Codes.UNWRITABLE, message, path=directory)


def _target_directories(jobs: Sequence[Job]) -> dict[str, os.stat_result | None]:
    """Where files are written, and the directory that they come from; None where that is no directory here."""
    found: dict[str, os.stat_result | None] = {}
    for job in jobs:
        target = os.path.dirname(job.target)
        if target not in found:
            found[target] = None
            with suppress(OSError):
                found[target] = None if is_stream(job.source) else like_of(os.path.dirname(job.source) or os.curdir)
    return found


def _sources(jobs: Sequence[Job]) -> set[tuple[int, int]]:
    """The files that belong to the sources."""
    sources = set()
    for job in jobs:
        paths = [job.source]
        if not is_stream(job.source) and file_by_name(job.source) is not None:
            paths += [sibling(job.source, kind) for kind in Kind]
        sources |= {identity for path in paths if (identity := _identity(path)) is not None}
    return sources


def _beside(jobs: Sequence[Job]) -> set[tuple[int, int]]:
    """The directories of the segments that are sources."""
    sources = (job.source for job in jobs if not (is_stream(job.source) or _is_json(job)))
    return {identity for source in sources if (identity := _directory_of(source)) is not None}


def _files_of(job: Job) -> list[str]:
    """The files that a job may write, as far as they are known in advance."""
    if isinstance(job, ExportJob):
        return [job.target]
    maps = [] if job.offset_map is None else [job.offset_map]
    return [*_with_indexes(job.target), *maps] if os.path.basename(job.target) else maps


def _with_indexes(log: str) -> list[str]:
    stem = log.removesuffix(Kind.LOG.value)
    return [log, *(stem + kind.value for kind in _INDEX_FILES)]


def _is_json(job: Job) -> bool:
    return isinstance(job, SegmentJob) and job.from_json


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _directory_of(path: str) -> tuple[int, int] | None:
    return _identity(os.path.dirname(path) or os.curdir)


def _is_directory(destination: str) -> bool:
    return destination.endswith("/") or os.path.isdir(destination)


def _map_of(log: str) -> str:
    return log.removesuffix(Kind.LOG.value) + OFFSET_MAP


def _log_name(offset: int) -> str:
    return f"{offset:020d}{Kind.LOG.value}"


def _offset_in(target: str) -> int | None:
    """The offset in a log's name; None if it has another name, or an offset above the largest one."""
    match = _OFFSET_NAME.fullmatch(os.path.basename(target))
    return int(match[1]) if match and int(match[1]) <= MAX_OFFSET else None
