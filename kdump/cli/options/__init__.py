"""The options of each command, each declared once."""
