"""The tables: columns, and what renders their rows."""
