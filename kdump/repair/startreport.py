"""The text about the starts of a broker before and after repairs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kdump.kafka.startup.outcome import StartOutcome
from kdump.repair.plan.starts import PossibleStart, Starts, WorseStart
from kdump.repair.report import aligned
from kdump.system.blocks import escaped
from kdump.verify.startcheck import StartCheck
from kdump.verify.startreport import lost_members


def possible_starts_text(starts: Sequence[PossibleStart]) -> str:
    """The start as it is and after each repair, side by side; nothing without a repair."""
    if len(starts) < 2:
        return ""
    path = escaped(starts[0].check.path)
    lines = [f"{path}: repairs that reduce the loss"]
    lines += _side_by_side(["as it is", *(f"({number})" for number in range(1, len(starts)))], starts)
    lines += [f"    ({number}) {escaped(start.command or '')}" for number, start in enumerate(starts) if number]
    return "".join(f"{line}\n" for line in lines)


def starts_text(target: str, starts: Starts, *, is_done: bool) -> str:
    """The next start without a repair of the partition directory ``target``, and after it.

    ``is_done``: it was repaired in place.
    """
    without, repaired = starts.without, starts.repaired
    target = escaped(target)
    lines = []
    if without.check.is_harmless and without.cost == repaired.cost and _end_offset(without) == _end_offset(repaired):
        end = _end_offset(repaired)
        lines.append(f"{target}: the next start loses nothing, with or without the repair; log end offset {end}")
    else:
        lines.append(f"{target}: the next start of the broker")
        lines += _side_by_side(["without the repair", "with it"], (without, repaired))
    lines += _marker_lines(starts, is_done=is_done)
    for worse in starts.worse:
        line = f"{target}: a start would end worse after the repair: {worse_start(worse)}"
        lines.append(line if is_done else f"{line}; in place this is refused without --allow-worse-start")
    return "".join(f"{line}\n" for line in lines)


def _marker_lines(starts: Starts, *, is_done: bool) -> Iterator[str]:
    if starts.marker is None:
        return
    marker = escaped(starts.marker)
    if starts.removes_marker:
        goes = "is removed" if is_done else "goes when the logs are repaired in place"
        above = escaped(os.path.dirname(starts.marker))
        yield (
            f"{marker}: {goes}, because a clean start would not load what is left; the price: at its next start the "
            f"broker recovers every partition of {above} from its recovery point on"
        )
    else:
        yield f"{marker}: stays; the next start loads the repaired log as it is, and other partitions as before"


def worse_start(worse: WorseStart) -> str:
    """A partition, what its next start costs after a repair, and what without it."""
    before, after = PossibleStart(None, worse.before), PossibleStart(None, worse.after)
    return f"{escaped(worse.after.path)} {_cost(after)} (without the repair: {_cost(before)})"


def _cost(start: PossibleStart) -> str:
    failure, served = start.check.start.failure, start.check.start.served
    if failure is not None:
        return f"{_SHORT[start.check.start.outcome]}: {escaped(failure.message)}"
    parts = [f"loses {_lost(start)} good records"]
    if start.check.forgotten:
        parts.append(f"forgets {_forgotten(start)} transactions")
    elif served is not None and served.is_forgotten:
        parts.append("forgets all producers")
    return ", ".join(parts)


def starts_members(starts: Starts) -> dict[str, Any]:
    """The starts as members of a JSON object."""
    marker = None
    if starts.marker is not None:
        marker = "removed" if starts.removes_marker else "kept"
    return {
        "brokerVersion": starts.without.check.settings.release.name,
        "without": _summary(starts.without.check),
        "with": _summary(starts.repaired.check),
        "marker": marker,
        "worse": [
            {"path": one.after.path, "without": _summary(one.before), "with": _summary(one.after)}
            for one in starts.worse
        ],
    }


def _summary(check: StartCheck) -> dict[str, Any]:
    served, failure = check.start.served, check.start.failure
    return {
        "outcome": check.start.outcome.value,
        "exception": None if failure is None else failure.java_class,
        "logEndOffset": None if served is None else served.end_offset,
        "lost": lost_members(check),
    }


def _side_by_side(titles: Sequence[str], starts: Sequence[PossibleStart]) -> Iterator[str]:
    rows = [("", *titles), *zip(_COSTS, *map(_costs, starts), strict=True)]
    if any(start.records_corrected for start in starts):
        rows.append(("damaged records restored", *(f"{start.records_corrected:,}" for start in starts)))
    return aligned(rows)


_COSTS: Final = (
    "start",
    "good records lost",
    "transactions forgotten",
    "segments",
    "log end offset",
    "bytes read",
)


def _costs(start: PossibleStart) -> tuple[str, ...]:
    """What a start costs, a cell for each of _COSTS."""
    served = start.check.start.served
    return (
        _SHORT[start.check.start.outcome],
        _lost(start),
        _forgotten(start),
        "-" if served is None else f"{len(served.segments):,}",
        _end_offset(start),
        f"{start.check.bytes_read:,}",
    )


def _end_offset(start: PossibleStart) -> str:
    served = start.check.start.served
    return "-" if served is None else str(served.end_offset)


def _lost(start: PossibleStart) -> str:
    _, records, _ = start.cost
    return "-" if start.check.start.served is None else f"{records:,}"


def _forgotten(start: PossibleStart) -> str:
    return f"{len(start.check.forgotten):,}"


_SHORT: Final = {
    StartOutcome.STARTS: "starts",
    StartOutcome.DIR_OFFLINE: "directory offline",
    StartOutcome.BROKER_STOPS: "broker stops",
}
