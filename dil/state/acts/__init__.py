"""What operators do to state: proposals, and the commits that they become."""
