"""What came of a repair, or would come of it, as a row."""

from __future__ import annotations

from kdump.repair.account import account, losses
from kdump.repair.run import Repaired
from kdump.repair.startreport import starts_members
from kdump.rows.schema import Row


def repair_row(repaired: Repaired) -> Row:
    """The result as a row."""
    plan = repaired.plan
    return {
        "type": "repair",
        "path": plan.target,
        "way": plan.mode.value,
        "isDamaged": plan.is_damaged,
        "isDone": repaired.is_done,
        "written": repaired.written,
        "manifest": repaired.manifest,
        "unfinished": [begun.path for begun in repaired.unfinished],
        "losses": losses(plan),
        "left": [
            {"path": finding.path, "code": finding.code.value.code, "message": str(finding)} for finding in plan.left
        ],
        "snapshots": [
            {
                "path": snapshot.finding.path,
                "action": "remove" if snapshot.data is None else "rebuild",
                "code": snapshot.finding.code.value.code,
                "message": snapshot.finding.message,
            }
            for snapshot in plan.unfit_snapshots
        ],
        "starts": None if repaired.starts is None else starts_members(repaired.starts),
        "logs": account(plan),
    }
