"""Figures as one HTML file that opens without a network: tables of numbers, and interactive charts.

Everything that comes from a file is escaped, control characters too. The file always contains plotly's script, some
5 MB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kdump.reading.outcomes import OUTCOMES
from kdump.stats.charts import Chart, ReportData, charts
from kdump.stats.groupfigures import Figures, FiguresReport
from kdump.stats.grouping import By
from kdump.system.units import bytes_text, counted, listed, percent, time_text
from kdump.verify.htmlpage import (
    MOST_PATHS,
    findings_table,
    map_section,
    numbers,
    page_end,
    page_head,
    page_text,
    table,
    table_row,
)

_MOST_GROUPS: Final = 500
_CONFIG: Final = {"displaylogo": False, "displayModeBar": False}

_SCRIPT: Final = """
const dark = window.matchMedia('(prefers-color-scheme: dark)');
function recolor() {
  const style = getComputedStyle(document.documentElement);
  const text = style.getPropertyValue('--text').trim(), grid = style.getPropertyValue('--grid').trim();
  const card = style.getPropertyValue('--card').trim(), line = style.getPropertyValue('--line').trim();
  document.querySelectorAll('.plotly-graph-div').forEach(chart => {
    const change = {'font.color': text, 'hoverlabel.bgcolor': card, 'hoverlabel.bordercolor': line,
      'hoverlabel.font.color': text};
    for (const axis of Object.keys(chart.layout || {}).filter(name => /^[xy]axis/.test(name)))
      Object.assign(change, {[axis + '.gridcolor']: grid, [axis + '.linecolor']: line, [axis + '.tickcolor']: line});
    Plotly.relayout(chart, change);
  });
}
// A printer's page, and any other place without scripts, scales what was drawn for another width.
document.querySelectorAll('.plotly-graph-div').forEach(chart => chart.on('plotly_afterplot', () =>
  chart.querySelectorAll('.main-svg').forEach(svg => svg.setAttribute('viewBox',
    `0 0 ${chart.clientWidth} ${chart.clientHeight}`))));
dark.addEventListener('change', recolor);
recolor();
const fit = new ResizeObserver(changes => changes.forEach(change => Plotly.Plots.resize(change.target)));
document.querySelectorAll('.plotly-graph-div').forEach(chart => fit.observe(chart));
"""


def why_no_html() -> str | None:
    """What is missing for reports; None: nothing."""
    try:
        import plotly.graph_objects  # noqa: F401
    except ImportError as error:
        return f"--html needs {error.name}: pip install plotly"
    return None


def html_report(report: FiguresReport, by: By, data: ReportData, names: Sequence[str]) -> str:
    """The whole file. ``names``: the PATHs, as they were given."""
    from plotly.offline import get_plotlyjs

    title = listed(names, MOST_PATHS)
    made = list(charts(data))
    parts = [
        page_head(f"kdump stats: {title}", f"<script>{get_plotlyjs()}</script>\n"),
        f"<h1>{page_text(title)}</h1>\n",
        f"<p>{page_text(_about(report.total))}</p>\n",
        map_section(data.segments, data.findings),
        numbers(_numbers(report.total, gaps_are_normal=report.gaps_are_normal)),
        "<div class='charts'>\n",
        *(_section(chart) for chart in made),
        "</div>\n",
        _groups_table(report, by),
        findings_table(data.findings, data.left_out),
        page_end(_SCRIPT),
    ]
    return "".join(parts)


def _about(total: Figures) -> str:
    about = counted(total.files, "file")
    if total.min_timestamp is not None and total.max_timestamp is not None:
        about += f", records from {time_text(total.min_timestamp)} to {time_text(total.max_timestamp)}"
    return about


def _numbers(total: Figures, *, gaps_are_normal: bool) -> Iterator[tuple[str, str, str]]:
    """(name, value, style) of the numbers at the top."""
    sums = total.sums
    yield "bytes", bytes_text(sums["bytes"]), ""
    yield "records", f"{sums['records']:,}", ""
    yield "batches", f"{sums['batches']:,}", ""
    if total.min_offset is not None:
        yield "offsets", f"{total.min_offset:,} \N{EN DASH} {total.max_offset:,}", ""
    rate = total.rate("bytes")
    if rate is not None:
        yield "a second", bytes_text(rate), ""
    if sums["missing_offsets"]:
        what = "offsets missing, as compaction leaves them: normal" if gaps_are_normal else "offsets missing"
        yield what, f"{sums['missing_offsets']:,}", "" if gaps_are_normal else "warn"
    if total.distinct_keys is not None and total.distinct_keys.estimate:
        yield "different keys", f"{total.distinct_keys.estimate:,}", ""
    if total.with_records and sums["tombstones"]:
        yield "tombstones", f"{sums['tombstones']:,}", ""
    if total.with_records and sums["null_keys"]:
        yield "records without key", f"{sums['null_keys']:,}", ""
    if total.step_back:
        yield "largest step back in time", f"{total.step_back:,} ms", "warn"
    for outcome in OUTCOMES:
        transactions = sums[f"{outcome}_transactions"]
        if transactions:
            whole = percent(sums[f"{outcome}_bytes"], sums["bytes"])
            yield f"transactions {outcome}", f"{transactions:,} ({whole})", ""
    if total.producers:
        yield "producers", f"{len(total.producers):,}", ""
    errors, warnings = total.errors or 0, total.warnings or 0
    yield "errors", f"{errors:,}", "bad" if errors else "good"
    if warnings:
        yield "warnings", f"{warnings:,}", "warn"


def _section(chart: Chart) -> str:
    from plotly.io import to_html

    wide = " class='wide'" if chart.name == "time" else ""
    drawn = to_html(
        chart.figure, config=_CONFIG, include_plotlyjs=False, full_html=False, div_id=f"chart-{chart.name}",
        default_width="100%", default_height=f"{chart.figure.layout.height}px",
    )  # fmt: skip
    return f"<section{wide}><h2>{page_text(chart.title)}</h2><p>{page_text(chart.note)}</p>{drawn}</section>\n"


def _groups_table(report: FiguresReport, by: By) -> str:
    whole = report.total.sums["bytes"]
    rows = []
    for figures in report.groups[:_MOST_GROUPS]:
        sums = figures.sums
        offsets = "" if figures.min_offset is None else f"{figures.min_offset:,} \N{EN DASH} {figures.max_offset:,}"
        rows.append(
            table_row(
                [
                    (figures.group or "", "text"),
                    (bytes_text(sums["bytes"]), "right"),
                    (percent(sums["bytes"], whole), "right"),
                    (f"{sums['records']:,}", "right"),
                    ("" if by.is_of_contents else f"{sums['batches']:,}", "right"),
                    (offsets, "right"),
                    ("" if figures.min_timestamp is None else time_text(figures.min_timestamp), ""),
                    ("" if figures.max_timestamp is None else time_text(figures.max_timestamp), ""),
                    (f"{figures.errors:,}" if figures.errors else "", "right bad"),
                ]
            )
        )
    left = len(report.groups) - len(rows)
    more = f"<p>{left:,} more: kdump stats --output jsonl has all.</p>" if left else ""
    titles = (by.value, "bytes", "share", "records", "batches", "offsets", "first", "last", "errors")
    styles = ("", "right", "right", "right", "right", "right", "", "", "right")
    return table(f"By {by.value}", titles, styles, rows, more)
