"""What a plug-in author inherits."""
