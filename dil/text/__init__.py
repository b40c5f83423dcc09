"""Java regular expressions and date patterns, variables."""
