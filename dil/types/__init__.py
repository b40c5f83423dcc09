"""Types of columns: how they widen, how schemas merge, which values fit a type exactly.

The package also has the types of systems that store columns: Avro, Delta, Iceberg, Hive,
warehouses.
"""
