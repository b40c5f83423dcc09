"""What people do by hand: preview a source, amend state, backfill, compact, drop timelabels."""
