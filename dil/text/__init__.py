"""Reads the texts of job files: Java regular expressions, date patterns, variables, addresses."""
