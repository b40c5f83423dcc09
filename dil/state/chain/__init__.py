"""The chain's rows: its head, its past, and commits that follow another writer's commit."""
