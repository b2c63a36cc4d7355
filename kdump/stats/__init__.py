"""Statistics of logs: sums over the columns of batches and records, of which parts can be merged."""
