"""The schema that was asked for, as Arrow has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kdump.rows.arrow import arrow_schema
from kdump.rows.schema import Table
from kdump.rows.tables import RECORD, RECORD_DECODED


def checked(schema: StructType, table: Table) -> pa.Schema:
    """The Arrow schema of what was asked for.

    ValueError for a column that is not there, is there twice or has another type.
    """
    every = arrow_schema(table)
    known = {each.name: each.dataType for each in from_arrow_schema(every)}
    for each in schema:
        if schema.names.count(each.name) > 1:
            raise ValueError(f"column {each.name} is asked for more than once")
        if each.name not in known:
            raise ValueError(f"no column '{each.name}' in {table.type} rows; there are {', '.join(known)}")
        if each.dataType != known[each.name]:
            expected = known[each.name].simpleString()
            raise ValueError(f"column {each.name} is {expected}, not {each.dataType.simpleString()}")
    # Not PySpark's to_arrow_schema: its arguments are others in 4.1.
    return pa.schema([every.field(each.name).with_nullable(each.nullable) for each in schema])


def without_nulls(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows. ValueError where a column is null although the schema forbids it: Spark would not name the column."""
    never_null = [field.name for field in schema if not field.nullable]
    for batch in batches:
        for name in never_null:
            if batch[name].null_count:
                raise ValueError(f"column {name} is null in some rows, and NOT NULL in the schema that was asked for")
        yield batch


def decoded(table: Table) -> Table:
    """The table with the columns of decoded contents, where it has such."""
    return RECORD_DECODED if table == RECORD else table
