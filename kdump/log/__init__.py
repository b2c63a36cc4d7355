"""Files: names, directories, sources of bytes, the walk over entries."""
