"""Micro-batches and derived queries over the same rooms as a run."""
