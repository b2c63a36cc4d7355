"""The cores that a process may use: by its affinity, and by the quotas of control groups of both versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.system.processes import usable_cores

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
CONTAINER = "32 31 0:29 /docker/1a2b /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
MEMORY = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def kernel(root: Path, groups: str, mounts: str, **files: str) -> Path:
    """What the files of a kernel tell; the names of ``files`` have ``__`` for each slash, and no dots."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    (root / "proc/self/mountinfo").write_text("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" + mounts)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("cpu_", "cpu.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_cores(tmp_path) == 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert usable_cores(tmp_path) == 1
    assert usable_cores(kernel(tmp_path, "0::/\n", V2, cpu_max="400000 100000\n")) == 1


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("1600000 100000", 8),
        ("", 8),
    ],
)
def test_a_quota_of_version_2(tmp_path: Path, quota: str, cores: int) -> None:
    assert usable_cores(kernel(tmp_path, "0::/kafka.slice\n", V2, kafka_slice__cpu_max="")) == 8
    (tmp_path / "sys/fs/cgroup/kafka.slice").mkdir()
    (tmp_path / "sys/fs/cgroup/kafka.slice/cpu.max").write_text(quota + "\n")
    assert usable_cores(tmp_path) == cores


def test_the_groups_above_count_too(tmp_path: Path) -> None:
    root = kernel(tmp_path, "0::/a/b\n", V2, a__cpu_max="300000 100000\n", a__b__cpu_max="max 100000\n")
    assert usable_cores(root) == 3


@pytest.mark.parametrize(("quota", "cores"), [("-1", 8), ("250000", 3), ("100000", 1)])
def test_a_quota_of_version_1(tmp_path: Path, quota: str, cores: int) -> None:
    groups = "7:memory:/other\n4:cpu,cpuacct:/kafka\n0::/kafka\n"
    root = kernel(tmp_path, groups, MEMORY + V1)
    folder = root / "sys/fs/cgroup/cpu,cpuacct/kafka"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text(quota + "\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(root) == cores


@pytest.mark.parametrize("path", ["/docker/1a2b", "/"])
def test_a_container_sees_its_own_group_at_the_mount(tmp_path: Path, path: str) -> None:
    files = {"cpu__cpu_cfs_quota_us": "200000\n", "cpu__cpu_cfs_period_us": "100000\n"}
    assert usable_cores(kernel(tmp_path, f"4:cpu:{path}\n", CONTAINER, **files)) == 2


def test_this_machine() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1) or usable_cores() == 8
