"""Changes of state by operators: proposals, and the commits that they become."""
