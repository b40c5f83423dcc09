"""Blocks of the metadata chain as values: their form, their rules, and their work units."""
