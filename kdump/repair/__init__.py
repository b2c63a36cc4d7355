"""Repair of damaged logs.

``salvage`` says what a damaged log can be made into, ``plan`` what is to become of a partition, ``apply`` writes and
undoes it. ``run`` does all of that for a PATH.
"""
