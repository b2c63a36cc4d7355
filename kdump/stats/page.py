"""Figures as a human-readable page: what is there, where the bytes are, what stands out."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN
from kdump.rows.humantable import value_text
from kdump.rows.scalarlines import plain
from kdump.stats.groupfigures import Figures, FiguresReport
from kdump.stats.grouping import By
from kdump.stats.timeline import TimelineStep
from kdump.system.blocks import escaped
from kdump.system.units import bar, bytes_text, counted, percent, short_bytes, span_text, sparkline, time_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_MOST_GROUPS: Final = 200
_MOST_LINES: Final = 5
"""Most rows of a list in a panel."""
_LONGEST_KEY: Final = 200
"""Characters of a name that are used; rich would measure megabytes only to cut them."""
_PANEL_WIDTH: Final = 40
"""Least width of a panel in characters."""
_MOST_COLUMNS: Final = 4
_BAR_WIDTH: Final = 10
_LEAST_NAME: Final = 20
_DAY: Final = 86_400
"""Seconds per day."""
_FRAME: Final = 3
"""Characters of a column's border and padding."""
_Column: TypeAlias = tuple[str, list[str], bool]
"""A heading, cells, and whether they are numbers."""
_OUTCOME_STYLES: Final = {COMMITTED: "green", ABORTED: "yellow", OPEN: "magenta"}
_AROUND_LINE: Final = 17
"""Characters of a box, a label and padding."""


class _Panel(NamedTuple):
    """A box with rows of a label and cells."""

    title: str
    rows: Table
    style: str = "blue"

    @property
    def height(self) -> int:
        """Height in lines."""
        return self.rows.row_count + 2 + (1 if self.rows.show_header else 0)


def stats_page(report: FiguresReport, by: By, *, width: int, color: bool) -> str:
    """The page: all groups together, then one line per group if there are several; '' without files."""
    if not report.groups:
        return ""
    from rich.console import Console

    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=color, no_color=not color, highlight=False)
    print_page(console, report, by)
    return text.getvalue()


def print_page(console: Console, report: FiguresReport, by: By) -> None:
    """Print the page to a console of rich."""
    width = console.width
    console.print(_overview(report, by, width))
    console.print(_in_columns(list(_panels(report.total)), width))
    if len(report.groups) > 1:
        console.print(_group_table(report, by, width))


def _overview(report: FiguresReport, by: By, width: int) -> RenderableType:
    total, sums = report.total, report.total.sums
    rows = _rows("dim", "")
    if len(report.groups) == 1:
        rows.add_row(by.value, _plain_text(report.groups[0].group or ""))
    groups = f", {len(report.groups):,} groups by {by.value}" if 1 < len(report.groups) != total.files else ""
    rows.add_row("files", f"{total.files:,}{groups}")
    rows.add_row("bytes", f"[bold]{bytes_text(sums['bytes'])}[/] ({sums['bytes']:,})")
    records, batches = sums["records"], sums["batches"]
    mean = f", {records / batches:,.1f} a batch" if batches else ""
    rows.add_row("records", f"[bold]{records:,}[/] in {counted(batches, 'batch', 'batches')}{mean}")
    if total.min_offset is not None:
        missing = sums["missing_offsets"]
        gone = f"{missing:,} missing ({percent(missing, missing + records)})" if missing else ""
        if gone:
            normal = f"[dim]{gone}, as compaction leaves them: normal[/]"
            gone = f", {normal if report.gaps_are_normal else f'[yellow]{gone}[/]'}"
        rows.add_row("offsets", f"{total.min_offset} .. {total.max_offset}{gone}")
    if total.min_timestamp is not None and total.max_timestamp is not None:
        rows.add_row("time", f"{time_text(total.min_timestamp)} .. {time_text(total.max_timestamp)}")
        if total.seconds is not None:
            span = span_text(total.max_timestamp - total.min_timestamp)
            rows.add_row("", f"{span}: {_rates(total)}")
    room = width - _AROUND_LINE
    for label, values in (
        ("bytes/t", [moment.size for moment in total.timeline]),
        ("records/t", [moment.records for moment in total.timeline]),
    ):
        columns = _over_time(total.timeline, total.step, values, room)
        if len(columns) > 1:
            rows.add_row(label, f"[cyan]{sparkline(columns)}[/]")
    return _boxed(_Panel("what is there", rows, "bold blue"), width)


