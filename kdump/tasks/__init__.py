"""Work on many logs: cut into pieces, run anywhere, results as plain data."""
