"""Frozen values that the packages exchange; no I/O."""
