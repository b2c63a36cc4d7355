"""``kdump convert``: which segments become which files, and how these get into their places together."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from types import TracebackType
from typing import Final, Self, TypeAlias

from kdump.codes import Codes, KdumpError
from kdump.convert.conversion import Conversion
from kdump.convert.segment import SegmentJob, SegmentResult, convert_segment, count_records
from kdump.engine.export import ExportJob, Form, export_segment
from kdump.log import files
from kdump.log.lock import is_held
from kdump.log.names import Kind, parse_file_name
from kdump.log.partition import segment_files
from kdump.log.source import STDIN, is_stream
from kdump.writers.files import Staged, discard, make_directories, publish, remove_empty

_OFFSET_NAME: Final = re.compile(r"(\d{20})\.log")
_LOG_FILES: Final = (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)

Job: TypeAlias = SegmentJob | ExportJob


class DestinationError(Exception):
    """The destination cannot be meant: one line for people."""


def run_job(job: Job, progress: Callable[[int, int | None], None] = lambda done, size: None) -> SegmentResult:
    """One segment; whatever goes wrong is in the result."""
    return convert_segment(job, progress) if isinstance(job, SegmentJob) else export_segment(job, progress)


def plan_conversion(source: str, destination: str, conversion: Conversion) -> list[SegmentJob]:
    """The segments of a path and the logs that they become.

    Raises:
        KdumpError: MISSING, UNREADABLE, NO_SEGMENTS, NOT_A_SEGMENT_FILE.
        DestinationError: a log would replace a file of the source.
    """
    jobs = []
    for path, target in _pairs(source, destination, Kind.LOG.value):
        name = None if _is_pipe(path) else parse_file_name(path)
        base_offset = _offset_in(target)
        if base_offset is None and name is not None:
            base_offset = name.base_offset
        jobs.append(SegmentJob(path, target, base_offset, conversion))
    if conversion.renumber is not None:
        jobs = list(_numbered(jobs, conversion.renumber, files.is_directory(source) or _is_directory(destination)))
    _refuse_sources(jobs)
    return jobs


def plan_import(source: str, destination: str, conversion: Conversion) -> list[SegmentJob]:
    """The log that a file of JSON lines becomes. Raises as ``plan_conversion``."""
    if files.is_directory(source):
        raise KdumpError(Codes.UNREADABLE, "is a directory, JSON lines are read from a file", path=source)
    first = conversion.renumber or 0
    target = os.path.join(destination, _log_name(first)) if _is_directory(destination) else destination
    base_offset = _offset_in(target)
    jobs = [SegmentJob(source, target, conversion.renumber if base_offset is None else base_offset, conversion, True)]
    _refuse_sources(jobs)
    return jobs


def plan_export(source: str, destination: str, form: Form, conversion: Conversion) -> list[ExportJob]:
    """The segments of a path and the files made of them. Raises as ``plan_conversion``."""
    jobs = [ExportJob(path, target, form, conversion) for path, target in _pairs(source, destination, f".{form}")]
    _refuse_sources(jobs)
    return jobs


class Outputs:
    """What the jobs of a run have written: nothing is in its place before ``publish``, and nothing left without it.

    Raises:
        KdumpError: UNWRITABLE: a directory cannot be made, or belongs to a running broker.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._staged: list[Staged] = []
        self._made: list[str] = []

    def __enter__(self) -> Self:
        directories = list(dict.fromkeys(os.path.dirname(job.target) for job in self._jobs))
        for directory in directories:
            for log_directory in (directory, os.path.dirname(os.path.abspath(directory))):
                if is_held(log_directory):
                    raise KdumpError(Codes.UNWRITABLE, "a broker runs on this log directory", path=log_directory)
        try:
            for directory in directories:
                self._made += make_directories(directory)
        except OSError as error:
            self._remove_directories()
            raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=error.filename) from None
        return self

    def add(self, result: SegmentResult) -> SegmentResult:
        """Keep track of what a job has staged; gives the result back."""
        self._staged += result.staged
        return result

    def publish(self) -> None:
        """Put everything in its place.

        Raises:
            KdumpError: UNWRITABLE, with nothing in its place when a segment that was split off would replace a file
                beside the source.
        """
        planned = {path for job in self._jobs for path in _files_of(job)}
        beside = {os.path.realpath(os.path.dirname(job.source)) for job in self._jobs}
        for _, path in self._staged:
            if path not in planned and os.path.lexists(path) and os.path.realpath(os.path.dirname(path)) in beside:
                raise KdumpError(Codes.UNWRITABLE, "exists beside the source", path=path)
        try:
            publish(self._staged)
            written = {path for _, path in self._staged}
            # An index of what was there before says nothing about what is there now.
            discard(Staged(path, path) for path in planned - written)
        except OSError as error:
            raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=error.filename) from None
        self._staged = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        discard(self._staged)
        self._remove_directories()

    def _remove_directories(self) -> None:
        """Those that were made and are empty, the innermost first."""
        remove_empty(sorted(self._made, key=len, reverse=True))


