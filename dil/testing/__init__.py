"""Doubles and contract suites for connector authors."""
