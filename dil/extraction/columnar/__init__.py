"""Columnar files, Parquet and ORC, as Arrow rows."""
