"""Bytes to bytes between connector and extractor: compression, archives, PGP (behaviour.md B12)."""
