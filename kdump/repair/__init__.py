"""Repair of damaged logs.

``salvage`` decides what is kept of a damaged log, ``plan`` what a partition will hold. ``apply`` writes that, or undoes
it. ``run`` does all of it for a PATH.
"""
