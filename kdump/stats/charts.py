"""The charts of the HTML report, made by plotly.

Labels that come from files are escaped, because plotly reads some tags in them as markup. The page sets the colours of
text and grid, when it is shown and when the reader's preference changes.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from kdump.codes import Finding
from kdump.rows.humantable import value_text
from kdump.rows.scalarlines import plain
from kdump.stats.groupfigures import Figures
from kdump.stats.offsettimes import CurveStep
from kdump.stats.timeline import LADDER, TimelineStep
from kdump.system.blocks import escaped
from kdump.system.units import bytes_text, short_bytes, span_text
from kdump.verify.summary import SegmentSummary

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BLUE, ORANGE, GREEN, RED, GREY, PURPLE = "#3b82c4", "#e07b39", "#3a9d6e", "#d64550", "#8a94a0", "#9467bd"
"""Readable on white and on dark grey."""
_CURVE_COLORS: Final = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
_HEIGHT: Final = 320
_ROW_HEIGHT: Final = 28
_MOST_CURVES: Final = 6
_LONGEST_LABEL: Final = 32
_SIZE_BARS: Final = 40
_MOST_BARS: Final = 300
_FRAME: Final = {"l": 8, "r": 8, "t": 8, "b": 8}
_END_OF_DATES: Final = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its title and note."""

    name: str
    title: str
    note: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class ReportData:
    """What the report shows, except the tables of groups."""

    total: Figures
    batch_sizes: Sequence[tuple[int, int]]
    """See FiguresReport."""
    curves: Mapping[str, Sequence[CurveStep]]
    """Timestamps along the offsets, by partition directory."""
    segments: Sequence[SegmentSummary]
    findings: Sequence[Finding]
    """The first findings, with their paths."""
    left_out: int
    """How many more findings there are."""


def charts(data: ReportData) -> Iterator[Chart]:
    """The charts that have something to show."""
    for make in (_over_time, _batch_sizes, _codecs, _keys, _offset_times):
        chart = make(data)
        if chart is not None:
            yield chart


def _over_time(data: ReportData) -> Chart | None:
    import plotly.graph_objects as go

    steps, width = _few_steps([step for step in data.total.timeline if step.begin < _END_OF_DATES], data.total.step)
    if not steps:
        return None
    times = [_time(step.begin + width / 2) for step in steps]
    figure = go.Figure(
        [
            go.Bar(
                x=times,
                y=[step.size for step in steps],
                width=width,
                name="bytes",
                marker={"color": BLUE, "line": {"width": 0}},
                customdata=[bytes_text(step.size) for step in steps],
                hovertemplate="%{x}<br>%{customdata}<extra></extra>",
            ),
            go.Scatter(
                x=times,
                y=[step.records for step in steps],
                name="records",
                yaxis="y2",
                mode="lines+markers",
                line={"color": ORANGE, "width": 2},
                marker={"size": 4},
                hovertemplate="%{x}<br>%{y:,} records<extra></extra>",
            ),
        ]
    )
    _lay_out(figure, legend=True)
    figure.update_layout(
        yaxis2={
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "showgrid": False,
            "automargin": True,
            "tickmode": "auto",
            "tickformat": ",~d",
            "nticks": 5,
        }
    )
    _bytes_axis(figure.layout.yaxis, max(step.size for step in steps))
    note = f"Steps of {span_text(width, 1)}, by the records' timestamps."
    return Chart("time", "Bytes and records over time", note, figure)


