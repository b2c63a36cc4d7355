"""The schema that was asked for, as Arrow's."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kdump.tables import RECORD, RECORD_DECODED, Table
from kdump.writers.arrow import arrow_schema


def checked(schema: StructType, table: Table) -> pa.Schema:
    """The Arrow schema of what was asked for. ValueError for a column that is not there or has another type."""
    fields = arrow_schema(table)
    known = {each.name: each.dataType for each in from_arrow_schema(fields)}
    for each in schema:
        if each.name not in known:
            raise ValueError(f"no column '{each.name}' in {table.type} rows; there are {', '.join(known)}")
        if each.dataType != known[each.name]:
            expected = known[each.name].simpleString()
            raise ValueError(f"column {each.name} is {expected}, not {each.dataType.simpleString()}")
    # PySpark's to_arrow_schema has no time zone in 4.1.
    return pa.schema([fields.field(each.name) for each in schema])


def decoded(table: Table) -> Table:
    """The table with the columns of decoded contents, where it has such."""
    return RECORD_DECODED if table == RECORD else table
