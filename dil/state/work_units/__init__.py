"""The index of work units, and the queries that planning needs."""
