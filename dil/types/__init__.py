"""Types of columns: how they widen, how schemas merge, and which values fit a type exactly.

It also has the types of the systems that store columns: Avro, Delta, Iceberg, Hive, warehouses.
"""
