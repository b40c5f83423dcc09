"""One module for each kind of database: how to connect, and how rows become record batches."""
