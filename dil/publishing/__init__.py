"""Staged files to a visible dataset."""
