"""DumpLogSegments 4.3.1 (docs/spec/dump-output.md)."""
