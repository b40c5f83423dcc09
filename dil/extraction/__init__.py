"""Turns bytes into Arrow record batches."""
