"""``python -m tests.fuzz --minutes 60``: hours of the fuzzer by hand; ``--again FILE`` checks one kept case.

What it finds is kept in ``build/fuzz``: a file a fault, with the smallest case that shows it. A fault that is mended
becomes a test: its file moves to ``tests/fuzz/found``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import tempfile
import time
from pathlib import Path

import kdump
from tests.bench.measure import COMPILED
from tests.fuzz.case import Case
from tests.fuzz.corpus import Corpus
from tests.fuzz.driver import Campaign, faults_of, fuzz
from tests.fuzz.kinds import KINDS
from tests.harness.captures import unpack


def load_everything() -> None:
    """Import what commands import when they need it, so that forked processes have it already."""
    for module in pkgutil.walk_packages(kdump.__path__, "kdump."):
        if not module.name.startswith(("kdump.spark", "kdump.__main__")):
            importlib.import_module(module.name)
    for name in ("pyarrow.parquet", "pandas", "rich.table", "rich.progress"):
        importlib.import_module(name)


def report(campaign: Campaign, seed: int) -> str:
    """What was done and found, for people."""
    total = campaign.cases.total()
    kinds = ", ".join(f"{name} {count:,}" for name, count in campaign.cases.most_common())
    lines = [
        f"seed {seed}: {total:,} cases in {campaign.seconds:.0f} s, {total / campaign.seconds:.0f} a second ({kinds})"
    ]
    for name, found in campaign.found.items():
        lines.append(f"{name}: {found.count} cases, the smallest has {found.case.size} bytes; {found.fault.where}")
    return "\n".join(lines)


def main() -> int:
    """Exit status 1 when a fault was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind (several: repeat it)")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="where faults are kept")
    parser.add_argument("--again", type=Path, metavar="FILE", help="check a kept case")
    given = parser.parse_args()
    # Each process of a pool imports kdump.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.update(COMPILED)
    load_everything()
    with tempfile.TemporaryDirectory() as name:
        if given.again:
            faults = faults_of(Case.from_json(given.again.read_text(encoding="utf-8")), Path(name) / "again")
            for fault in faults:
                print(f"{fault.name}: {fault.where}\n{fault.detail}")
            return int(bool(faults))
        corpus = Corpus.of(unpack(Path(name)))
        weights = {kind: KINDS[kind].weight for kind in given.kind or KINDS}
        campaign = fuzz(corpus, given.seed, seconds=given.minutes * 60, jobs=given.jobs, weights=weights)
    print(report(campaign, given.seed))
    for fault, found in campaign.found.items():
        given.keep.mkdir(parents=True, exist_ok=True)
        (given.keep / f"{fault}.json").write_text(found.case.to_json(), encoding="utf-8")
        print(f"\n{given.keep / fault}.json\n{found.fault.detail}")
    return int(bool(campaign.found))


if __name__ == "__main__":
    sys.exit(main())
