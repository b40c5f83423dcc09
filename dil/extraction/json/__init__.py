"""JSON bodies of any size as Arrow rows."""
