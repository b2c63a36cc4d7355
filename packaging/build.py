"""``make dist``: the wheel, the sdist, and self-contained programs for Linux hosts that have old Python or none.

Needs python3 (3.11 or later, with a shared libpython) and the package index; `strip` (binutils) makes the programs
smaller. The programs run on hosts with the glibc of this machine or a later one; the last line says which one is
needed. The wheel is built first, and the programs are made from it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SHELLS = {"bash": "kdump", "zsh": "_kdump", "fish": "kdump.fish"}
"""The names under which shells look for completions."""


def main() -> None:
    """Build everything into dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="kdump-dist-") as name:
        work = Path(name)
        venv.create(work / "venv", with_pip=True)
        python = work / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "-q", "build>=1.2", "pyinstaller>=6.10")
        run(python, "-m", "build", "--outdir", DIST, ROOT)
        (wheel,) = DIST.glob("*.whl")
        run(python, "-m", "pip", "install", "-q", wheel)
        build_programs(work, wheel.name.split("-")[1])


def build_programs(work: Path, version: str) -> None:
    """The directory form as a .tar.gz, with manual and completions, and the form of one file."""
    scripts = work / "venv" / "bin"
    completions = work / "completions"
    completions.mkdir()
    for shell, name in SHELLS.items():
        printed = subprocess.run([scripts / "kdump", "completion", shell], check=True, capture_output=True)
        (completions / name).write_bytes(printed.stdout)
    environment = {"KDUMP_COMPLETIONS": str(completions), "KDUMP_STRIPPED": str(work / "stripped")}
    places = ["--workpath", work / "work", "--distpath", work / "out"]
    run(
        scripts / "pyinstaller",
        "--noconfirm",
        "--log-level=WARN",
        *places,
        ROOT / "packaging" / "kdump.spec",
        **environment,
    )
    name = f"kdump-{version}-linux-{platform.machine()}"
    folder = work / "out" / "kdump"
    shutil.copytree(ROOT / "man", folder / "man")
    shutil.copytree(completions, folder / "completions")
    for text in ("LICENSE", "README.md", "CHANGELOG.md"):
        shutil.copy2(ROOT / text, folder)
    with tarfile.open(DIST / f"{name}.tar.gz", "w:gz") as archive:
        archive.add(folder, name)
    shutil.copy2(work / "out" / "kdump-onefile", DIST / name)
    size = (DIST / f"{name}.tar.gz").stat().st_size / (1 << 20)
    needed = ".".join(map(str, needed_glibc(folder)))
    print(f"dist/{name}.tar.gz: {size:.1f} MiB; needs glibc {needed} or later")


def needed_glibc(folder: Path) -> tuple[int, ...]:
    """The oldest glibc that has all versions of symbols which the programs and libraries in ``folder`` name."""
    found = {(2, 17)}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if data.startswith(b"\x7fELF"):
                found |= {tuple(map(int, match.split(b"."))) for match in re.findall(rb"GLIBC_(\d+\.\d+)\0", data)}
    return max(found)


def run(*words: str | Path, **environment: str) -> None:
    """Run a command; end with its status if it fails."""
    done = subprocess.run(list(map(str, words)), check=False, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
