"""Connections to each kind of database; ``connections`` chooses one."""
