"""Watermarks to work units; pure."""