def _rates(total: Figures) -> str:
    """Bytes and records per second, or per day if that would be close to zero."""
    size, records = total.rate("bytes") or 0, total.rate("records") or 0
    unit = "s"
    if records < 0.1:
        size, records, unit = size * _DAY, records * _DAY, "d"
    return f"{bytes_text(size)}/{unit}, {records:,.1f} records/{unit}"


def _panels(total: Figures) -> Iterator[_Panel]:
    for make in (_damage, _sizes, _codecs, _records, _keys, _transactions, _producers):
        panel = make(total)
        if panel is not None and panel.rows.row_count:
            yield panel


def _damage(total: Figures) -> _Panel | None:
    if not (total.errors or total.warnings or total.sums["damaged_batches"]):
        return None
    rows = _rows("", "")
    if total.errors:
        rows.add_row("errors", f"[bold red]{total.errors:,}[/]")
    if total.warnings:
        rows.add_row("warnings", f"[yellow]{total.warnings:,}[/]")
    damaged = total.sums["damaged_batches"]
    if damaged:
        rows.add_row(
            "wrong CRC", f"[red]{counted(damaged, 'batch', 'batches')}[/], {bytes_text(total.sums['damaged_bytes'])}"
        )
    rows.add_row("where", "kdump verify says")
    return _Panel("damage", rows, "red" if total.is_damaged else "yellow")


def _sizes(total: Figures) -> _Panel | None:
    from rich.table import Table

    rows = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False, header_style="dim", expand=True)
    rows.add_column("", style="dim", no_wrap=True)
    for name in ("least", "p50", "p90", "p99", "most"):
        rows.add_column(name, justify="right", no_wrap=True)
    for name, sizes in total.sizes.items():
        if sizes is not None:
            median, ninetieth, ninety_ninth, _ = sizes.quantiles
            figures = (sizes.least, median, ninetieth, ninety_ninth, sizes.most)
            rows.add_row(name, *map(short_bytes, figures))
    return _Panel("sizes (bytes)", rows)


def _codecs(total: Figures) -> _Panel | None:
    rows = _rows("", "cyan", "")
    whole = total.sums["bytes"]
    for share in sorted(total.codecs, key=lambda share: -share.size):
        ratio = "" if share.ratio is None or share.name == "none" else f" {share.ratio:.2f}:1"
        rows.add_row(share.name, bar(share.size / whole, _BAR_WIDTH), f"{percent(share.size, whole)}{ratio}")
    for share in sorted(total.magics, key=lambda share: -share.size):
        rows.add_row(f"magic {share.name}", bar(share.size / whole, _BAR_WIDTH), percent(share.size, whole))
    return _Panel("codecs and magics", rows)


def _records(total: Figures) -> _Panel | None:
    sums = total.sums
    rows = _rows("dim", "")
    for kind, count in total.timestamp_types.items():
        rows.add_row(kind, _of(count, sums["records"]))
    if total.with_records:
        rows.add_row("null keys", _of(sums["null_keys"], sums["records"]))
        rows.add_row("tombstones", _of(sums["tombstones"], sums["records"]))
        rows.add_row("with headers", _of(sums["records_with_headers"], sums["records"]))
        back = sums["timestamps_back"]
        if back:
            step = span_text(total.step_back or 0, units=1)
            rows.add_row("back in time", f"[yellow]{counted(back, 'step')}[/], up to {step}")
    if sums["control_records"]:
        rows.add_row("control", _of(sums["control_records"], sums["records"]))
    density = total.bytes_per_index_entry
    if density is not None:
        rows.add_row("index entry", f"every {bytes_text(density)}")
    return _Panel("records", rows)


