"""Kafka 0.7: its logs, whose offsets are byte positions, and its saved requests. See ``kdump.worlds``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.convert.segment import WorldConversion
    from kdump.dump.text.output import WorldText
    from kdump.explain import WorldExplanation
    from kdump.kafka07 import convert, count, explain, repair, rows, start, text, times, verify
    from kdump.repair.run import WorldRepair
    from kdump.rows.logs import WorldRows
    from kdump.stats.reach import WorldTimes
    from kdump.stats.run import WorldFigures
    from kdump.verify.run import WorldChecks
    from kdump.verify.startups import WorldStarts

    # mypy holds the modules to what the core expects of them.
    _rows: WorldRows = rows
    _text: WorldText = text
    _verify: WorldChecks = verify
    _start: WorldStarts = start
    _figures: WorldFigures = count
    _explain: WorldExplanation = explain
    _times: WorldTimes = times
    _repair: WorldRepair = repair
    _convert: WorldConversion = convert
