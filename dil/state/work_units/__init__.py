"""The index of work units, and what planning asks of it."""
