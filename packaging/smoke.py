"""The self-contained programs in a root file system that has nothing but glibc: all commands on captured files.

``python3 packaging/smoke.py`` after ``make dist``. It needs the right to change the root directory: root, or user
namespaces (unshare).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
GOOD = "segments/v2-txn-0"
DAMAGED = "segments/damaged-crc-0"
LOG = "00000000000000000000.log"

# Words of a command, the exit status, and a text that it prints.
RUNS = (
    (["--version"], 0, "kdump 0."),
    (["dump", "--print-data-log", f"/{GOOD}/{LOG}"], 0, "baseOffset: 0 "),
    (["dump", "--output", "jsonl", f"/{GOOD}"], 0, '"type":"batch"'),
    (["dump", "--output", "table", f"/{GOOD}/{LOG}"], 0, "│"),
    (["verify", f"/{GOOD}"], 0, "clean"),
    (["verify", f"/{DAMAGED}"], 1, "KD1"),
    (["verify", "--startup", f"/{GOOD}"], 0, "starts"),
    (["stats", f"/{GOOD}"], 0, "records"),
    (["repair", f"/{DAMAGED}"], 1, "like-broker"),
    (["convert", f"/{GOOD}", "-o", "/tmp/out", "--codec", "gzip"], 0, "record"),
    (["man", "verify"], 0, "NAME"),
    (["completion", "zsh"], 0, "compdef"),
    (["verify", "-j", "2", "/big"], 0, "batches"),
)


def main() -> None:
    """Try both programs; end with 1 if a run is not as it must be."""
    (archive,) = DIST.glob("*linux*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="kdump-smoke-") as name:
        root = Path(name)
        with tarfile.open(archive) as tar:
            tar.extractall(root, filter="data")
        (folder,) = root.iterdir()
        folder.rename(root / "kdump")
        shutil.copy2(str(archive).removesuffix(".tar.gz"), root / "kdump-onefile")
        for directory in ("tmp", "dev", "proc", GOOD, DAMAGED):
            (root / directory).mkdir(parents=True, exist_ok=True)
        for case in (GOOD, DAMAGED):
            shutil.copytree(ROOT / "fixtures" / case, root / case, dirs_exist_ok=True)
        make_large(root / "big", root / GOOD / LOG)
        copy_glibc(root)
        failed = [text for program in ("/kdump/kdump", "/kdump-onefile") for text in tried(root, program)]
    for text in failed:
        print(text, file=sys.stderr)
    print(f"{2 * len(RUNS)} runs in an empty root, {len(failed)} failed")
    sys.exit(bool(failed))


def make_large(folder: Path, log: Path) -> None:
    """Enough segments that a pool of processes starts: hard links, each a partition of its own."""
    size = log.stat().st_size
    for number in range((64 << 20) // size + 2):
        partition = folder / f"t-{number}"
        partition.mkdir(parents=True)
        os.link(log, partition / LOG)


def copy_glibc(root: Path) -> None:
    """The loader and the libraries of the system that the program needs."""
    files = [root / "kdump" / "kdump", *(root / "kdump" / "_internal").glob("lib*.so*")]
    needed: set[str] = set()
    for file in files:
        listed = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False).stdout
        needed.update(re.findall(r"(/\S+)", listed))
    for library in needed:
        if not library.startswith(str(root)):
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(library, target)


def tried(root: Path, program: str) -> list[str]:
    """What was wrong with the runs of one program."""
    chroot = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin") or "chroot"
    into = [chroot] if os.geteuid() == 0 else ["/usr/bin/unshare", "--map-root-user", chroot]
    if subprocess.run([*into, "/", "true"], check=False, capture_output=True).returncode:
        sys.exit("this user cannot change the root directory: run it as root")
    wrong = []
    for words, status, text in RUNS:
        shutil.rmtree(root / "tmp" / "out", ignore_errors=True)
        run = subprocess.run(
            [*into, str(root), program, *words],
            env={"PATH": "/", "TMPDIR": "/tmp"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if run.returncode != status or text not in run.stdout:
            wrong.append(
                f"{program} {' '.join(words)}: status {run.returncode}\n{run.stdout[-500:]}{run.stderr[-2000:]}"
            )
    return wrong


if __name__ == "__main__":
    main()
