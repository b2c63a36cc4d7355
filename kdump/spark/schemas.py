"""The schema that was asked for, as Arrow's."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from kdump.tables import Table
from kdump.writers.arrow import arrow_schema


def checked(schema: StructType, table: Table) -> pa.Schema:
    """The Arrow schema of what was asked for. ValueError for a column that is not there or has another type."""
    known = {each.name: each.dataType for each in from_arrow_schema(arrow_schema(table))}
    for each in schema:
        if each.name not in known:
            raise ValueError(f"no column '{each.name}' in {table.type} rows; there are {', '.join(known)}")
        if each.dataType != known[each.name]:
            expected = known[each.name].simpleString()
            raise ValueError(f"column {each.name} is {expected}, not {each.dataType.simpleString()}")
    return to_arrow_schema(schema, timezone="UTC")
