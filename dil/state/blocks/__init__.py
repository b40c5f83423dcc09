"""Blocks of the metadata chain as values: their form, their rules, what they say of work units."""
