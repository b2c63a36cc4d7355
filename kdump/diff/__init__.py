"""Copies of a partition compared: where they differ, whether that is explained, and what each would lose as a follower.

Source: docs/spec/replicas.md.
"""
