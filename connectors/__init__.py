"""Connectors shipped with dil, found by name through entry points."""
