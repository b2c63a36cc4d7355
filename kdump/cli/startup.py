"""``kdump verify --startup``: what a broker will do to the directories when it is started."""

from __future__ import annotations

from kdump.cli.command import Run
from kdump.cli.engine import choose_engine
from kdump.cli.options.verify import VerifyArguments
from kdump.codes import KdumpError
from kdump.kafka.startup.fate import FolderFate
from kdump.kafka.startup.outcome import StartOutcome
from kdump.releases import RELEASES, Release
from kdump.repair.startreport import possible_starts_text
from kdump.rows.scalarlines import json_line
from kdump.system.blocks import escaped
from kdump.verify.fates import Fates
from kdump.verify.startcheck import LogDirectoryCheck, Obstacle, StartCheck
from kdump.verify.startreport import (
    fate_text,
    has_topic_id,
    log_directory_text,
    obstacle_text,
    startup_row,
    startup_text,
    stray_text,
)
from kdump.verify.startups import Item, KeepsChanging, StartOptions, is_partition, start_all


def run_startup(run: Run[VerifyArguments]) -> None:
    """Predict what a start will do."""
    given, console, status = run.given, run.console, run.status
    inputs, output = run.find_inputs(), given.output
    paths = given.paths
    options = StartOptions(
        given.is_clean,
        given.recovery_point,
        given.log_start_offset,
        given.segment_index_bytes,
        given.now,
        checksums=output == "jsonl",
        world=given.world,
        release=RELEASES[given.broker_version],
        index_interval=given.index_interval_bytes,
    )
    try:
        # A partition is one task, however many segments it has.
        only_here = "one partition" if len(inputs) == 1 and is_partition(inputs[0]) else None
        if given.engine == "spark" or given.master:
            only_here = None
        runner = choose_engine(given, inputs, console, only_here=only_here).run
    except KdumpError as error:
        status.fail(error)
        return
    strays: list[str] = []
    fates = Fates.of(inputs, status.fail)
    for item in start_all(inputs, options, status.fail, runner, fates):
        status.add(damaged=_is_harmful(item, fates))
        known = fates.folders.get(item.path)
        if output == "jsonl":
            text = _json(item, known, options.release)
        else:
            text = _text(item, known, is_brief=not given.verbose)
        if isinstance(item, StartCheck) and not item.world and not has_topic_id(item):
            strays.append(item.path)
        # For partitions of a log directory it is shown once, with what holds for all of it.
        if output == "text" and isinstance(item, LogDirectoryCheck):
            text = stray_text(item.path, strays) + text
            strays = []
        elif output == "text" and item.path in paths:
            text += stray_text(item.path, strays)
            strays = []
        run.write(text)


def _is_harmful(item: Item, fates: Fates) -> bool:
    if isinstance(item, StartCheck):
        is_served = not (fates.becomes_stray(item.path) or fates.is_misnamed(item.path))
        return not (item.is_harmless and is_served) or bool(item.already_lost or item.swapped)
    if isinstance(item, KeepsChanging):
        return False
    return isinstance(item, Obstacle) or item.outcome is not StartOutcome.STARTS


def _json(item: Item, known: FolderFate | None, release: Release) -> str:
    row = startup_row(item, known, release)
    return "" if row is None else json_line(row)


def _text(item: Item, known: FolderFate | None, *, is_brief: bool) -> str:
    if isinstance(item, Obstacle):
        return obstacle_text(item)
    if isinstance(item, KeepsChanging):
        return f"{escaped(item.path)}: {item.message}\n"
    if not isinstance(item, StartCheck):
        return log_directory_text(item)
    text = startup_text(item, is_brief=is_brief)
    if not item.world and has_topic_id(item):
        text += fate_text(item.path, known)
    return text if item.is_harmless or item.world else text + _ways(item)


def _ways(check: StartCheck) -> str:
    """What repairs would change. Nothing where a log cannot be read: the start says why."""
    from kdump.repair.plan.starts import possible_starts

    try:
        return possible_starts_text(possible_starts(check))
    except KdumpError:
        return ""
