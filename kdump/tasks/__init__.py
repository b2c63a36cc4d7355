"""Work on many logs: given to tasks, run anywhere, results as plain data."""
