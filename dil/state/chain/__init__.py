"""The chain's rows: its tip, its past, and how a commit goes on after another one's."""
