"""Turns staged files into a visible dataset."""
