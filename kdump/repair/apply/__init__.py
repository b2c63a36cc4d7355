"""Carries a plan out: repaired copies, or a repair in place with its journal and its undo."""
