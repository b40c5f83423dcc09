"""Connects to the databases of the outside world, with one module for each engine.

State stores, warehouses and the JDBC connector use a database through these modules: they know how
to connect, how to write values and names, and what errors mean. Drivers are imported at the first
connection.
"""