def _few_steps(steps: Sequence[TimelineStep], width: int) -> tuple[list[TimelineStep], int]:
    """The steps merged until there are few enough to tell apart, and their length (ms)."""
    if not steps:
        return [], width
    span = steps[-1].begin - steps[0].begin
    wider = next((length for length in LADDER if length >= width and span // length < _MOST_BARS), LADDER[-1])
    first, last = steps[0].begin // wider, steps[-1].begin // wider
    # Empty steps are shown too, unless the longest step is too short for the time span.
    found = {number: [0, 0] for number in range(first, last + 1)} if last - first < _MOST_BARS else {}
    for step in steps:
        sums = found.setdefault(step.begin // wider, [0, 0])
        sums[0] += step.size
        sums[1] += step.records
    return [TimelineStep(number * wider, size, records) for number, (size, records) in sorted(found.items())], wider


def _batch_sizes(data: ReportData) -> Chart | None:
    import plotly.graph_objects as go

    if not data.batch_sizes:
        return None
    bars = _doubling_bars(data.batch_sizes)
    figure = go.Figure(
        go.Bar(
            x=[label for label, _ in bars],
            y=[count for _, count in bars],
            marker={"color": BLUE},
            hovertemplate="%{x}<br>%{y:,} batches<extra></extra>",
        )
    )
    _lay_out(figure)
    figure.update_xaxes(type="category")
    return Chart("sizes", "Batch sizes", "How many batches there are of each size.", figure)


def _doubling_bars(histogram: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
    """Counts between powers of two, or between fourth roots of them if there would be few bars."""
    largest, least = histogram[-1][0], histogram[0][0]
    fine = largest < max(least, 1) * 2 ** (_SIZE_BARS // 4)
    ratio = 2**0.25 if fine else 2.0
    bounds = [float(max(least, 1))]
    while bounds[-1] <= largest:
        bounds.append(bounds[-1] * ratio)
    counts = [0] * (len(bounds) - 1)
    at = 0
    for size, count in histogram:
        while size >= bounds[at + 1]:
            at += 1
        counts[at] += count
    return [
        (f"{short_bytes(low)}\N{EN DASH}{short_bytes(high)}", count)
        for (low, high), count in zip(pairwise(bounds), counts, strict=True)
    ]


def _codecs(data: ReportData) -> Chart | None:
    import plotly.graph_objects as go

    shares = sorted(data.total.codecs, key=lambda share: -share.size)
    if not shares:
        return None
    names = [share.name for share in shares]
    is_known = any(share.uncompressed for share in shares)
    stored = [share.stored if is_known else share.size for share in shares]
    bars = [_codec_bar(names, stored, "as stored", BLUE)]
    note = "Bytes of all batches; --quick does not look into them."
    if is_known:
        bars.append(_codec_bar(names, [share.uncompressed for share in shares], "uncompressed", GREY))
        ratios = ", ".join(f"{share.name} {share.ratio:.2f}:1" for share in shares if share.ratio is not None)
        note = f"Bytes of the records. Ratios: {ratios}."
    figure = go.Figure(bars)
    _lay_out(figure, legend=is_known)
    figure.update_layout(barmode="group")
    _bytes_axis(figure.layout.yaxis, max([*stored, *(share.uncompressed for share in shares)]))
    return Chart("codecs", "Codecs", note, figure)


def _codec_bar(names: list[str], sizes: list[int], title: str, color: str) -> Any:
    import plotly.graph_objects as go

    return go.Bar(
        x=names,
        y=sizes,
        name=title,
        marker={"color": color},
        customdata=[bytes_text(size) for size in sizes],
        hovertemplate=f"%{{x}} {title}<br>%{{customdata}}<extra></extra>",
    )


def _keys(data: ReportData) -> Chart | None:
    import plotly.graph_objects as go

    heaviest = data.total.heaviest_keys
    if not heaviest:
        return None
    labels = _distinct(
        [_label(value_text(plain(key.key)) + ("\N{HORIZONTAL ELLIPSIS}" if key.is_cut else "")) for key in heaviest]
    )
    whole = sum(data.total.sums[name] for name in ("key_bytes", "value_bytes", "header_bytes"))
    figure = go.Figure(
        go.Bar(
            x=[key.least for key in heaviest],
            y=labels,
            orientation="h",
            marker={"color": BLUE},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [key.most - key.least for key in heaviest],
                "color": GREY,
                "visible": any(key.most > key.least for key in heaviest),
            },
            customdata=[
                f"{bytes_text(key.least)}, {100 * key.least / whole:.1f} %" if whole else bytes_text(key.least)
                for key in heaviest
            ],
            hovertemplate="%{y}<br>%{customdata}<extra></extra>",
        )
    )
    _lay_out(figure, height=max(_HEIGHT, 90 + _ROW_HEIGHT * len(labels)))
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    _bytes_axis(figure.layout.xaxis, max(key.most for key in heaviest))
    distinct = data.total.distinct_keys
    note = "The keys with the most bytes of records (key, value, headers)."
    if distinct is not None and distinct.least == distinct.most:
        note += f" Different keys: {distinct.estimate:,}."
    elif distinct is not None:
        note += f" Different keys: about {distinct.estimate:,} ({distinct.least:,} to {distinct.most:,})."
    return Chart("keys", "Key skew", note, figure)


def _offset_times(data: ReportData) -> Chart | None:
    import plotly.graph_objects as go

    curves = sorted(data.curves.items(), key=lambda item: -len(item[1]))[:_MOST_CURVES]
    if not curves:
        return None
    figure = go.Figure()
    for (directory, steps), color in zip(sorted(curves), _CURVE_COLORS, strict=False):
        shown = [step for step in steps if step.largest < _END_OF_DATES]
        figure.add_trace(
            go.Scatter(
                x=[step.offset for step in shown],
                y=[_time(step.largest) for step in shown],
                name=_label(directory.rpartition("/")[2] or directory),
                mode="markers" if len(shown) < 3 else "lines+markers",
                marker={"size": 5, "color": color},
                line={"width": 1, "color": color},
                customdata=[[_time_text(step.least), _time_text(step.largest)] for step in shown],
                hovertemplate="offset %{x:,}<br>%{customdata[0]}<br>to %{customdata[1]}<extra></extra>",
            )
        )
    _lay_out(figure, legend=len(curves) > 1)
    left = len(data.curves) - len(curves)
    note = "The largest timestamps of batches along the offsets: a step down is a clock that went back."
    return Chart(
        "offsets", "Timestamps against offsets", note + (f" {left:,} partitions are left out." if left else ""), figure
    )


def _lay_out(figure: Figure, *, legend: bool = False, height: int = _HEIGHT) -> None:
    figure.update_layout(
        template="none",
        height=height,
        margin=_FRAME,
        showlegend=legend,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12},
        bargap=0.15,
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(automargin=True, gridcolor="rgba(128,128,128,0.2)", zeroline=False)
    figure.update_yaxes(automargin=True, gridcolor="rgba(128,128,128,0.2)", zeroline=False)


def _bytes_axis(axis: Any, largest: float) -> None:
    """Ticks at whole powers of two: plotly's own are decimal."""
    step = 1.0
    while largest / step > 5:
        step *= 2
    marks = [step * number for number in range(int(largest / step) + 2)]
    axis.update(tickmode="array", tickvals=marks, ticktext=[bytes_text(mark) for mark in marks], rangemode="tozero")


def _label(text: str) -> str:
    """A name for a chart: short, on one line, without markup."""
    text = escaped(text)
    if len(text) > _LONGEST_LABEL:
        text = text[: _LONGEST_LABEL // 2 - 1] + "\N{HORIZONTAL ELLIPSIS}" + text[-_LONGEST_LABEL // 2 :]
    return _text(text) or "(empty)"


def _text(value: str) -> str:
    """The text without markup; plotly would show ``&quot;`` as it stands."""
    return html.escape(value, quote=False)


def _distinct(labels: Sequence[str]) -> list[str]:
    """The labels, with a number added to equal ones: an axis would merge them."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


def _time(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)


def _time_text(milliseconds: int) -> str:
    return f"{_time(milliseconds):%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03}"
