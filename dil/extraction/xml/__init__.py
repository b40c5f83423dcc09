"""XML documents as Arrow rows."""
