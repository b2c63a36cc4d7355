"""The values of each command's options, with types. The attributes have click's names, the values are click's.

A test compares each class with its command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kdump.inputs import Input
from kdump.worlds import World, world_of_format

if TYPE_CHECKING:
    from kdump.cli.params import HistoryOf, WhatIf
    from kdump.reading.selection import HeaderFilter, Range


class Arguments:
    """Options that all commands have."""

    verbose: bool
    traceback: bool
    rate: int | None
    idle: bool

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.__dict__.update(given)


class LogArguments(Arguments):
    """The option that says which logs the files are."""

    log_format: str | None

    @property
    def world(self) -> World | None:
        """The files are logs of this world, whatever their names."""
        return world_of_format(self.log_format)


class EngineArguments(Arguments):
    """Options that say where a command runs."""

    engine: str
    master: str | None
    conf: tuple[tuple[str, str], ...]


class JobsArguments(EngineArguments):
    """Options that say where a command runs that can use several processes."""

    jobs: int | None


class DumpArguments(LogArguments, EngineArguments):
    """Options of ``kdump dump``. Times are ms since 1970, sizes bytes; ``inputs``: what the PATHs mean."""

    paths: tuple[str, ...]
    inputs: list[Input]
    topics: tuple[str, ...]
    files: str | None
    all_files: bool
    explain: int | None
    frame: str | None
    max_decompressed_size: int
    # Of DumpLogSegments.
    dialect: str | None
    deep_iteration: bool
    print_data_log: bool
    skip_record_metadata: bool
    verify_index_only: bool
    index_sanity_check: bool
    max_bytes: int | None
    max_message_size: int | None
    key_decoder_class: str | None
    value_decoder_class: str | None
    offsets_decoder: bool
    transaction_log_decoder: bool
    cluster_metadata_decoder: bool
    remote_log_metadata_decoder: bool
    share_group_state_decoder: bool
    # Of kdump: how rows are shown.
    output: Literal["kafka", "jsonl", "csv", "table", "arrow", "parquet"]
    csv_safe: bool
    view: str | None
    fields: str | None
    template: str | None
    null: str | None
    decode: str | None
    key_decoder: str | None
    value_decoder: str | None
    redact: bool
    redact_key: str | None
    show_secrets: bool
    color: str
    pager: bool
    # Which rows are shown.
    offsets: Range | None
    times: Range | None
    no_index: bool
    key: re.Pattern[bytes] | None
    value: re.Pattern[bytes] | None
    headers: tuple[HeaderFilter, ...]
    tombstones: bool
    producer_ids: tuple[int, ...]
    group: str | None
    transactional_id: str | None
    partitions: int | None
    control: bool | None
    isolation: str
    resync: bool
    take: int | None
    follow: bool
    tail: int | None

    @property
    def is_text(self) -> bool:
        """The compatible text is wanted, not rows."""
        return self.output == "kafka" and self.template is None


class ExplainArguments(Arguments):
    """Options of ``kdump explain``. Sizes and positions are bytes."""

    path: str
    position: int | None
    offset: int | None
    max_decompressed_size: int
    color: str


class VerifyArguments(LogArguments, JobsArguments):
    """Options of ``kdump verify``. Times are ms since 1970, sizes bytes."""

    paths: tuple[str, ...]
    topics: tuple[str, ...]
    depth: str
    gaps: bool
    strict: bool
    output: str
    max_decompressed_size: int
    color: str
    manifest: str | None
    startup: bool
    is_clean: bool | None
    recovery_point: int | None
    log_start_offset: int | None
    segment_index_bytes: int | None
    now: int | None


class DiffArguments(JobsArguments):
    """Options of ``kdump diff``."""

    paths: tuple[str, ...]
    topics: tuple[str, ...]
    records: bool
    content: bool
    strict: bool
    output: str
    max_decompressed_size: int
    color: str


class StatsArguments(LogArguments, JobsArguments):
    """Options of ``kdump stats``. Times are ms since 1970, sizes bytes; ``inputs``: what the PATHs mean."""

    paths: tuple[str, ...]
    inputs: list[Input]
    by: str
    quick: bool
    output: str
    html: str | None
    what_if: tuple[WhatIf, ...]
    now: int | None
    offsets_for: int | None
    offset_map: tuple[str, ...]
    topics: tuple[str, ...]
    max_decompressed_size: int
    color: str


class StateArguments(Arguments):
    """Options of ``kdump state``. Times are ms since 1970, sizes bytes; ``inputs``: what the PATHs mean."""

    paths: tuple[str, ...]
    inputs: list[Input]
    output: str
    at: int | None
    at_offset: int | None
    at_zxid: int | None
    between: Range | None
    between_offsets: Range | None
    history: HistoryOf | None
    offset_map: tuple[str, ...]
    decode: str | None
    key_decoder: str | None
    value_decoder: str | None
    topics: tuple[str, ...]
    brokers: tuple[int, ...]
    show_secrets: bool
    max_decompressed_size: int
    color: str


class ConversionArguments(Arguments):
    """What becomes of logs that are written anew."""

    to_magic: int | None
    codec: str
    level: int | None
    offsets: Range | None
    times: Range | None
    isolation: str
    open_transactions: str | None
    renumber: int | None
    split_bytes: int | None
    overwrite: bool
    strict: bool
    output: str
    max_decompressed_size: int


class ConvertArguments(ConversionArguments, LogArguments, JobsArguments):
    """Options of ``kdump convert``; ``input``: what SRC means."""

    source: str
    input: Input
    destination: str
    offset_map: bool
    form: Literal["jsonl", "csv", "parquet"] | None
    input_form: str | None
    csv_safe: bool
    skip_damaged: bool


class RestoreArguments(ConversionArguments):
    """Options of ``kdump restore``; ``inputs``: what the PATHs mean."""

    paths: tuple[str, ...]
    inputs: list[Input]
    destination: str
    topic: str | None
    topic_id: str | None
    partition: int | None
    metadata: str | None
    from_log_dir: str | None
    link: str | None
    forget_producers: bool
    backup_dir: str | None
    force: bool


class RepairArguments(LogArguments):
    """Options of ``kdump repair``."""

    paths: tuple[str, ...]
    topics: tuple[str, ...]
    output: str | None
    in_place: bool
    manifest: str | None
    finish: bool
    like_broker: bool
    salvage: bool
    indexes: bool
    deep: bool
    hold_offsets: bool | None
    txn: str | None
    correct: bool
    replicas: tuple[str, ...]
    first_segment: bool
    index_interval_bytes: int
    output_format: str
    overwrite: bool
    backup_dir: str | None
    allow_worse_start: bool
    replace_changed: bool
    force: bool
