"""Avro container files as Arrow rows."""
