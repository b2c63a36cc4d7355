"""One start of one partition directory: the steps in order, and what they leave.

Source: docs/spec/startup.md#6-the-end-of-a-start (rules 22 to 28; LogLoader.load, the constructor of UnifiedLog,
LogManager.loadLog).
"""

from __future__ import annotations

from kdump.codes import Codes, KdumpError
from kdump.kafka.producers import ProducerStates
from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.loader import Loading, finish_swaps, load_segments, recover_log
from kdump.kafka.startup.names import LOG, covering, offset_of
from kdump.kafka.startup.outcome import (
    KAFKA,
    OpenTransaction,
    Served,
    Start,
    StartFailure,
    StartFailureError,
    StartOutcome,
)
from kdump.kafka.startup.producers import ProducerManager
from kdump.kafka.startup.segment import StartSegment
from kdump.kafka.startup.splits import split_on_overflow
from kdump.kafka.startup.textfiles import check_topic_id


def start(directory: Directory, settings: LoadSettings) -> Start:
    """What a broker makes of a partition directory.

    Args:
        directory: the files before the start; it is changed to what a start leaves.
        settings: what the broker knows of it.

    Raises:
        KdumpError: a file cannot be opened.
    """
    loading: Loading | None = None
    served, failure = None, None
    try:
        loading = Loading(directory, settings)
        served = _load(loading)
    except StartFailureError as error:
        failure = error
    except KdumpError as error:
        if error.position is None or error.code is Codes.CHANGED_WHILE_READ:
            raise
        # FileLogInputStream makes an unchecked exception of a block that cannot be read.
        failure = StartFailureError(KAFKA, str(error))
    if loading is not None:
        loading.epochs.flush()
    outcome = StartOutcome.STARTS
    if failure is not None:
        outcome = StartOutcome.DIR_OFFLINE if failure.is_io else StartOutcome.BROKER_STOPS
    return Start(
        outcome,
        served,
        None if failure is None else StartFailure(failure.java_class or None, failure.message),
        () if loading is None else tuple(loading.recovered),
        {} if loading is None else loading.removed,
        () if loading is None else tuple(sorted({name for name in loading.deleted_later if name in directory})),
    )


def open_transactions(
    directory: Directory, settings: LoadSettings, log_start_offset: int, end_offset: int
) -> tuple[OpenTransaction, ...]:
    """Transactions that batches between two offsets leave open, whether the broker knows them or not.

    Raises:
        KdumpError: a file cannot be opened.
    """
    try:
        producers = ProducerManager(directory, settings)
        producers.rebuild(_segments(directory, settings), log_start_offset, end_offset, is_clean=False)
    except StartFailureError:
        return ()
    return _open(producers)


def producers_at_end(directory: Directory, settings: LoadSettings) -> ProducerStates | None:
    """What a broker finds out about the producers at the end of a log, from its snapshots and batches.

    ``end_offset`` of the states is that of the log. None if the log cannot be read to its end, or has no batch
    after its start.

    Args:
        directory: the files before the start; its snapshots are changed as a start changes them.
        settings: what the broker knows of it.

    Raises:
        KdumpError: a file cannot be opened.
    """
    try:
        segments = _segments(directory, settings)
        if not segments:
            return None
        end = segments[max(segments)].next_offset()
        start_offset = max(settings.log_start_offset, min(segments))
        if end <= start_offset:
            return None
        producers = ProducerManager(directory, settings)
        producers.rebuild(segments, start_offset, end, is_clean=False)
    except StartFailureError:
        return None
    except KdumpError as error:
        if error.position is None or error.code is Codes.CHANGED_WHILE_READ:
            raise
        return None
    return producers.states


def _segments(directory: Directory, settings: LoadSettings) -> dict[int, StartSegment]:
    bases = [offset_of(name) for name in directory.names() if name.endswith(LOG)]
    return {base: StartSegment(directory, base, settings) for base in bases}


def _open(producers: ProducerManager) -> tuple[OpenTransaction, ...]:
    ongoing = producers.states.ongoing
    return tuple(OpenTransaction(ongoing[first_offset], first_offset) for first_offset in sorted(ongoing))


def _load(loading: Loading) -> Served:
    settings, producers = loading.settings, loading.producers
    finish_swaps(loading)
    split_on_overflow(loading, load_segments)
    recovery_point, end = split_on_overflow(loading, recover_log)
    last = loading.last_segment
    last.index.grow()
    last.time_index.grow()
    loading.epochs.cut_end(end)
    log_start = settings.log_start_offset
    if settings.tiered_by is None:
        log_start = max(log_start, min(loading.segments))
    loading.epochs.cut_start(settings.log_start_offset)
    producers.remove_strays(loading.segments)
    producers.rebuild(loading.segments, log_start, end, is_clean=settings.is_clean)
    undecided = producers.first_undecided_offset
    first_unstable = None if undecided is None else _batch_offset(loading, max(undecided, log_start), end)
    check_topic_id(loading.directory)
    return Served(
        log_start,
        max(recovery_point, log_start),
        end,
        first_unstable,
        tuple((base, loading.segments[base].size) for base in sorted(loading.segments)),
        last.visible_size,
        _open(producers),
        producers.is_forgotten,
    )


def _batch_offset(loading: Loading, offset: int, end: int) -> int:
    """The base offset of the batch that holds an offset, or of the first one after it; else the end.

    A broker looks it up in the log, and stops if the log cannot be read on the way.
    """
    segments = loading.segments
    if offset >= end or offset < min(segments):
        return offset
    for base in covering(segments, offset):
        found = segments[base].find(offset)
        if found is not None:
            return found[1]
    return end
