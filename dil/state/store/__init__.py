"""The state store over a database."""
