"""What connectors for files have in common: names, bodies that go on after a cut, payload files."""
