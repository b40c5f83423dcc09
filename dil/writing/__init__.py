"""Writes record batches to staged files."""
