"""The priority of this process, and of the processes that it starts from then on."""

from __future__ import annotations

import os
from typing import Final

_LOWEST: Final = 19
_IDLE_CLASS: Final = 3 << 13
"""IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0), ioprio_set(2)."""
_THIS_PROCESS: Final = 1
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "s390x": 282, "ppc64le": 273}
"""The number of the system call by machine: the C library has no function for it."""


def be_idle() -> None:
    """Lowest CPU priority, and the disk only when nobody else wants it (I/O class idle).

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
