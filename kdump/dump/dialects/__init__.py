"""The text of older versions of DumpLogSegments, which nothing else of the core knows: ``--dialect``."""
