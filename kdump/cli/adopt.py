"""``kdump repair --adopt``: the plan for log directories without their cluster."""

from __future__ import annotations

from kdump.cli.arguments import RepairArguments
from kdump.cli.console import Console
from kdump.cli.exit_status import RunStatus
from kdump.codes import Codes, KdumpError
from kdump.restore.adopt import plan_adoption
from kdump.restore.adoptreport import adoption_commands, adoption_page, adoption_rows

_SHOWN = {"text": adoption_page, "jsonl": adoption_rows, "commands": adoption_commands}


def adopt(given: RepairArguments, console: Console, status: RunStatus) -> None:
    """Print the plan; something that is missing counts as damage."""
    plan = plan_adoption(given.paths, status.fail)
    if not (plan.partitions or plan.left or status.code):
        status.fail(KdumpError(Codes.NO_SEGMENTS, "holds no partition", path=given.paths[0]))
        return
    for line in _SHOWN[given.output_format](plan):
        console.out.write(line.encode("utf-8", "surrogateescape"))
    status.add(damaged=not plan.is_whole)
