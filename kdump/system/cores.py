"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def usable_cores(root: Path = Path("/")) -> int:
    """The cores that the scheduler gives this process, and no more than the CPU time that its control groups allow.

    A quota that is no whole number of cores is rounded up.

    Args:
        root: where the files of the kernel lie.
    """
    quotas = [math.ceil(quota) for quota in _quotas(root)]
    return max(1, min([len(os.sched_getaffinity(0)), *quotas]))


def _quotas(root: Path) -> Iterator[float]:
    """The quotas, in cores, of the control groups that this process is in, and of those above them.

    Source: Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us) of Linux.
    """
    for folder, is_v2 in _groups(root):
        with suppress(OSError, ValueError, ZeroDivisionError):
            if is_v2:
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            # Without a limit the quota is the word "max", or -1.
            if int(quota) > 0:
                yield int(quota) / int(period)


def _groups(root: Path) -> Iterator[tuple[Path, bool]]:
    """The directories of the control groups that may limit the CPU time, and whether each is one of version 2."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return
    for group in groups:
        # 0::/user.slice of version 2, 4:cpu,cpuacct:/user.slice of version 1.
        _, controllers, path = group.split(":", 2)
        is_v2 = not controllers
        if not is_v2 and "cpu" not in controllers.split(","):
            continue
        for mount in mounts:
            where, _, what = mount.partition(" - ")
            kind, _, options = (*what.split(), "", "", "")[:3]
            is_cpu = kind == "cgroup2" if is_v2 else kind == "cgroup" and "cpu" in options.split(",")
            if not is_cpu:
                continue
            mounted, at = where.split()[3:5]
            # In a container the path may be one of the host, and only the group of the container is mounted.
            is_below = PurePosixPath(path).is_relative_to(mounted)
            below = PurePosixPath(path).relative_to(mounted) if is_below else PurePosixPath()
            for part in (below, *below.parents):
                yield root / at.lstrip("/") / part, is_v2
