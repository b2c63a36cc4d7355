"""Figures as one HTML file that opens without a network: tables of numbers, and interactive charts.

Everything that comes from a file is escaped, control characters too. The file always contains plotly's script, some
5 MB.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from kdump import __version__
from kdump.codes import Severity
from kdump.stats.charts import Chart, ReportData, charts
from kdump.stats.groupfigures import Figures, FiguresReport
from kdump.stats.grouping import By
from kdump.system.blocks import escaped
from kdump.system.units import bytes_text, counted, percent, time_text

DOCTYPE: Final = "<!DOCTYPE html>"
"""How each report begins."""
_MOST_GROUPS: Final = 500
_MOST_FINDINGS: Final = 100
_CONFIG: Final = {"displaylogo": False, "displayModeBar": False}

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1f2933; --dim: #5b6875; --back: #f4f6f8; --card: #ffffff; --line: #d9dfe5;
  --bad: #b3261e; --warn: #9a5b00; --good: #1d7a4d; --grid: #e3e8ec; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ec; --dim: #9aa6b2; --back: #14181c; --card: #1d2328;
  --line: #323b44; --bad: #ff8a80; --warn: #ffb74d; --good: #6fd3a0; --grid: #323b44; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1rem; background: var(--back); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1500px; margin: 0 auto; }
h1 { font-size: 1.35rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.02rem; margin: 0 0 .15rem; }
p { margin: 0 0 .5rem; color: var(--dim); font-size: .88rem; }
.numbers { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: .6rem; margin: 1rem 0; }
.numbers div, section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.numbers div { padding: .5rem .75rem; }
.numbers b { display: block; font-size: 1.15rem; font-weight: 600; overflow-wrap: anywhere; }
.numbers span { color: var(--dim); font-size: .8rem; }
.charts { display: grid; grid-template-columns: minmax(0, 1fr); gap: .8rem; }
@media (min-width: 900px) { .charts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .wide { grid-column: 1 / -1; } }
section { padding: .8rem .9rem; min-width: 0; margin: 0 0 .8rem; overflow: hidden; }
.charts { margin: 0 0 .8rem; }
.charts section { margin: 0; }
.scroll { overflow-x: auto; }
.svg-container { width: 100% !important; }
.main-svg { width: 100% !important; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
td.text { white-space: normal; overflow-wrap: anywhere; min-width: 14rem; }
th { color: var(--dim); font-weight: 600; }
.right { text-align: right; }
.bad { color: var(--bad); font-weight: 600; } .warn { color: var(--warn); } .good { color: var(--good); }
footer { color: var(--dim); font-size: .8rem; margin: 1rem 0 0; }
"""

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

    title = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    made = list(charts(data))
    parts = [
        f"{DOCTYPE}\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n",
        f"<title>kdump stats: {_text(title)}</title>\n<style>{_STYLE}</style>\n",
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n<main>\n",
        f"<h1>{_text(title)}</h1>\n",
        f"<p>{_text(_about(report.total))}</p>\n",
        "<div class='numbers'>\n",
        *(
            f"<div><b class='{style}'>{_text(value)}</b><span>{_text(name)}</span></div>\n"
            for name, value, style in _numbers(report.total)
        ),
        "</div>\n<div class='charts'>\n",
        *(_section(chart) for chart in made),
        "</div>\n",
        _groups_table(report, by),
        _findings_table(data),
        f"<footer>Made by kdump {__version__} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. Times are in UTC.</footer>\n",
        f"</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n",
    ]
    return "".join(parts)


def _about(total: Figures) -> str:
    about = counted(total.files, "file")
    if total.min_timestamp is not None and total.max_timestamp is not None:
        about += f", records from {time_text(total.min_timestamp)} to {time_text(total.max_timestamp)}"
    return about


def _numbers(total: Figures) -> Iterator[tuple[str, str, str]]:
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
        yield "offsets missing", f"{sums['missing_offsets']:,}", ""
    if total.distinct_keys is not None and total.distinct_keys.estimate:
        yield "different keys", f"{total.distinct_keys.estimate:,}", ""
    if total.with_records and sums["tombstones"]:
        yield "tombstones", f"{sums['tombstones']:,}", ""
    if total.with_records and sums["null_keys"]:
        yield "records without key", f"{sums['null_keys']:,}", ""
    if total.step_back:
        yield "largest step back in time", f"{total.step_back:,} ms", "warn"
    for outcome, share in total.transactions.items():
        if share.transactions:
            whole = percent(share.size, sums["bytes"])
            yield f"transactions {outcome}", f"{share.transactions:,} ({whole})", ""
    if total.producers:
        yield "producers", f"{len(total.producers):,}", ""
    errors, warnings = total.errors or 0, total.warnings or 0
    yield "errors", f"{errors:,}", "bad" if errors else "good"
    if warnings:
        yield "warnings", f"{warnings:,}", "warn"


def _section(chart: Chart) -> str:
    from plotly.io import to_html

    wide = " class='wide'" if chart.name in ("time", "damage") else ""
    drawn = to_html(
        chart.figure, config=_CONFIG, include_plotlyjs=False, full_html=False, div_id=f"chart-{chart.name}",
        default_width="100%", default_height=f"{chart.figure.layout.height}px",
    )  # fmt: skip
    return f"<section{wide}><h2>{_text(chart.title)}</h2><p>{_text(chart.note)}</p>{drawn}</section>\n"


def _groups_table(report: FiguresReport, by: By) -> str:
    whole = report.total.sums["bytes"]
    rows = []
    for figures in report.groups[:_MOST_GROUPS]:
        sums = figures.sums
        offsets = "" if figures.min_offset is None else f"{figures.min_offset:,} \N{EN DASH} {figures.max_offset:,}"
        rows.append(
            _row(
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
    return _table(f"By {by.value}", titles, styles, rows, more)


def _findings_table(data: ReportData) -> str:
    if not data.findings:
        return ""
    styles = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.INFO: ""}
    rows = [
        _row(
            [
                (finding.severity.value, styles[finding.severity]),
                (f"{finding.code.value.code} {finding.code.value.name}", ""),
                (finding.path or "", "text"),
                (f"{finding.position:,}", "right"),
                (finding.message, "text"),
            ]
        )
        for finding in data.findings[:_MOST_FINDINGS]
    ]
    left = len(data.findings) - len(rows) + data.left_out
    more = f"<p>{left:,} more: kdump verify has all.</p>" if left else ""
    return _table("Findings", ("", "code", "file", "position", "what"), ("", "", "", "right", ""), rows, more)


def _table(title: str, titles: Sequence[str], styles: Sequence[str], rows: Sequence[str], more: str) -> str:
    head = "".join(f"<th class='{style}'>{_text(name)}</th>" for name, style in zip(titles, styles, strict=True))
    return (
        f"<section><h2>{_text(title)}</h2><div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}</section>\n"
    )


def _row(cells: Sequence[tuple[str, str]]) -> str:
    return "<tr>" + "".join(f"<td class='{style}'>{_text(value)}</td>" for value, style in cells) + "</tr>"


def _text(value: str) -> str:
    return html.escape(escaped(value))