def _pairs(source: str, destination: str, suffix: str) -> Iterator[tuple[str, str]]:
    """Each segment of ``source`` and the file that it becomes."""
    if not files.is_directory(source):
        name = None if _is_pipe(source) else parse_file_name(source)
        if name is None and not _is_pipe(source):
            code = Codes.NOT_A_SEGMENT_FILE if files.exists(source) else Codes.MISSING
            raise KdumpError(code, code.value.title, path=source)
        if name is not None and name.kind not in (Kind.LOG, Kind.CHECKPOINT):
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "only a log can be converted", path=source)
        if _is_directory(destination):
            if name is None:
                raise DestinationError("a stream has no name: give the name of the file to write")
            destination = os.path.join(destination, name.stem + suffix)
        yield source, destination
        return
    if os.path.lexists(destination) and not os.path.isdir(destination):
        raise DestinationError(f"{source} is a directory, {destination} is a file")
    errors: list[KdumpError] = []
    for path in segment_files(source, errors.append):
        name = parse_file_name(path)
        assert name is not None
        folder = os.path.relpath(os.path.dirname(path), source)
        yield path, os.path.normpath(os.path.join(destination, folder, name.stem + suffix))
    if errors:
        raise errors[0]


def _numbered(jobs: Sequence[SegmentJob], first: int, names_logs: bool) -> Iterator[SegmentJob]:
    """The jobs with the offset that each begins with; those of a partition go on one behind the other."""
    for _, partition in groupby(jobs, key=lambda job: os.path.dirname(job.source)):
        of_partition = list(partition)
        offset = first
        for number, job in enumerate(of_partition):
            target = os.path.join(os.path.dirname(job.target), _log_name(offset)) if names_logs else job.target
            base_offset = _offset_in(target)
            yield replace(
                job,
                target=target,
                base_offset=offset if base_offset is None else base_offset,
                conversion=replace(job.conversion, renumber=offset),
            )
            if number < len(of_partition) - 1:
                offset += count_records(job)


def _refuse_sources(jobs: Sequence[Job]) -> None:
    """DestinationError when a job would replace a file that belongs to a source."""
    sources = set()
    for job in jobs:
        name = None if _is_pipe(job.source) else parse_file_name(job.source)
        paths = [job.source]
        if name is not None:
            stem = os.path.join(os.path.dirname(job.source), name.stem)
            paths += [f"{stem}{kind.value}{name.state}" for kind in Kind]
        sources |= {identity for path in paths if (identity := _identity(path)) is not None}
    for job in jobs:
        for path in _files_of(job):
            if _identity(path) in sources:
                raise DestinationError(f"{path} is (or belongs to) the source")


def _files_of(job: Job) -> list[str]:
    """The files that a job may write, as far as they are known before."""
    if isinstance(job, ExportJob):
        return [job.target]
    stem = job.target.removesuffix(Kind.LOG.value)
    return [job.target, *(stem + kind.value for kind in _LOG_FILES[1:])]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _is_pipe(path: str) -> bool:
    return path == STDIN or is_stream(path)


def _is_directory(destination: str) -> bool:
    return destination.endswith("/") or os.path.isdir(destination)


def _log_name(offset: int) -> str:
    return f"{offset:020d}{Kind.LOG.value}"


def _offset_in(target: str) -> int | None:
    """The offset that a log is named by."""
    match = _OFFSET_NAME.fullmatch(os.path.basename(target))
    return int(match[1]) if match else None
