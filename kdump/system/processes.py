"""What processes take of the machine: their priority, and the cores that they may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

_LOWEST: Final = 19
_IDLE_CLASS: Final = 3 << 13
"""IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0), ioprio_set(2)."""
_THIS_PROCESS: Final = 1
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "s390x": 282, "ppc64le": 273}
"""The number of the system call by machine: the C library has no function for it."""


def be_idle() -> None:
    """Give this process the lowest CPU priority, and the disk only when nobody else wants it; also those it starts.

    That is the I/O class idle.

    Raises:
        OSError: the system has no such priorities.
    """
    os.nice(_LOWEST)
    machine = os.uname().machine
    if machine not in _IOPRIO_SET:
        raise OSError(f"no idle I/O class is known on {machine}")
    import ctypes

    system = ctypes.CDLL(None, use_errno=True)
    if system.syscall(_IOPRIO_SET[machine], _THIS_PROCESS, 0, _IDLE_CLASS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


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
