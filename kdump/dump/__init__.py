"""The run of a dump, and what follows, cuts and redacts it."""
