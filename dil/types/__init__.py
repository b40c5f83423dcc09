"""Types of columns: how they widen, how schemas merge, and which values fit a type exactly.

Beside that stand the words of those who keep columns: Avro, Delta, Iceberg, Hive, warehouses.
"""
