"""HTML pages of a run, each one file that opens without a network: the map first, then numbers and tables.

Everything that comes from a file is escaped, control characters too.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kdump import __version__
from kdump.codes import Finding, Severity
from kdump.system.blocks import escaped
from kdump.system.units import bytes_text, listed
from kdump.verify.advice import importance, most_important, next_command
from kdump.verify.partitionmap import partition_map
from kdump.verify.summary import SegmentSummary

DOCTYPE: Final = "<!DOCTYPE html>"
"""How each report begins."""
_MOST_FINDINGS: Final = 100
MOST_PATHS: Final = 3
"""In the title."""
_MAP: Final = Path(__file__).with_name("map.js")
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1f2933; --dim: #5b6875; --back: #f4f6f8; --card: #ffffff; --line: #d9dfe5;
  --bad: #b3261e; --warn: #9a5b00; --good: #1d7a4d; --grid: #e3e8ec;
  --sound: #a9cdbb; --mild: #e8cf9c; --hurt: #e6aaa5; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ec; --dim: #9aa6b2; --back: #14181c; --card: #1d2328;
  --line: #323b44; --bad: #ff8a80; --warn: #ffb74d; --good: #6fd3a0; --grid: #323b44;
  --sound: #2f5a46; --mild: #6b5526; --hurt: #74393a; } }
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


def page_head(title: str, scripts: str = "") -> str:
    """The beginning of a page, up to its contents; ``scripts``: elements of its head."""
    return (
        f"{DOCTYPE}\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{page_text(title)}</title>\n<style>{_STYLE}{_MAP.with_suffix('.css').read_text('utf-8')}</style>\n"
        f"{scripts}</head>\n<body>\n<main>\n"
    )


def page_end(script: str = "") -> str:
    """The end of a page, with its script."""
    made = f"Made by kdump {__version__} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. Times are in UTC."
    return f"<footer>{made}</footer>\n</main>\n<script>{script}</script>\n</body>\n</html>\n"


def map_section(segments: Sequence[SegmentSummary], findings: Sequence[Finding]) -> str:
    """The picture of all partitions, see ``partitionmap``."""
    # No text can end the element of the data.
    data = json.dumps(partition_map(segments, findings), separators=(",", ":"), default=str).replace("<", "\\u003c")
    return (
        "<section><h2>What was found, on a map of the partitions</h2><div id='map'></div>"
        "<noscript><p>The map needs scripts.</p></noscript></section>\n"
        f"<script type='application/json' id='map-data'>{data}</script>\n"
        f"<script>{_MAP.read_text('utf-8')}</script>\n"
    )


def numbers(shown: Iterable[tuple[str, str, str]]) -> str:
    """Numbers side by side: name, value, style."""
    cards = (
        f"<div><b class='{style}'>{page_text(value)}</b><span>{page_text(name)}</span></div>\n"
        for name, value, style in shown
    )
    return f"<div class='numbers'>\n{''.join(cards)}</div>\n"


def verify_page(
    names: Sequence[str], segments: Sequence[SegmentSummary], findings: Sequence[Finding], left_out: int
) -> str:
    """The page of ``verify --html``.

    Args:
        names: the PATHs, as they were given.
        segments: of the run.
        findings: of the run.
        left_out: how many more there are.
    """
    title = listed(names, MOST_PATHS)
    logs = [segment for segment in segments if segment.batches is not None]
    errors, warnings = (
        sum(finding.severity is severity for finding in findings) for severity in (Severity.ERROR, Severity.WARNING)
    )
    counts = [
        ("segments", f"{len(logs):,}", ""),
        ("bytes", bytes_text(sum(segment.size or 0 for segment in logs)), ""),
        ("batches", f"{sum(segment.batches or 0 for segment in logs):,}", ""),
        ("errors", f"{errors:,}", "bad" if errors else "good"),
        ("warnings", f"{warnings:,}", "warn" if warnings else ""),
    ]
    return "".join(
        (
            page_head(f"kdump verify: {title}"),
            f"<h1>{page_text(title)}</h1>\n",
            _verdict(findings),
            map_section(segments, findings),
            numbers(counts),
            findings_table(sorted(findings, key=importance, reverse=True), left_out),
            page_end(),
        )
    )


def _verdict(findings: Sequence[Finding]) -> str:
    """What matters most, and what to type next."""
    worst = most_important(findings)
    if worst is None or worst.severity is Severity.INFO:
        return "<p class='good'>Nothing is wrong.</p>\n"
    code = worst.code.value
    words = f"{code.code} {code.name} in {worst.path or ''}, {worst}"
    command = next_command(worst)
    more = "" if command is None else f"<p>Next: <code>{page_text(command)}</code></p>\n"
    style = "bad" if worst.severity is Severity.ERROR else "warn"
    return f"<p class='{style}'>{page_text(words)}</p>\n{more}"


def findings_table(findings: Sequence[Finding], left_out: int) -> str:
    """The first findings as a table; ``left_out``: how many more there are."""
    if not findings:
        return ""
    styles = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.INFO: ""}
    rows = [
        table_row(
            [
                (finding.severity.value, styles[finding.severity]),
                (f"{finding.code.value.code} {finding.code.value.name}", ""),
                (finding.path or "", "text"),
                (f"{finding.position:,}", "right"),
                (finding.message, "text"),
            ]
        )
        for finding in findings[:_MOST_FINDINGS]
    ]
    left = len(findings) - len(rows) + left_out
    more = f"<p>{left:,} more: kdump verify has all.</p>" if left else ""
    return table("Findings", ("", "code", "file", "position", "what"), ("", "", "", "right", ""), rows, more)


def table(title: str, titles: Sequence[str], styles: Sequence[str], rows: Sequence[str], more: str) -> str:
    """A table under its title; ``more``: what follows it."""
    head = "".join(f"<th class='{style}'>{page_text(name)}</th>" for name, style in zip(titles, styles, strict=True))
    return (
        f"<section><h2>{page_text(title)}</h2><div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}</section>\n"
    )


def table_row(cells: Sequence[tuple[str, str]]) -> str:
    """A row of texts, each with its style."""
    return "<tr>" + "".join(f"<td class='{style}'>{page_text(value)}</td>" for value, style in cells) + "</tr>"


def page_text(value: str) -> str:
    """A text as a page may show it."""
    return html.escape(escaped(value))
