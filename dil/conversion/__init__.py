"""Record batches to record batches."""
