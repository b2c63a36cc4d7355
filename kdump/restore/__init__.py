"""Segments that are all that is left become partitions of a new cluster: the plan, the directories, the group offsets.

It joins what convert, diff, stats and repair know, and writes only through the journal of repair.
"""
