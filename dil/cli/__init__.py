"""The dil command."""
