"""Commands that operators give by hand: previews, amendments, backfills, compaction, timelabels."""
