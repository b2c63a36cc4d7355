"""Some cases of the fuzzer, and everything that it found before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.__main__ import load_everything, report
from tests.fuzz.case import Case
from tests.fuzz.corpus import Corpus
from tests.fuzz.driver import Found, faults_of, fuzz, shrunk
from tests.fuzz.kinds import KINDS
from tests.harness.captures import Captures
from tests.harness.examples import fuzz_seed

pytestmark = pytest.mark.slow

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.fixture(scope="module")
def corpus(captures: Captures) -> Corpus:
    load_everything()
    return Corpus.of(captures)


def test_new_cases(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    seed = fuzz_seed()
    campaign = fuzz(corpus, seed, jobs=1, most=2000)
    with capsys.disabled():
        print(f"\nfuzzer: {report(campaign, seed)}")
    assert campaign.cases.total() == 2000 or campaign.found
    assert not campaign.found, "\n".join(
        f"{name}: {found.fault.detail}\n{found.case.to_json()}" for name, found in campaign.found.items()
    )


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_found_before(path: Path, tmp_path: Path) -> None:
    faults = faults_of(Case.from_json(path.read_text(encoding="utf-8")), tmp_path)
    assert not faults, faults[0].detail


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_made_and_checked(kind: str, corpus: Corpus) -> None:
    campaign = fuzz(corpus, 1, jobs=1, most=10, weights={kind: 1})
    assert campaign.cases == {kind: 10}


def test_cases_survive_as_text() -> None:
    case = Case("entries", 7, {"orders-0/a.log": bytes(range(256)), "b": b""})
    assert Case.from_json(case.to_json()) == case


@pytest.mark.parametrize(
    ("harm", "promise"),
    [
        ("raise RuntimeError('a fault')", "exception"),
        ("print('Traceback', file=__import__('sys').stderr)", "stderr"),
        ("open('evidence/orders-0/x', 'w')", "evidence"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", "crash"),
        ("bytearray(200 << 20).count(1)", "memory"),
        ("exec('while True: pass')", "time"),
        ("return_value = 7", "status"),
    ],
)
def test_broken_promises_are_seen(harm: str, promise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fuzzer that sees nothing finds nothing: each promise is broken once on purpose."""

    def broken() -> int:
        known: dict[str, int] = {}
        exec(harm, known)
        return known.get("return_value", 0)

    monkeypatch.setattr("tests.fuzz.running._run", broken)
    monkeypatch.setattr("tests.fuzz.running.MOST_SECONDS", 0.3)
    monkeypatch.setattr("tests.fuzz.driver._MOST_MORE_MEMORY", 100 << 10)
    case = Case("directory", 1, {"orders-0/00000000000000000000.log": b""})
    assert promise in {fault.promise for fault in faults_of(case, tmp_path / "run")}


def test_cases_shrink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        if any(b"needle" in path.read_bytes() for path in Path("evidence").rglob("*.log")):
            raise RuntimeError("found")
        return 0

    monkeypatch.setattr("tests.fuzz.running._run", broken)
    monkeypatch.setattr("tests.fuzz.driver._MOST_SHRINKING", 600)
    files = {"orders-0/00000000000000000000.log": bytes(500) + b"needle" + bytes(500), "orders-0/x": b"y"}
    case = Case("directory", 1, files)
    (fault,) = faults_of(case, tmp_path / "run")
    small = shrunk(Found(fault, case), tmp_path / "run")
    assert list(small.files) == ["orders-0/00000000000000000000.log"]
    assert small.size < 60
