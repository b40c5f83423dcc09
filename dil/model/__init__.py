"""Frozen values that the rooms exchange; no I/O."""
