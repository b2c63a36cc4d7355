"""Freed memory is kept, or given back."""

from __future__ import annotations

import subprocess
import sys

GIVEN_BACK = """
import sys
import numpy as np
from kdump.fast.memory import give_back_freed_memory, keep_freed_memory

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))

keep_freed_memory()
# Each second one stays, so that the heap cannot shrink at its end.
arrays = [np.ones(1 << 17) for _ in range(64)]
arrays = arrays[1::2]
before = resident()
give_back_freed_memory()
print(before - resident())
"""


def test_freed_memory_between_arrays_is_given_back() -> None:
    ran = subprocess.run([sys.executable, "-c", GIVEN_BACK], stdout=subprocess.PIPE, check=True)
    # 32 MiB were freed.
    assert int(ran.stdout) > 16 << 10
