"""The run of a dump: following, cutting into tasks, and redacting."""
