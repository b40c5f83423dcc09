"""Takes a work unit through connector, extractor, converters and writer; knows no Spark."""
