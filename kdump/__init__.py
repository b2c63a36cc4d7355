"""kdump: a forensic tool for Kafka log segments."""

__version__ = "0.1.0"
