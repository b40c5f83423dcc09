"""The common part of connectors for files: names, bodies that survive a cut, payload files."""
