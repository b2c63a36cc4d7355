"""``kdump stats --html``: one file, its numbers, and nothing in it that a log could have written."""

from __future__ import annotations

import html
import json
import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.inputs import inputs_of, resolve
from kdump.stats.charts import _doubling_bars
from kdump.stats.offsettimes import OffsetTimes
from kdump.stats.run import StatsOptions, StatsRun, fold_log
from kdump.tasks.logs import log_files
from kdump.verify.run import Verification
from tests.harness.batches import GZIP, v2_batch
from tests.harness.captures import Captures
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, DAMAGED_BATCH, NAME, UNREADABLE, kdump, shell
from tests.harness.fast_reference import Row
from tests.harness.folds import repacked

EVIL = "</script><script>alert(1)</script><b>&amp;\x1b[31m\x00"


class Page(HTMLParser):
    """What a browser would load, and the text it would show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[str] = []
        self.scripts: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts.append(data)
        elif self._within != "style":
            self.shown.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.shown)

    def charts(self) -> dict[str, list[dict[str, Any]]]:
        """The data of each chart by its name."""
        found = {}
        for script in self.scripts:
            if (match := re.search(r'Plotly\.newPlot\(\s*"chart-(\w+)",\s*', script)) is not None:
                found[match[1]] = json.JSONDecoder().raw_decode(script[match.end() :])[0]
        return found

    def map(self) -> dict[str, Any]:
        """What the map is drawn of."""
        (data,) = [script for script in self.scripts if script.startswith('{"elsewhere"')]
        found: dict[str, Any] = json.loads(data)
        return found


def report(*words: str, cwd: Path, status: int = CLEAN) -> Page:
    run = kdump("stats", *words, "--html", "report.html", cwd=cwd)
    assert run.returncode == status, run.stderr
    return Page((cwd / "report.html").read_text("utf-8"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    rows = [Row(60_000 * number, number, b"key-%d" % (number % 3), bytes(100)) for number in range(30)]
    (directory / NAME).write_bytes(v2_batch(rows) + v2_batch(rows, base_offset=30, codec=GZIP))
    return tmp_path


def values(column: Any) -> list[Any]:
    """Plotly packs numbers as base64."""
    if isinstance(column, dict):
        import base64

        return np.frombuffer(base64.b64decode(column["bdata"]), column["dtype"]).tolist()
    return list(column)


def test_one_file_that_needs_no_network(folder: Path) -> None:
    page = report("orders-0", cwd=folder)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "img", "object")
        assert not {"src", "href", "srcset", "action"} & attributes.keys()
    assert "@import" not in (folder / "report.html").read_text("utf-8").split("</style>")[0]
    assert sorted(path.name for path in folder.iterdir()) == ["orders-0", "report.html"]


def test_charts_have_the_figures(folder: Path) -> None:
    page = report("orders-0", cwd=folder)
    charts = page.charts()
    assert set(charts) == {"time", "sizes", "codecs", "keys", "offsets"}
    size = (folder / "orders-0" / NAME).stat().st_size
    assert sum(values(charts["time"][0]["y"])) == size
    assert sum(values(charts["time"][1]["y"])) == 60
    assert sum(values(charts["sizes"][0]["y"])) == 2
    (row,) = page.map()["warning"]["rows"]
    assert [block[4] for block in row["lanes"][0]["segments"]] == [size]
    assert sorted(charts["keys"][0]["y"]) == ["key-0", "key-1", "key-2"]
    assert "60 records" in re.sub(r"\s+", " ", page.text)
    assert "0 errors" in re.sub(r"\s+", " ", page.text)


def test_light_and_dark(folder: Path) -> None:
    report("orders-0", cwd=folder)
    text = (folder / "report.html").read_text("utf-8")
    assert "color-scheme: light dark" in text
    assert text.count("prefers-color-scheme: dark") == 2, "the style's and the charts'"
    assert "width=device-width" in text


def test_damage_is_on_the_map(folder: Path) -> None:
    (folder / "orders-0" / NAME).write_bytes(BATCH + DAMAGED_BATCH)
    page = report("orders-0", cwd=folder, status=DAMAGE)
    (row,) = page.map()["error"]["rows"]
    (mark,) = [mark for mark in row["lanes"][0]["marks"] if mark[0] == "damage"]
    assert mark[1:3] == [1, 3]
    assert mark[4] == f"kdump dump --explain {len(BATCH)} orders-0/{NAME}"
    assert "KD108 batch-crc" in page.text


def test_nothing_of_a_log_is_markup(folder: Path) -> None:
    directory = folder / "a<b>&\x1b-0"
    directory.mkdir()
    row = Row(0, 0, EVIL.encode(), EVIL.encode(), [(EVIL.encode(), EVIL.encode())])
    (directory / NAME).write_bytes(v2_batch([row] * 3))
    (folder / "report.html").write_text("<!DOCTYPE html>old")
    page = report(directory.name, cwd=folder, status=DAMAGE)
    text = (folder / "report.html").read_text("utf-8")
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "\x00" not in text
    assert not any(tag == "b" and not attributes for tag, attributes in page.tags)
    (label,) = page.charts()["keys"][0]["y"]
    assert "<" not in label
    assert html.unescape(label).startswith("</script><scrip")


def test_quotes_of_labels_stay(folder: Path) -> None:
    """Plotly takes some tags for markup, and shows ``&quot;`` as it stands."""
    row = Row(0, 0, b"{\"id\":'7'}<b>", b"v")
    (folder / "orders-0" / NAME).write_bytes(v2_batch([row]))
    page = report("orders-0", cwd=folder)
    assert list(page.charts()["keys"][0]["y"]) == ["{\"id\":'7'}&lt;b&gt;"]
    assert "Different keys: 1." in page.text


def test_quick_reports_what_headers_tell(folder: Path) -> None:
    page = report("--quick", "orders-0", cwd=folder)
    assert set(page.charts()) == {"time", "sizes", "codecs", "offsets"}


@pytest.mark.parametrize("log", [b"", v2_batch([], record_count=0)], ids=["no-entry", "no-record"])
def test_of_nothing(folder: Path, log: bytes) -> None:
    (folder / "orders-0" / NAME).write_bytes(log)
    page = report("orders-0", cwd=folder)
    assert "0 records" in re.sub(r"\s+", " ", page.text)


@pytest.mark.parametrize("timestamp", [-1, 0, 2**62, 253_402_300_799_999, -(2**63)])
@pytest.mark.slow
def test_any_timestamp(folder: Path, timestamp: int) -> None:
    odd = v2_batch([Row(0, 0, b"k", b"v")], base_timestamp=timestamp, max_timestamp=timestamp)
    (folder / "orders-0" / NAME).write_bytes(odd + BATCH.replace(bytes(8), (1).to_bytes(8, "big"), 1))
    run = kdump("stats", "--html", "report.html", "orders-0", cwd=folder)
    assert run.returncode in (CLEAN, DAMAGE)
    assert b"internal error" not in run.stderr
    assert Page((folder / "report.html").read_text("utf-8")).charts()


def test_a_stream(folder: Path) -> None:
    run = kdump("stats", "--html", "report.html", "-", cwd=folder, stdin=BATCH)
    assert run.returncode == CLEAN
    assert "time" in Page((folder / "report.html").read_text("utf-8")).charts()


def test_where_no_file_can_be(folder: Path) -> None:
    for target in ("nowhere/report.html", "orders-0"):
        run = kdump("stats", "--html", target, "orders-0", cwd=folder)
        assert run.returncode == UNREADABLE
        assert b"KD" not in run.stdout
        assert run.stderr.startswith(f"kdump: {target}: ".encode())
    assert sorted(path.name for path in folder.iterdir()) == ["orders-0"]


@pytest.mark.slow
def test_nothing_but_a_report_is_written_over(folder: Path) -> None:
    (folder / "cleaner-offset-checkpoint").write_text("0\n0\n")
    (folder / "empty.index").touch()
    log = f"orders-0/{NAME}"
    before = (folder / log).read_bytes()
    for target in (log, "cleaner-offset-checkpoint", "empty.index", f"new/{NAME}"):
        (folder / "new").mkdir(exist_ok=True)
        run = kdump("stats", "--html", target, "orders-0", cwd=folder)
        assert run.returncode == UNREADABLE
        assert run.stderr == f"kdump: {target}: is no place for a report: only an older one is written over\n".encode()
        assert run.stdout == b""
    assert (folder / log).read_bytes() == before
    assert not any((folder / "new").iterdir())
    (folder / "report.html").touch()
    for _ in range(2):
        assert report("orders-0", cwd=folder).charts()


@pytest.mark.slow
def test_a_device_stays_one(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    run = shell("cat pipe > copy.html & $KDUMP stats --html pipe orders-0 > page.txt; wait", folder)
    assert run.returncode == CLEAN
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    assert Page((folder / "copy.html").read_text("utf-8")).charts()


@pytest.mark.slow
def test_a_link_stays_one(folder: Path) -> None:
    """``/dev/stdout`` is one, to the file that standard output goes to."""
    log, report, link, own = folder / NAME, folder / "report.html", folder / "link.html", folder / "own"
    log.write_bytes(BATCH)
    link.symlink_to(report.name)
    for _ in range(2):
        assert kdump("stats", "--html", str(link), str(log), cwd=folder).returncode == CLEAN
        assert link.is_symlink()
        assert report.read_text().startswith("<!DOCTYPE html>")
        report.write_bytes(b"")
    own.symlink_to("/proc/self/fd/1")
    for redirected in (">", ">>"):
        run = shell(f"rm -f out; $KDUMP stats --output jsonl --html own {NAME} {redirected}out", folder)
        assert (run.returncode, run.stderr) == (CLEAN, b"")
        assert own.is_symlink()
        line, _, page = (folder / "out").read_text().partition("\n")
        assert json.loads(line)["records"] == 3
        assert page.startswith("<!DOCTYPE html>")
        assert page.endswith("</html>\n")


@pytest.mark.slow
def test_without_plotly(folder: Path) -> None:
    (folder / "stubs").mkdir()
    (folder / "stubs" / "plotly.py").write_text("raise ImportError('no', name='plotly')")
    run = shell("PYTHONPATH=stubs $KDUMP stats --html report.html orders-0", folder)
    assert run.returncode == UNREADABLE
    assert run.stdout == b""
    assert run.stderr == b"kdump: --html needs plotly: pip install plotly\n"


@pytest.mark.slow
def test_a_capture(captures: Captures, tmp_path: Path) -> None:
    page = report("--by", "partition", str(captures.root / "3.9.1" / "v2-multi-0"), cwd=tmp_path)
    assert set(page.charts()) == {"time", "sizes", "codecs", "keys", "offsets"}
    assert len(page.map()["info"]["rows"][0]["lanes"][0]["segments"]) > 3


BATCHES = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 10**6)), min_size=1, max_size=700)


@given(BATCHES, st.integers(0, 700))
def test_curves_do_not_depend_on_the_order(batches: list[tuple[int, int]], cut: int) -> None:
    def curve(*parts: list[tuple[int, int]]) -> Any:
        times = OffsetTimes()
        for part in parts:
            other = OffsetTimes()
            if part:
                offset, timestamp = np.array(part, np.int64).T
                other.add("t-0", offset, timestamp)
            times.merge(other)
        return times.curves()

    whole = curve(batches)
    assert curve(batches[:cut], batches[cut:]) == whole == curve(batches[cut:], batches[:cut])
    steps = whole["t-0"]
    assert len(steps) <= 512
    assert min(step.least for step in steps) == min(timestamp for _, timestamp in batches)
    assert max(step.largest for step in steps) == max(timestamp for _, timestamp in batches)


@given(st.dictionaries(st.integers(14, 10**9), st.integers(1, 9), min_size=1, max_size=40))
def test_bars_hold_every_batch(histogram: dict[int, int]) -> None:
    bars = _doubling_bars(sorted(histogram.items()))
    assert sum(count for _, count in bars) == sum(histogram.values())
    assert len(bars) <= 45


@pytest.mark.slow
def test_curves_of_folds(captures: Captures) -> None:
    options = StatsOptions(with_curves=True)
    path = str(captures.root / "3.9.1" / "v2-multi-0")

    def curves(run: StatsRun) -> Any:
        for _ in Verification(run.judge(), on_error=lambda error: None).items(resolve(path)):
            pass
        run.report()
        return run.curves()

    taken = StatsRun(options)
    for log in log_files(inputs_of([path], lambda error: None, with_patterns=True), lambda error: None):
        taken.take_fold(log.path, repacked(fold_log(log, options)))
    assert curves(taken) == curves(StatsRun(options))