def _keys(total: Figures) -> _Panel | None:
    distinct = total.distinct_keys
    if distinct is None or not distinct.estimate:
        return None
    rows = _rows("", "cyan", "", widest=0)
    error = max(distinct.most - distinct.estimate, distinct.estimate - distinct.least)
    sign = "" if not error else f" ± {percent(error, distinct.estimate)}"
    rows.add_row("[dim]different keys[/]", "", f"{'' if not error else '≈ '}{distinct.estimate:,}{sign}")
    whole = total.sums["bytes"]
    heaviest = total.heaviest_keys[:_MOST_LINES]
    most = max((key.least for key in heaviest), default=0)
    for key in heaviest:
        name = escaped(value_text(plain(key.key))[:_LONGEST_KEY]) + ("…" if key.is_cut else "")
        size = short_bytes(key.least) if key.least == key.most else f"≥{short_bytes(key.least)}"
        rows.add_row(_plain_text(name or '""'), bar(key.least / most if most else 0, 6), size)
    if not heaviest and total.sums["records"]:
        rows.add_row("[dim]none stands out[/]", "", f"[dim]of {short_bytes(whole)}[/]")
    return _Panel("keys (bytes)", rows)


def _transactions(total: Figures) -> _Panel | None:
    rows = _rows("", "", "")
    whole = total.sums["bytes"]
    for outcome, style in _OUTCOME_STYLES.items():
        transactions, size = total.sums[f"{outcome}_transactions"], total.sums[f"{outcome}_bytes"]
        if transactions or size:
            share = f"{short_bytes(size)}, {percent(size, whole)}" if size else ""
            rows.add_row(f"[{style}]{outcome}[/]", f"{transactions:,}", share)
    return _Panel("transactions (share of bytes)", rows)


def _producers(total: Figures) -> _Panel | None:
    from rich.table import Table

    rows = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False, header_style="dim", expand=True)
    for name in ("producer", "epoch", "last seq.", "bytes"):
        rows.add_column(name, justify="right", no_wrap=True)
    for stats in total.producers.first(_MOST_LINES):
        epochs = stats.epochs
        epoch = str(epochs[0]) if len(epochs) == 1 else f"{epochs[0]}..{epochs[-1]}"
        sequence = "" if stats.last_sequence < 0 else str(stats.last_sequence)
        rows.add_row(str(stats.producer_id), epoch, sequence, short_bytes(stats.size))
    left = len(total.producers) - _MOST_LINES
    if left > 0:
        rest = int(total.producers.size[_MOST_LINES:].sum())
        rows.add_row(f"{left:,} more", "", "", short_bytes(rest))
    return _Panel("producers", rows)


