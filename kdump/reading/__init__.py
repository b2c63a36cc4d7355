"""Looking at a part of a log: which batches and records, found how, shown by whom."""
