"""The databases of the outside world, one module for each engine.

State stores, warehouses and the JDBC connector meet a database here: how to connect, how a value
and a name are written, and what its errors mean. Drivers are imported when one connects.
"""
