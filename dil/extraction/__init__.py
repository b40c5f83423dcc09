"""Bytes to Arrow record batches."""
