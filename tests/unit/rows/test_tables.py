"""A column that is added to a table, by its declaration only, is in every output."""

from __future__ import annotations

import csv
import json
import pickle
from collections.abc import Sequence

import pyarrow as pa
import pytest

from kdump.fast.blocks import BatchBlock, BlockReader
from kdump.format.batch import parse_header
from kdump.format.record import read_records
from kdump.log.context import FileContext
from kdump.rows.arrow import ArrowPrinter, arrow_schema
from kdump.rows.columnarlines import record_runs
from kdump.rows.columns import Column, ColumnType, Table
from kdump.rows.filetables import FINDING
from kdump.rows.formatted import FormatLines
from kdump.rows.humantable import HumanTable
from kdump.rows.printers import RowLines, RowPrinter
from kdump.rows.scalarlines import Output
from kdump.rows.tables import BATCH, RECORD
from tests.harness.batches import plain_rows, v2_batch

DELTA = Column(
    "offsetDelta",
    ColumnType.INT32,
    of_row=lambda of: of.record.offset - 5,
    of_many=lambda of: of.numbers(of.records.offset_delta),
    verbs="D",
)
ATTRIBUTES = Column(
    "attributes",
    ColumnType.INT32,
    of_row=lambda of: of.header.attributes,
    of_many=lambda of: of.stored("attributes"),
    is_shared=True,
    verbs="A",
)
RECORDS = Table("record", (*RECORD.columns, DELTA, ATTRIBUTES))
BATCHES = Table("batch", (*BATCH.columns, ATTRIBUTES))
HERE = FileContext("00000000000000000005.log", "orders", 0)
DATA = v2_batch(plain_rows(3, 5), base_offset=5, attributes=8)
EXPECTED = [(0, 8), (1, 8), (2, 8)]


def block() -> BatchBlock:
    (read,) = BlockReader(1 << 30, with_records=True).read(memoryview(DATA), [0, len(DATA)], 0)
    assert isinstance(read, BatchBlock)
    return read


def scalar(printer: RowPrinter) -> str:
    header = parse_header(DATA)
    return "".join(printer.record(header, 0, True, record) for record in read_records(header, memoryview(DATA)))


def scalar_batch(printer: RowPrinter) -> str:
    return printer.batch(parse_header(DATA), 0, True)


def columnar(output: Output, fields: Sequence[str] = RECORDS.names, table: Table = RECORDS) -> str:
    runs = record_runs(block(), fields, HERE, output, table=table)
    return b"".join(run.rows for run in runs if run.rows is not None).decode()


@pytest.mark.parametrize("is_columnar", [False, True], ids=["scalar", "columnar"])
def test_lines(is_columnar: bool) -> None:
    def made(output: Output) -> str:
        return columnar(output) if is_columnar else scalar(RowPrinter(RowLines(output, None, HERE), RECORDS, None))

    rows = [json.loads(line) for line in made("jsonl").splitlines()]
    assert [(row["offsetDelta"], row["attributes"]) for row in rows] == EXPECTED
    cells = list(csv.reader(made("csv").splitlines()))
    assert [tuple(map(int, row[-2:])) for row in cells] == EXPECTED


def test_next_offset_is_null_in_logs_of_today() -> None:
    """Only logs of Kafka 0.7 have it, and a run may read logs of both kinds."""
    fields = ("offset", "nextOffset")
    lines: dict[Output, str] = {"jsonl": '{"offset":5,"nextOffset":null}', "csv": "5,"}
    for output, line in lines.items():
        alone = scalar(RowPrinter(RowLines(output, fields, HERE), RECORD, None))
        assert alone == columnar(output, fields, RECORD)
        assert alone.splitlines()[0] == line
    batch = scalar_batch(RowPrinter(RowLines("jsonl", ("lastOffset", "nextOffset"), HERE), BATCH, None))
    assert batch == '{"lastOffset":7,"nextOffset":null}\n'


def test_format_string_and_table() -> None:
    assert scalar(RowPrinter(FormatLines("%D/%A ", HERE, RECORDS), RECORDS, None)) == "0/8 1/8 2/8 "
    table = HumanTable(("offset", "offsetDelta", "attributes"), HERE, width=80, color=False)
    assert scalar(RowPrinter(table, RECORDS, None)) == ""
    shown = [line.replace("│", " ").split() for line in table.finish().splitlines()]
    assert [(int(row[1]), int(row[2])) for row in shown if row and row[0].isdigit()] == EXPECTED


def test_frames() -> None:
    schema = arrow_schema(RECORDS)
    assert schema.field("offsetDelta").type == pa.int32()
    printer = ArrowPrinter(RECORDS, schema, HERE)
    (run,) = printer.columns().records(block())
    assert isinstance(run.rows, pa.RecordBatch)
    header = parse_header(DATA)
    alone = [printer.record(header, 0, True, record) for record in read_records(header, memoryview(DATA))]
    for rows in (run.rows.to_pylist(), alone):
        assert [(row["offsetDelta"], row["attributes"]) for row in rows] == EXPECTED
    batches = ArrowPrinter(BATCHES, arrow_schema(BATCHES), HERE)
    made = batches.columns().batches(block())
    assert isinstance(made, pa.RecordBatch)
    assert made.column("attributes").to_pylist() == [8]
    assert batches.batch(header, 0, True)["attributes"] == 8


def test_every_column_has_both_forms() -> None:
    for table in (RECORD, BATCH):
        for column in table.columns[4:]:
            assert column.of_row is not None, column.name
            assert column.of_many is not None, column.name


@pytest.mark.parametrize("table", [RECORD, BATCH, FINDING])
def test_a_table_in_another_process_is_its_own(table: Table) -> None:
    """Tables are compared by identity; this process stands for the other one."""
    assert pickle.loads(pickle.dumps(table)) is table


def test_a_table_that_is_not_declared_cannot_be_sent() -> None:
    with pytest.raises(LookupError, match="declared nowhere"):
        pickle.dumps(Table("x", ()))
