"""The common part of connectors for files: names, bodies that go on after a cut, payload files."""
