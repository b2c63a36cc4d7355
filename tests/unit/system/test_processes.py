"""Idle priorities, in a process of their own: nobody takes them back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kdump.system import processes

_GET: dict[str, int] = {"x86_64": 252, "aarch64": 31}


@pytest.mark.skipif(os.uname().machine not in _GET, reason="the number of ioprio_get is not known here")
def test_a_process_and_its_children_are_idle() -> None:
    asks = f"import ctypes, os; print(os.nice(0), ctypes.CDLL(None).syscall({_GET[os.uname().machine]}, 1, 0) >> 13)"
    program = (
        "import subprocess, sys; from kdump.system.processes import be_idle; "
        f"be_idle(); subprocess.run([sys.executable, '-c', {asks!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["19", "3"]


def test_a_machine_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.os, "nice", lambda step: 0)
    monkeypatch.setattr(processes, "_IOPRIO_SET", {})
    with pytest.raises(OSError, match="no idle I/O class"):
        processes.be_idle()
