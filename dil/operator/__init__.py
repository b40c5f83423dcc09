"""Verbs of people: preview, forget, rewind, undo, backfill, compact, change timelabels."""
