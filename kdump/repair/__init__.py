"""Repair: what a damaged log can be made into, and making it so without losing a byte."""
