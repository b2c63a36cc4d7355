"""Logs in another message format or codec, and parts of logs as segments of their own."""
