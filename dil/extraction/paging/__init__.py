"""Paging: one request after another, until the rules say stop."""
