"""CSV bodies as Arrow rows."""
