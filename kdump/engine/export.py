"""One segment as a file for other tools: JSON lines, CSV or Parquet. A plain function, as ``convert_segment`` is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kdump.codes import KdumpError
from kdump.convert.conversion import Conversion
from kdump.convert.converter import Converter
from kdump.convert.entries import EntryReader
from kdump.convert.segment import Progress, SegmentResult
from kdump.engine.rowdump import RowDump, RowOptions
from kdump.log.names import Kind
from kdump.scan.printing import Emit
from kdump.scan.run import Reporter
from kdump.scan.selection import Selection
from kdump.scan.target import Target
from kdump.scan.view import ViewOptions
from kdump.tables import RECORD
from kdump.writers.blocks import BlockWriter
from kdump.writers.context import FileContext
from kdump.writers.files import NewFile
from kdump.writers.printers import RowLines

Form = Literal["jsonl", "csv", "parquet"]


@dataclass(frozen=True, slots=True)
class ExportJob:
    """One segment, the file to be made of it, and how. Of the conversion ranges, isolation and damage count."""

    source: str
    target: str
    form: Form
    conversion: Conversion
