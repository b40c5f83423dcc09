"""One request after another, until the rules say stop."""
