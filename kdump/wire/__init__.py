"""Bytes: cursors, varints, checksums, compression."""