def _group_table(report: FiguresReport, by: By, width: int) -> RenderableType:
    from rich.box import ROUNDED
    from rich.table import Table

    groups = report.groups[:_MOST_GROUPS]
    most = max(figures.sums["bytes"] for figures in groups)
    labels = [figures.group or "" for figures in groups]
    names = _names(labels) if by.is_of_files else list(map(escaped, labels))
    columns: list[tuple[str, Callable[[Figures], str], bool]] = [
        ("bytes", lambda figures: bytes_text(figures.sums["bytes"]), True),
        ("share", lambda figures: bar(figures.sums["bytes"] / most if most else 0, _BAR_WIDTH), False),
        ("records", lambda figures: f"{figures.sums['records']:,}", True),
        ("batches", lambda figures: "" if by.is_of_contents else f"{figures.sums['batches']:,}", True),
        ("offsets", _offsets, False),
        ("from (UTC)", lambda figures: _minute(figures.min_timestamp), False),
        ("to", lambda figures: _minute(figures.max_timestamp), False),
        ("ratio", _ratio, True),
        ("damaged", _errors, True),
    ]
    cells = [(name, [make(figures) for figures in groups], is_number) for name, make, is_number in columns]
    cells = [column for column in cells if any(column[1])]
    grid = Table(box=ROUNDED, border_style="blue", header_style="dim")
    room = width - min(max(map(len, names)), max(_LEAST_NAME, width // 3)) - _FRAME - 1
    # The column of damage is never left out.
    kept = cells[-1:] if cells[-1][0] == "damaged" else []
    room -= sum(map(_column_width, kept))
    shown = [*_that_fit(cells[: len(cells) - len(kept)], room), *kept]
    left = width - sum(map(_column_width, shown)) - _FRAME - 1
    grid.add_column(by.value, no_wrap=True, overflow="ellipsis", max_width=max(left, 1))
    if by is By.SEGMENT:
        # Segments differ in the ends of their names.
        names = [name if len(name) <= left else f"…{name[max(len(name) - left, 0) + 1 :]}" for name in names]
    for column in shown:
        name, _, is_number = column
        own = _column_width(column) - _FRAME
        style = "cyan" if name == "share" else ""
        grid.add_column(name, justify="right" if is_number else "left", no_wrap=True, width=own, style=style)
    for number, figures in enumerate(groups):
        style = "bold red" if figures.is_damaged else ""
        grid.add_row(_plain_text(names[number]), *(column[number] for _, column, _ in shown), style=style)
    more = len(report.groups) - len(groups)
    if more:
        grid.caption = f"{more:,} more: --output jsonl has all"
    return grid


def _that_fit(cells: Sequence[_Column], room: int) -> list[_Column]:
    shown = []
    for column in cells:
        room -= _column_width(column)
        if room < 0:
            break
        shown.append(column)
    return shown


def _column_width(column: _Column) -> int:
    """Width with border and padding."""
    name, cells, _ = column
    return max(len(name), *map(len, cells)) + _FRAME


def _names(groups: Sequence[str]) -> list[str]:
    """Names without their common directories."""
    folders = [name.split("/")[:-1] for name in groups]
    shared = 0
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared += 1
    return [escaped("/".join(name.split("/")[shared:])) for name in groups]


def _offsets(figures: Figures) -> str:
    return "" if figures.min_offset is None else f"{figures.min_offset}..{figures.max_offset}"


def _minute(timestamp: int | None) -> str:
    return "" if timestamp is None else time_text(timestamp)[:16]


def _ratio(figures: Figures) -> str:
    stored = sum(share.stored for share in figures.codecs)
    uncompressed = sum(share.uncompressed for share in figures.codecs)
    return f"{uncompressed / stored:.2f}" if stored and uncompressed != stored else ""


def _errors(figures: Figures) -> str:
    if figures.errors:
        return counted(figures.errors, "error")
    damaged = figures.sums["damaged_batches"]
    return counted(damaged, "batch", "batches") if damaged else ""


def _of(count: int, whole: int) -> str:
    return f"{count:,} ({percent(count, whole)})" if whole and 0 < count < whole else f"{count:,}"


def _over_time(steps: Sequence[TimelineStep], step: int, values: Sequence[int], width: int) -> list[int]:
    """Sums over the whole time, in as many columns as fit."""
    if not steps or width < 1:
        return []
    first = steps[0].begin
    count = (steps[-1].begin - first) // step + 1
    columns = [0] * min(width, count)
    for moment, value in zip(steps, values, strict=True):
        columns[(moment.begin - first) // step * len(columns) // count] += value
    return columns


def _rows(*styles: str, widest: int | None = None) -> Table:
    """A grid of two columns, or of three with the last one on the right; ``widest`` gets the rest of the width."""
    from rich.table import Table

    last = len(styles) - 1
    rows = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for number, style in enumerate(styles):
        rows.add_column(
            style=style,
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if number == (last if widest is None else widest) else None,
            justify="right" if number == last == 2 else "left",
        )
    return rows


def _boxed(panel: _Panel, width: int) -> RenderableType:
    from rich.panel import Panel

    return Panel(panel.rows, title=panel.title, title_align="left", border_style=panel.style, width=width)


def _in_columns(panels: Sequence[_Panel], width: int) -> RenderableType:
    """Panels below one another, each in the column that is the shortest so far."""
    from rich.console import Group
    from rich.table import Table

    count = max(1, min(width // _PANEL_WIDTH, _MOST_COLUMNS, len(panels)))
    stacks: list[list[_Panel]] = [[] for _ in range(count)]
    for panel in panels:
        min(stacks, key=_height).append(panel)
    widths = [width // count + (number < width % count) for number in range(count)]
    grid = Table.grid()
    for own in widths:
        grid.add_column(width=own)
    grid.add_row(*(Group(*(_boxed(panel, own) for panel in stack)) for stack, own in zip(stacks, widths, strict=True)))
    return grid


def _height(panels: Iterable[_Panel]) -> int:
    return sum(panel.height for panel in panels)


def _plain_text(text: str) -> Text:
    """A plain Text: in a str, rich would read brackets as markup."""
    from rich.text import Text

    return Text(escaped(text))
