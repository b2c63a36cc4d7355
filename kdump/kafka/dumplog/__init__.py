"""DumpLogSegments 4.3.1 (shared/spec/dump-output.md)."""
