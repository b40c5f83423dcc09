"""Record batches to staged files."""
