"""Statistics of logs: mergeable folds over the columns of batches and records."""
