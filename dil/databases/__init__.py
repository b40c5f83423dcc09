"""The databases of the outside world, one module for each engine.

State stores, warehouses and the JDBC connector use a database through these modules: how to
connect, how to write values and names, and the meaning of errors. Drivers are imported at the first
connection.
"""
