"""Paging: one request after another, until the rules say stop.

The requests of one attempt, in order, are called a walk.
"""
