"""The comparison of kdump with one recorded run of the real tool."""

from __future__ import annotations

from tests.harness.captures import Golden
from tests.harness.inprocess import Door, Way, can_name, run_in_process
from tests.harness.outcome import differences


def applies(golden: Golden, way: Way) -> bool:
    """Whether all files of the run can be named that way; at the door of the Java tool any name can."""
    return way.door is Door.FILES or all(can_name(way, name) for name in golden.files)


def differing(golden: Golden, way: Way) -> list[str]:
    """What differs in one run, with the name of the golden; empty when it is the same.

    The current directory is the golden's: the files are named without directory, as the real tool got them.
    """
    kdump = run_in_process(golden.files, golden.flags.options, way)
    found = differences(golden.outcome(), kdump, golden.flags, ordered=False)
    return [f"{golden.name}: {what}" for what in found]
