"""Metadata logs of a cluster: what their CRCs prove is corrected, anything else is refused with nothing written.

The logs are those of real clusters (``fixtures/cases/metadata.tar.zst``).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.archives import case_files
from tests.harness.batches import entries
from tests.harness.cli_runs import CLEAN, DAMAGE, kdump
from tests.harness.killedrepairs import manifests

NAME = "__cluster_metadata-0"
LAST_OF_HEADER = 61
PLACES = {
    "attributes": 22,
    "last offset delta": 26,
    "the stored CRC": 18,
    "a record": LAST_OF_HEADER + 3,
    "the length": 11,
    "the magic": 16,
}
"""Byte of a batch, by what lies there."""
NOT_COVERED = {"the base offset": 7, "the leader epoch": 15}
"""No CRC covers these."""
CASES = ["cluster/n101", "upgraded/n1"]


def put(root: Path, case: str) -> Path:
    """The metadata log of a log directory, with everything in it."""
    top = f"metadata/{case}/"
    for name, data in case_files("metadata").items():
        if name.startswith(top):
            path = root / "logs" / name.removeprefix(top)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return root / "logs" / NAME


def flip(partition: Path, batch: int, at: int, mask: int, segment: int = 0) -> None:
    """Change bits in one byte of a batch (negative: from the last one back)."""
    log = sorted(partition.glob("*.log"))[segment]
    data = log.read_bytes()
    starts = [0]
    for entry in entries(data):
        starts.append(starts[-1] + len(entry))
    changed = bytearray(data)
    changed[starts[:-1][batch] + at] ^= mask
    log.write_bytes(changed)


def logs_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in (".log", ".checkpoint")}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def repair(*words: str, cwd: Path) -> tuple[int, str, str]:
    run = kdump("repair", *words, cwd=cwd)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("what", PLACES)
def test_a_flipped_bit_is_set_back(tmp_path: Path, case: str, what: str) -> None:
    partition = put(tmp_path, case)
    sound = contents(partition)
    for batch in (0, 7, -1):
        flip(partition, batch, PLACES[what], 4)
        damaged = contents(partition)
        out = f"out{batch}"
        assert repair("--correct", "-o", out, f"logs/{NAME}", cwd=tmp_path)[0] == CLEAN
        assert logs_of(tmp_path / out / NAME) == {name: sound[name] for name in logs_of(partition)}
        assert contents(partition) == damaged
        for name in logs_of(partition):
            (partition / name).write_bytes(sound[name])


@pytest.mark.parametrize("words", [("--correct",), ("--correct", "--salvage")])
@pytest.mark.parametrize("case", CASES)
def test_several_batches_in_place_and_back(tmp_path: Path, case: str, words: tuple[str, ...]) -> None:
    partition = put(tmp_path, case)
    sound = contents(partition)
    flip(partition, 1, PLACES["a record"], 0x80)
    flip(partition, 5, PLACES["attributes"], 0x10)
    flip(partition, -1, PLACES["the stored CRC"], 1, segment=-1)
    damaged = contents(partition)
    assert repair(*words, "--in-place", f"logs/{NAME}", cwd=tmp_path)[0] == CLEAN
    assert {name: data for name, data in contents(partition).items() if "index" not in name} == {
        name: data for name, data in sound.items() if "index" not in name
    }
    assert repair(*words, "--in-place", f"logs/{NAME}", cwd=tmp_path)[1] == f"logs/{NAME}: nothing to repair\n"
    (manifest,) = manifests(partition)
    assert repair("--undo", os.path.relpath(manifest, tmp_path), cwd=tmp_path)[0] == CLEAN
    assert contents(partition) == damaged


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "damage", [*NOT_COVERED, "an epoch beside a bit", "two bits", "one of two", "a cut tail", "a lost batch"]
)
def test_what_no_crc_proves_is_refused(tmp_path: Path, case: str, damage: str) -> None:
    """Nothing of it is dropped, moved or made."""
    partition = put(tmp_path, case)
    log = min(partition.glob("*.log"))
    batches = entries(log.read_bytes())
    if damage in NOT_COVERED:
        flip(partition, 7, NOT_COVERED[damage], 2)
    elif damage == "an epoch beside a bit":
        flip(partition, 7, PLACES["a record"], 1)
        flip(partition, -1, NOT_COVERED["the leader epoch"], 64, segment=-1)
    elif damage == "two bits":
        flip(partition, 7, PLACES["a record"], 3)
    elif damage == "one of two":
        flip(partition, 3, PLACES["a record"], 1)
        flip(partition, 7, PLACES["a record"], 3)
    elif damage == "a cut tail":
        log.write_bytes(b"".join(batches)[:-5])
    else:
        log.write_bytes(b"".join([*batches[:4], b"\x55" * 90, *batches[5:]]))
    before = contents(partition)
    for words in (["--correct", "--in-place"], ["--salvage", "--correct", "-o", "out"], ["--correct"]):
        status, _, errors = repair(*words, f"logs/{NAME}", cwd=tmp_path)
        assert status == DAMAGE
        assert "unless --correct restores all of them as their checksums prove" in errors
    assert contents(partition) == before
    assert not (partition / ".kdump").exists() or not list((partition / ".kdump").iterdir())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [("--salvage", "--in-place"), ("--in-place",), ("--salvage", "-o", "out")])
def test_without_correct_it_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    partition = put(tmp_path, CASES[0])
    flip(partition, 7, PLACES["a record"], 1)
    before = contents(partition)
    status, _, errors = repair(*words, f"logs/{NAME}", cwd=tmp_path)
    assert (status, "unless --correct" in errors) == (DAMAGE, True)
    assert contents(partition) == before


def test_no_batch_of_a_copy_goes_into_a_metadata_log(tmp_path: Path) -> None:
    """Another voter may have other records there. A log that is gone is not made of it either."""
    partition = put(tmp_path, CASES[0])
    other = put(tmp_path / "other", CASES[0])
    for log in partition.glob("*.log"):
        log.unlink()
    before = contents(partition)
    words = ("--salvage", "--correct", "--in-place", "--from", str(other))
    assert repair(*words, f"logs/{NAME}", cwd=tmp_path)[0] != CLEAN
    assert contents(partition) == before
