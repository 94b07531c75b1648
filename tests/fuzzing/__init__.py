"""Doors for `fuzz.py`: everything that takes something from outside, by subject."""
