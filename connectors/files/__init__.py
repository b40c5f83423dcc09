"""The common part of connectors for files: names, interrupted bodies, payload files."""
