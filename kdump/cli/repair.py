"""``kdump repair``: the plan, repaired copies, repairs in place."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kdump.cli.command import Run, command
from kdump.cli.console import Console
from kdump.cli.options.repair import SALVAGE_OPTIONS, RepairArguments
from kdump.codes import REFUSALS, KdumpError
from kdump.format.checkpoint import CLEAN_SHUTDOWN
from kdump.log.named import note_named
from kdump.releases import RELEASES
from kdump.repair.apply.manifest import Manifest, undo_command
from kdump.repair.apply.undo import MarkerFate, Undone
from kdump.repair.begun import finish_repairs, undo_repair
from kdump.repair.plan.location import PartitionLocation
from kdump.repair.plan.plan import RepairMode, RepairSettings
from kdump.repair.report import plan_lines
from kdump.repair.run import Repair, Repaired, RepairOptions, WorldRepaired
from kdump.repair.salvage.pieces import SalvageOptions, TxnPolicy
from kdump.repair.startreport import starts_text
from kdump.system.blocks import escaped
from kdump.wire.jsontext import json_blocks

if TYPE_CHECKING:
    from kdump.reading.reporter import Reporter


def repair_lines(repaired: Repaired, *, color: bool) -> Iterator[str]:
    """What would be or was done, and where it is."""
    target = escaped(repaired.plan.target)
    for begun in repaired.unfinished:
        yield (
            f"{target}: {escaped(begun.path)}: {escaped(str(begun))}, what follows is the state in between; --finish "
            "finishes it, --undo takes it back\n"
        )
    yield from plan_lines(repaired.plan, is_done=repaired.is_done, color=color)
    if repaired.starts is not None:
        is_in_place = repaired.manifest is not None
        yield from starts_text(repaired.plan.target, repaired.starts, is_done=is_in_place).splitlines(keepends=True)
    if repaired.written is not None:
        yield f"{target}: repaired copy in {escaped(repaired.written)}\n"
    if repaired.manifest is not None:
        yield f"{target}: to undo: {undo_command(repaired.manifest)}\n"


def finished_text(path: str, manifests: Sequence[str]) -> str:
    """Which repairs were finished."""
    return "".join(f"{escaped(path)}: finished what {escaped(manifest)} began\n" for manifest in manifests)


def finished_json(path: str, manifests: Sequence[str]) -> str:
    """The finished repairs as a JSON object in one line."""
    return json.dumps({"type": "finished", "path": path, "manifests": list(manifests)}) + "\n"


def undone_text(manifest: Manifest, undone: Undone) -> str:
    """What undoing a repair came to: whether everything is as it was, and what is not."""
    directory = escaped(manifest.directory)
    if undone.differences:
        text = f"{directory}: the files of the repair are as they were before it; other files are not\n"
    else:
        text = f"{directory}: is as it was before the repair\n"
    text += "".join(f"{directory}/{escaped(name)}: {deviation.value}\n" for name, deviation in undone.differences)
    kept_in = escaped(undone.kept_in or "")
    text += "".join(
        f"{directory}/{escaped(name)}: was written to since the repair; what it held is in {kept_in}\n"
        for name in undone.kept
    )
    return text + ("" if undone.marker is None else _MARKERS[undone.marker])


_MARKERS: Final = {
    MarkerFate.BACK: "",
    MarkerFate.STALE: f"{CLEAN_SHUTDOWN} is not put back: a broker ran since\n",
    MarkerFate.NEW: f"{CLEAN_SHUTDOWN} stays as it is: a broker ran since, and was stopped cleanly\n",
}


@command(
    RepairArguments,
    most_used="--topic -o --in-place --undo --like-broker --salvage --indexes --from",
    examples="""\
  kdump repair orders-0                             what could be done, and what it would cost
  kdump repair 00000000000000000000.log -o fixed    a repaired copy, cut as a broker would cut it""",
)
def repair(run: Run[RepairArguments]) -> None:
    """Print a plan to repair segments and partitions; repair with -o or --in-place.

    Exit status 1 when something would be changed and was not.
    """
    given, console, status = run.given, run.console, run.status
    options = _options(given)
    for path in (*given.paths, *given.replicas, *(() if given.manifest is None else (given.manifest,))):
        note_named(path)
    reporter = console.reporter(verbose=given.verbose)
    told: set[str] = set()

    def fail(error: KdumpError) -> None:
        status.fail(error, is_damage=error.code in REFUSALS)

    if given.manifest is not None:
        try:
            replaces_changed, force, backup = given.replace_changed, given.force, given.backup_dir
            undone = undo_repair(given.manifest, replaces_changed=replaces_changed, force=force, backup=backup)
            run.write(undone_text(*undone))
        except KdumpError as error:
            fail(error.located(given.manifest))
    with Repair(options, on_error=fail) as job:
        for found in run.find_inputs(fail):
            try:
                if given.finish:
                    force, backup = given.force, given.backup_dir
                    for finished in finish_repairs(found.path, on_error=fail, force=force, backup=backup):
                        run.write((finished_text if given.output == "text" else finished_json)(*finished))
                    continue
                for repaired in job.of(found):
                    status.add(damaged=repaired.leaves_damage)
                    for block in _shown(repaired, given, console, reporter, told):
                        console.out.write(block)
            except KdumpError as error:
                fail(error.located(found.path))


def _shown(
    repaired: Repaired | WorldRepaired, given: RepairArguments, console: Console, reporter: Reporter, told: set[str]
) -> Iterator[bytes]:
    """What is printed of a partition, in blocks; for ``told`` see ``_once``."""
    is_text = given.output == "text"
    if not isinstance(repaired, Repaired):
        yield (repaired.text() if is_text else repaired.json()).encode()
        return
    for segment in repaired.plan.segments if reporter.verbose else ():
        reporter.note(f"{segment.path}: {segment.fingerprint.size:,} bytes, {repaired.plan.mode.value}")
    if is_text:
        lines = repair_lines(repaired, color=console.color)
        yield from map(str.encode, _once(lines, repaired.plan.place, told))
    else:
        yield from json_blocks(repaired.row())


def _options(given: RepairArguments) -> RepairOptions:
    """What is asked for."""
    mode = next((mode for mode in RepairMode if getattr(given, mode.value.replace("-", "_"))), None)
    if given.given().first(SALVAGE_OPTIONS) is not None:
        mode = RepairMode.SALVAGE
    output, in_place = given.destination, given.in_place
    is_done, is_text = in_place or output is not None, given.output == "text"
    return RepairOptions(
        mode,
        # A plan in words names no digests.
        RepairSettings(
            given.index_interval_bytes,
            given.first_segment,
            digests=is_done or not is_text,
            release=RELEASES[given.broker_version],
        ),
        output,
        in_place,
        given.backup_dir,
        given.force,
        SalvageOptions(
            deep=given.deep,
            hold_offsets=given.hold_offsets is not False,
            correct=given.correct,
            transactions=TxnPolicy(given.txn or TxnPolicy.LEAVE),
            replicas=given.replicas,
        ),
        decides_transactions=given.txn is not None,
        allow_worse_start=given.allow_worse_start,
        world=given.world,
        overwrites=given.overwrite,
    )


def _once(lines: Iterable[str], place: PartitionLocation, told: set[str]) -> Iterator[str]:
    """``lines`` without those about the log directory that were shown with another partition of it.

    ``told``: such lines. New ones are added.
    """
    if place.log_directory is None:
        yield from lines
        return
    starts = f"{escaped(place.log_directory)}: ", f"{escaped(os.path.join(place.log_directory, CLEAN_SHUTDOWN))}: "
    new: list[str] = []
    for line in lines:
        if line.startswith(starts):
            if line in told:
                continue
            new.append(line)
        yield line
    told.update(new)
