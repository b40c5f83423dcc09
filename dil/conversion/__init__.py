"""Converts record batches between extractor and writer."""
