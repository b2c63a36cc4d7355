"""DumpLogSegments 4.4.0 (docs/spec/dump-output.md)."""
